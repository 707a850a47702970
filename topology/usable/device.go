package usable

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/mpiup/mpiup/topology"
	"github.com/mpiup/mpiup/topology/sysfs"
)

// Device is a GPU or an HCA of the machine, which this container may or may not use: /sys shows
// all of the machine's, /dev those that were given.
type Device struct {
	Kind    DeviceKind
	Name    string            // "mlx5_0", "NVIDIA H100 80GB HBM3", "NVIDIA 10de:2330"
	At      *topology.PCIAddr // nil: not on a PCI bus
	Missing string            // what is not there for it to be used, e.g. "/dev/nvidia3"; "": it can be used
	Ports   []Port            // of an HCA
}

// DeviceKind is what a device is.
type DeviceKind string

// The kinds.
const (
	GPU DeviceKind = "gpu"
	HCA DeviceKind = "hca"
)

// Port is a port of an HCA, in the kernel's words.
type Port struct {
	Number int    `json:"port"`
	State  string `json:"state,omitempty"` // "ACTIVE"; "": unknown
	Link   string `json:"link,omitempty"`  // "InfiniBand", "Ethernet"
	Rate   string `json:"rate,omitempty"`  // "400 Gb/sec (4X NDR)"
}

// Usable reports whether this container was given the device.
func (d Device) Usable() bool { return d.Missing == "" }

// maxDevices bounds each kind; an HCA can have a thousand virtual functions.
const maxDevices = 1 << 10

// Devices finds the GPUs and HCAs of a machine, each kind in the order of PCI addresses. Where no
// device files can be seen at all, as in a tree of /sys and /proc alone, every one counts as usable.
func Devices(fsys sysfs.FS, m *topology.Machine) []Device {
	f := files{FS: fsys, dev: fsys.Exists("dev/null")}
	gpus := slices.Concat(f.nvidiaGPUs(m), f.amdGPUs(m), f.intelGPUs(m))
	hcas := f.hcas()
	for _, list := range [][]Device{gpus, hcas} {
		slices.SortStableFunc(list, func(x, y Device) int {
			switch {
			case x.At != nil && y.At != nil:
				return x.At.Compare(*y.At)
			case x.At != nil:
				return -1
			case y.At != nil:
				return 1
			}
			return strings.Compare(x.Name, y.Name)
		})
	}
	return append(gpus[:min(len(gpus), maxDevices)], hcas[:min(len(hcas), maxDevices)]...)
}

// files is where devices are looked for.
type files struct {
	sysfs.FS
	dev bool // device files can be seen
}

// missing is a device file that cannot be used; "" if it can, or none can be seen.
func (f files) missing(name string) string {
	if !f.dev || f.Writable(name) {
		return ""
	}
	return "/" + name
}

// PCI classes of GPUs (pci_ids.h).
const (
	classVGA         = 0x0300
	class3D          = 0x0302
	classDisplay     = 0x0380 // AMD Instinct up to MI250, Intel Data Center GPUs
	classAccelerator = 0x1200 // AMD Instinct from MI300 on
)

// onPCI is the PCI functions of a vendor and classes.
func onPCI(m *topology.Machine, vendor uint16, classes ...uint16) (found []*topology.PCIDevice) {
	for _, o := range m.All(topology.TypePCIDevice) {
		if o.PCI.Vendor == vendor && slices.Contains(classes, o.PCI.Class) {
			found = append(found, o.PCI)
		}
	}
	return found
}

func ids(vendor string, p *topology.PCIDevice) string {
	const digits = "0123456789abcdef"
	hex := func(v uint16) string {
		return string([]byte{digits[v>>12], digits[v>>8&15], digits[v>>4&15], digits[v&15]})
	}
	return vendor + " " + hex(p.Vendor) + ":" + hex(p.Device)
}

// nvidiaGPUs are those on PCI and those that the driver tells of (/proc/driver/nvidia/gpus, where
// NVIDIA's container toolkit leaves only the container's). GPU n of the driver is /dev/nvidiaN, by its
// "Device Minor"; without the driver's word, n counts in the order of addresses.
func (f files) nvidiaGPUs(m *topology.Machine) (gpus []Device) {
	const dir = "proc/driver/nvidia/gpus"
	names, err := f.Names(dir)
	told := err == nil
	information := make(map[topology.PCIAddr]string)
	for _, name := range names[:min(len(names), maxDevices)] {
		if at, err := topology.ParsePCIAddr(strings.ToLower(name)); err == nil {
			information[at], _ = f.Text(dir + "/" + name + "/information")
		}
	}
	add := func(at topology.PCIAddr, name string) {
		info, ours := information[at]
		delete(information, at)
		d := Device{Kind: GPU, Name: name, At: &at}
		if model, ok := field(info, "Model:"); ok && model != "" {
			d.Name = model
		}
		minor := strconv.Itoa(len(gpus))
		if text, ok := field(info, "Device Minor:"); ok && digits(text) {
			minor = text
		}
		if d.Missing = f.missing("dev/nvidia" + minor); told && !ours && d.Missing == "" {
			d.Missing = "/" + dir + "/" + at.String()
		}
		gpus = append(gpus, d)
	}
	for _, p := range onPCI(m, 0x10de, classVGA, class3D) {
		add(p.Addr, ids("NVIDIA", p))
	}
	for _, at := range slices.SortedFunc(maps.Keys(information), topology.PCIAddr.Compare) {
		add(at, "NVIDIA")
	}
	return gpus
}

// amdGPUs are those of the compute driver (/sys/class/kfd, where nodes that compute have SIMDs), and
// those accelerators on PCI that it does not know.
func (f files) amdGPUs(m *topology.Machine) (gpus []Device) {
	const dir = "sys/class/kfd/kfd/topology/nodes"
	nodes, _ := f.Names(dir)
	known := make(map[topology.PCIAddr]bool)
	for _, node := range nodes[:min(len(nodes), maxDevices)] {
		text, err := f.Text(dir + "/" + node + "/properties")
		if err != nil {
			continue // another container's: the kernel answers EPERM (kfd_topology.c, device cgroup)
		}
		value := func(name string) uint64 {
			word, _ := field(text, name+" ")
			n, _ := strconv.ParseUint(word, 10, 32)
			return n
		}
		location := value("location_id")
		at := topology.PCIAddr{Domain: uint32(value("domain")), Bus: uint8(location >> 8), Device: uint8(location >> 3 & 31), Function: uint8(location & 7)}
		if value("simd_count") == 0 || known[at] {
			continue // a processor; a part of a GPU that was divided
		}
		known[at] = true
		d := Device{Kind: GPU, Name: "AMD", At: &at, Missing: f.missing("dev/kfd")}
		if o := m.Device(at); o != nil {
			d.Name = ids("AMD", o.PCI)
		}
		if d.Missing == "" {
			d.Missing = f.missing("dev/dri/renderD" + strconv.FormatUint(value("drm_render_minor"), 10))
		}
		gpus = append(gpus, d)
	}
	for _, p := range onPCI(m, 0x1002, class3D, classDisplay, classAccelerator) {
		if !known[p.Addr] {
			d := Device{Kind: GPU, Name: ids("AMD", p), At: &p.Addr, Missing: f.missing("dev/kfd")}
			if len(known) > 0 {
				d.Missing = "/" + dir
			}
			gpus = append(gpus, d)
		}
	}
	return gpus
}

// intelGPUs are those with a memory of their own: not at 00:02.0, where the processor's graphics is.
func (f files) intelGPUs(m *topology.Machine) (gpus []Device) {
	for _, p := range onPCI(m, 0x8086, classVGA, classDisplay) {
		if p.Addr.Bus == 0 {
			continue
		}
		d := Device{Kind: GPU, Name: ids("Intel", p), At: &p.Addr}
		nodes, _ := f.Names("sys/bus/pci/devices/" + p.Addr.String() + "/drm")
		for _, node := range nodes {
			if strings.HasPrefix(node, "renderD") {
				d.Missing = f.missing("dev/dri/" + node)
			}
		}
		if d.Missing == "" && !slices.ContainsFunc(nodes, func(n string) bool { return strings.HasPrefix(n, "renderD") }) && f.dev {
			d.Missing = "its driver (i915 or xe)"
		}
		gpus = append(gpus, d)
	}
	return gpus
}

func digits(s string) bool {
	return s != "" && len(s) <= 9 && strings.Trim(s, "0123456789") == ""
}
