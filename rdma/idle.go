package rdma

import (
	"fmt"
	"path"

	"github.com/mpiup/mpiup/topology"
	"github.com/mpiup/mpiup/topology/sysfs"
)

// Idle is the kind of an InfiniBand function that offers no RDMA device here.
const Idle Kind = "idle"

// classInfiniBand is the PCI class of InfiniBand adapters (NCCL takes it for a NIC too); that of Ethernet cards with
// RoCE is 0x0200, as of any other Ethernet card.
const classInfiniBand = 0x0207

// AddIdle adds the machine's InfiniBand functions that are none of the HCAs. The node has no driver for them, or has
// given them to virtual machines. Or it keeps RDMA devices apart by network namespace (rdma system set netns
// exclusive) and gave this pod none. A container sees its machine's PCI functions whatever it was granted.
func (inv *Inventory) AddIdle(fsys sysfs.FS, m *topology.Machine) {
	known := map[topology.PCIAddr]bool{}
	for i := range inv.HCAs {
		known[inv.HCAs[i].At] = true
	}
	for _, o := range m.All(topology.TypePCIDevice) {
		if o.PCI.Class != classInfiniBand || known[o.PCI.Addr] || len(inv.HCAs) >= maxHCAs {
			continue
		}
		at := o.PCI.Addr.String()
		h := HCA{Name: "InfiniBand " + at, Kind: Idle, At: o.PCI.Addr, Node: o.Place().Nodes.First(), Near: o.Place().CPUs}
		h.Path, _ = m.PCIPath(o.PCI.Addr)
		if link, err := fsys.Link("sys/bus/pci/devices/" + at + "/driver"); err == nil && plain(path.Base(link)) {
			h.Driver = path.Base(link)
		}
		switch h.Driver {
		case "":
			h.Missing, h.Denied = "driver on the node", "the node has no driver for it: install one, as the NVIDIA network operator does"
		case "vfio-pci", "pci-stub", "uio_pci_generic":
			h.Missing = "driver for RDMA on the node"
			h.Denied = fmt.Sprintf("the node has given it to virtual machines or user programs (driver %s)", h.Driver)
		default:
			h.Missing = "RDMA device of " + h.Driver
			h.Denied = fmt.Sprintf("its driver %s shows no RDMA device here: request one of the RDMA device plugin "+
				"(resources.limits), or load mlx5_ib on the node", h.Driver)
		}
		inv.HCAs = append(inv.HCAs, h)
	}
}
