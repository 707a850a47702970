package draw

import (
	"fmt"
	"strings"

	"github.com/mpiup/mpiup/topology"
	"github.com/mpiup/mpiup/topology/usable"
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
	device   usable.Device // of a GPU or HCA; Kind "": another device
	names    []string      // of the OS devices here: "ib0", "eth0"
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
	for _, d := range v.Devices {
		if d.At == nil && d.Name == o.Name {
			b.device, b.names = d, nil
		}
	}
	return b
}

// leaf is a PCI function that is a GPU or an HCA, or has a name.
func (v *View) leaf(o *topology.Object) (branch, bool) {
	b := branch{at: o}
	b.device, _ = v.device(o.PCI.Addr)
	for _, d := range o.IO {
		if d.Name != b.device.Name {
			b.names = append(b.names, clean(d.Name))
		}
	}
	return b, b.device.Kind != "" || len(b.names) > 0
}

// title says what a branch is: "GPU NVIDIA 10de:2330", "HCA mlx5_0 (ib0)", "net eth0", "PCI switch".
func (b branch) title() string {
	names := strings.Join(b.names, ", ")
	switch {
	case b.device.Kind == usable.GPU:
		return "GPU " + clean(b.device.Name)
	case b.device.Kind == usable.HCA && names != "":
		return "HCA " + clean(b.device.Name) + " (" + names + ")"
	case b.device.Kind == usable.HCA:
		return "HCA " + clean(b.device.Name)
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

// ports says how an HCA's ports are: "port 1 ACTIVE InfiniBand 400 Gb/sec (4X NDR)".
func (b branch) ports() (all []string) {
	for _, p := range b.device.Ports {
		words := []string{fmt.Sprint("port ", p.Number)}
		for _, w := range []string{p.State, p.Link, p.Rate} {
			if w = clean(w); w != "" {
				words = append(words, w)
			}
		}
		all = append(all, strings.Join(words, " "))
	}
	return all
}
