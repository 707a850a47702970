package topology

import (
	"cmp"
	"fmt"
	"strconv"
)

// PCIAddr is where a PCI function is: "0000:3b:00.1" is domain 0, bus 0x3b, device 0, function 1.
type PCIAddr struct {
	Domain   uint32 // 16 bits by the standard; some host controllers (Intel VMD) are beyond
	Bus      uint8
	Device   uint8 // 0 to 31
	Function uint8 // 0 to 7
}

// ParsePCIAddr reads an address as the kernel writes it in /sys/bus/pci/devices, with four or
// more digits of domain.
func ParsePCIAddr(text string) (PCIAddr, error) {
	bad := func() (PCIAddr, error) {
		return PCIAddr{}, fmt.Errorf("%.40q is not a PCI address like 0000:3b:00.1", text)
	}
	n := len(text) - len(":00:00.0")
	if n < 4 || n > 8 || text[n] != ':' || text[n+3] != ':' || text[n+6] != '.' {
		return bad()
	}
	var fields [4]uint64
	for i, part := range []struct {
		text string
		max  uint64
	}{{text[:n], 1<<32 - 1}, {text[n+1 : n+3], 0xff}, {text[n+4 : n+6], 31}, {text[n+7:], 7}} {
		v, err := strconv.ParseUint(part.text, 16, 32)
		if err != nil || v > part.max {
			return bad()
		}
		fields[i] = v
	}
	return PCIAddr{uint32(fields[0]), uint8(fields[1]), uint8(fields[2]), uint8(fields[3])}, nil
}

// String is the address as the kernel writes it.
func (a PCIAddr) String() string {
	return fmt.Sprintf("%04x:%02x:%02x.%x", a.Domain, a.Bus, a.Device, a.Function)
}

// Compare orders addresses by domain, bus, device and function.
func (a PCIAddr) Compare(b PCIAddr) int {
	return cmp.Or(cmp.Compare(a.Domain, b.Domain), cmp.Compare(a.Bus, b.Bus),
		cmp.Compare(a.Device, b.Device), cmp.Compare(a.Function, b.Function))
}

// PCIDevice is one PCI function.
type PCIDevice struct {
	Addr           PCIAddr
	Class          uint16 // 0x0207: InfiniBand, 0x0302: 3D controller ...
	Vendor, Device uint16
	SubVendor      uint16
	SubDevice      uint16
	Revision       uint8
	LinkSpeed      float32 // GB/s in one direction; 0: unknown
}

// ClassPCIBridge is the class of bridges from PCI to PCI (pci_ids.h).
const ClassPCIBridge = 0x0604
