package discover

import (
	"slices"
	"strconv"
	"strings"

	"github.com/mpiup/mpiup/topology"
	"github.com/mpiup/mpiup/topology/sysfs"
)

const pciDir = "sys/bus/pci/devices"

// maxPCI bounds PCI functions; machines with a thousand virtual functions exist.
const maxPCI = 1 << 14

// readPCI finds PCI functions, in the order of their addresses.
func (r *reader) readPCI() {
	names, _ := r.fs.Names(pciDir)
	var found []topology.PCIAddr
	for _, name := range names {
		if at, err := topology.ParsePCIAddr(name); err == nil && at.String() == name {
			found = append(found, at)
		}
	}
	slices.SortFunc(found, topology.PCIAddr.Compare)
	buses := busTracker{}
	for _, at := range found[:min(len(found), maxPCI)] {
		dir := pciDir + "/" + at.String()
		p, ok := r.function(at, dir)
		if !ok {
			continue
		}
		if buses.startsHostBridge(p) {
			p.Near, _ = r.fs.Mask(dir + "/local_cpus")
		}
		r.parts.PCI = append(r.parts.PCI, p)
	}
}

// busTracker tells which functions are the first of a host bridge's, in the order of addresses.
type busTracker struct {
	any       bool
	last      topology.PCIAddr // the last function that is not behind a PCI bridge
	domain    uint32
	reachable [256]bool // buses of the domain behind a PCI bridge
}

func (b *busTracker) startsHostBridge(p topology.PCIPart) bool {
	at := p.Addr
	if !b.any || b.domain != at.Domain {
		b.domain, b.reachable = at.Domain, [256]bool{}
	}
	starts := !b.reachable[at.Bus] && (!b.any || b.last.Domain != at.Domain || b.last.Bus != at.Bus)
	if !b.reachable[at.Bus] {
		b.any, b.last = true, at
	}
	for bus := int(p.Secondary); p.Secondary > 0 && bus <= int(p.Subordinate); bus++ {
		b.reachable[bus] = true
	}
	return starts
}

// function reads one PCI function. uevent has most of it in one file. A bridge is skipped
// if its buses do not follow its own.
func (r *reader) function(at topology.PCIAddr, dir string) (topology.PCIPart, bool) {
	p := topology.PCIPart{PCIDevice: topology.PCIDevice{Addr: at}}
	text, _ := r.fs.Text(dir + "/uevent")
	field, _ := sysfs.Field(text, "PCI_CLASS=")
	class, ok := hexOf(field)
	if !ok {
		class, ok = r.hexOf(dir + "/class")
	}
	if !ok {
		return p, false
	}
	p.Class = uint16(class >> 8)
	p.Vendor, p.Device = r.pair(text, "PCI_ID=", dir, "vendor", "device")
	p.SubVendor, p.SubDevice = r.pair(text, "PCI_SUBSYS_ID=", dir, "subsystem_vendor", "subsystem_device")
	var config []byte // the standard header
	readConfig := func(offset int) byte {
		if config == nil {
			config, _ = r.fs.Prefix(dir+"/config", 64)
			config = append(config, make([]byte, 64-len(config))...)
		}
		return config[offset]
	}
	if revision, ok := r.hexOf(dir + "/revision"); ok { // since Linux 4.10
		p.Revision = uint8(revision)
	} else {
		p.Revision = readConfig(0x08)
	}
	p.LinkSpeed = r.linkSpeed(dir)
	if p.Class != topology.ClassPCIBridge {
		return p, true
	}
	second, err := r.fs.Int(dir + "/secondary_bus_number") // since Linux 4.13
	last, err2 := r.fs.Int(dir + "/subordinate_bus_number")
	if err != nil || err2 != nil {
		if readConfig(0x0e)&0x7f != 1 { // header type
			return p, true
		}
		second, last = int(readConfig(0x19)), int(readConfig(0x1a))
	}
	if second <= int(at.Bus) || last < second || last > 255 {
		return p, false
	}
	p.Secondary, p.Subordinate = uint8(second), uint8(last)
	return p, true
}

// pair is two numbers "8086:0D57" of uevent, else two files.
func (r *reader) pair(uevent, name, dir, first, second string) (uint16, uint16) {
	value, _ := sysfs.Field(uevent, name)
	a, b, _ := strings.Cut(value, ":")
	x, ok := hexOf(a)
	y, ok2 := hexOf(b)
	if !ok || !ok2 {
		x, _ = r.hexOf(dir + "/" + first)
		y, _ = r.hexOf(dir + "/" + second)
	}
	return uint16(x), uint16(y)
}

// hexOf reads a file "0x8086".
func (r *reader) hexOf(name string) (uint64, bool) {
	text, err := r.fs.Text(name)
	if err != nil {
		return 0, false
	}
	return hexOf(text)
}

func hexOf(text string) (uint64, bool) {
	n, err := strconv.ParseUint(strings.TrimPrefix(text, "0x"), 16, 32)
	return n, err == nil
}

// linkSpeed is what a PCI Express link carries, GB/s in one direction. It is current_link_speed ("8.0 GT/s PCIe")
// times current_link_width lanes, less the encoding: 8b/10b, from generation 3 on 128b/130b, from 6 on 242B of 256B
// (PCI Express Base Specification 6.0, 4.2.1 to 4.2.3).
func (r *reader) linkSpeed(dir string) float32 {
	text, err := r.fs.Text(dir + "/current_link_speed")
	if err != nil {
		return 0
	}
	number, _, _ := strings.Cut(text, " ")
	rate, err := strconv.ParseFloat(number, 32)
	if err != nil || !(rate > 0 && rate <= 1024) {
		return 0 // "Unknown"
	}
	lanes, _ := r.fs.Int(dir + "/current_link_width")
	share := 242.0 / 256
	switch {
	case rate <= 5:
		share = 0.8
	case rate <= 32:
		share = 128.0 / 130
	}
	return float32(rate * share * float64(min(max(lanes, 0), 64)) / 8)
}
