package draw

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/mpiup/mpiup/rdma"
	"github.com/mpiup/mpiup/topology"
)

func hex(v uint16) string { return fmt.Sprintf("%04x", v) }

// buses is what is behind a bridge: "0000:[3a-3f]".
func buses(b *topology.Bridge) string {
	if b.Secondary == b.Subordinate {
		return fmt.Sprintf("%04x:%02x", b.Domain, b.Secondary)
	}
	return fmt.Sprintf("%04x:%02x-%02x", b.Domain, b.Secondary, b.Subordinate)
}

// branch is a part of the PCI tree that is worth showing: a device with a name, or a bridge with
// more than one such part behind it.
type branch struct {
	at       *topology.Object
	device   device   // of a GPU or HCA
	names    []string // of the OS devices here: "ib0", "eth0"
	branches []branch
}

// branches is what is worth showing of I/O objects. Bridges with one way on are left out.
func (v *View) branches(list []*topology.Object) (all []branch) {
	for _, o := range list {
		switch o.Type {
		case topology.TypeOSDevice: // without a PCI function
			all = append(all, v.loose(o))
		case topology.TypePCIDevice:
			if b, ok := v.leaf(o); ok {
				all = append(all, b)
			}
		case topology.TypeBridge:
			behind := v.branches(o.IO)
			if len(behind) > 1 {
				behind = []branch{{at: o, branches: behind}}
			}
			all = append(all, behind...)
		}
	}
	return all
}

func (v *View) loose(o *topology.Object) branch {
	b := branch{at: o, names: []string{clean(o.Name)}}
	for _, d := range v.devices() {
		if d.hca != nil && len(d.path().Way) == 0 && d.hca.Name == o.Name {
			b.device, b.names = d, nil
		}
	}
	return b
}

// leaf is a PCI function that is a GPU or an HCA, or has a name.
func (v *View) leaf(o *topology.Object) (branch, bool) {
	b := branch{at: o}
	b.device = v.device(o.PCI.Addr)
	for _, d := range o.IO {
		if b.device.hca == nil || d.Name != b.device.hca.Name {
			b.names = append(b.names, clean(d.Name))
		}
	}
	return b, b.device != (device{}) || len(b.names) > 0
}

// title says what a branch is: "GPU NVIDIA 10de:2330", "HCA mlx5_0 (ib0)", "net eth0", "PCI switch".
func (b branch) title() string {
	names := strings.Join(b.names, ", ")
	switch {
	case b.device.gpu != nil:
		return cmp.Or(b.device.id, "GPU") + " " + b.device.name()
	case b.device.hca != nil:
		title := "HCA " + b.device.name()
		if b.device.hca.Kind == rdma.Idle {
			title = "HCA of InfiniBand"
		}
		if b.device.hca.VF {
			title += ", virtual function"
		}
		if names != "" {
			title += " (" + names + ")"
		}
		return title
	case len(b.branches) == 0:
		return "net " + names
	case b.at.Bridge.Host:
		return "PCI"
	}
	return "PCI bridge"
}

// address is where a branch is.
func (b branch) address() string {
	switch {
	case b.at.PCI != nil:
		return b.at.PCI.Addr.String()
	case b.at.Bridge != nil:
		return buses(b.at.Bridge)
	}
	return ""
}
