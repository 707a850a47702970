package topology

import (
	"fmt"
	"strconv"
)

// object writes o and what is below it: memory, then CPUs, then I/O.
func (x *writer) object(o *Object) {
	x.open("object")
	x.attr("type", o.Type.String())
	if o.OS != NoIndex {
		x.number("os_index", o.OS)
	}
	switch o.Type {
	case TypeBridge, TypePCIDevice, TypeOSDevice:
	default:
		x.sets(o)
	}
	x.gp++
	x.number("gp_index", x.gp)
	if o.Name != "" {
		x.attr("name", o.Name)
	}
	if o.Subtype != "" {
		x.attr("subtype", o.Subtype)
	}
	x.attributes(o)
	for _, i := range o.Infos {
		x.info(i)
	}
	if o == x.m.Root {
		x.info(Info{"Backend", "Linux"})
		x.info(Info{"Creator", "mpiup"})
	}
	for _, list := range [][]*Object{o.Memory, o.Children, o.IO} {
		for _, c := range list {
			x.object(c)
		}
	}
	x.close("object")
}

func (x *writer) sets(o *Object) {
	x.attr("cpuset", bitmap(o.CPUs))
	if o == x.m.Root {
		x.attr("complete_cpuset", bitmap(x.m.Present))
		x.attr("allowed_cpuset", bitmap(x.m.AllowedCPUs))
	} else {
		x.attr("complete_cpuset", bitmap(o.CPUs))
	}
	x.attr("nodeset", bitmap(o.Nodes))
	x.attr("complete_nodeset", bitmap(o.Nodes))
	if o == x.m.Root {
		x.attr("allowed_nodeset", bitmap(x.m.AllowedNodes))
	}
}

// attributes writes what objects of one type have. A NUMA node's pages are elements, and the last
// thing written of its attributes for that.
func (x *writer) attributes(o *Object) {
	switch {
	case o.Cache != nil:
		x.attr("cache_size", strconv.FormatUint(o.Cache.Size, 10))
		x.number("depth", o.Cache.Level)
		x.number("cache_linesize", o.Cache.Line)
		x.number("cache_associativity", o.Cache.Associativity)
		x.number("cache_type", int(o.Cache.Kind))
	case o.Group != nil:
		x.number("kind", o.Group.Kind)
		x.number("subkind", o.Group.Subkind)
	case o.Type == TypeOSDevice:
		x.number("osdev_type", int(o.OSDev))
	case o.Memo != nil:
		x.memory(o.Memo)
	}
	if o.Bridge != nil {
		x.bridge(o.Bridge)
	}
	if o.PCI != nil {
		x.pci(o.PCI)
	}
}

func (x *writer) memory(m *Memory) {
	if m.Size > 0 {
		x.attr("local_memory", strconv.FormatUint(m.Size, 10))
	}
	for _, p := range m.Pages {
		x.open("page_type")
		x.attr("size", strconv.FormatUint(p.Size, 10))
		x.attr("count", strconv.FormatUint(p.Count, 10))
		x.close("page_type")
	}
}

// bridge: type "0-1" leads from the host to PCI, "1-1" from PCI to PCI.
func (x *writer) bridge(b *Bridge) {
	kind := "1-1"
	if b.Host {
		kind = "0-1"
	}
	x.attr("bridge_type", kind)
	x.number("depth", b.Depth)
	x.attr("bridge_pci", fmt.Sprintf("%04x:[%02x-%02x]", b.Domain, b.Secondary, b.Subordinate))
}

func (x *writer) pci(p *PCIDevice) {
	x.attr("pci_busid", p.Addr.String())
	x.attr("pci_type", fmt.Sprintf("%04x [%04x:%04x] [%04x:%04x] %02x",
		p.Class, p.Vendor, p.Device, p.SubVendor, p.SubDevice, p.Revision))
	x.attr("pci_link_speed", strconv.FormatFloat(float64(p.LinkSpeed), 'f', 6, 32))
}
