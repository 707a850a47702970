package topology

import (
	"cmp"
	"slices"

	"github.com/mpiup/mpiup/internal/idset"
)

// addPCI builds the tree of buses and hangs each host bridge at the CPUs near its first
// function. Functions come in the order of their addresses, so that a bridge comes before what
// is behind it.
func (b *builder) addPCI(all []PCIPart) {
	all = slices.Clone(all)
	slices.SortFunc(all, func(x, y PCIPart) int { return x.Addr.Compare(y.Addr) })
	all = slices.CompactFunc(all, func(x, y PCIPart) bool { return x.Addr == y.Addr })
	var tops []*Object // in no PCI bridge
	near := make(map[*Object]idset.Set)
	bridges := make(map[uint32][]*Object) // by domain, those seen so far
	for i := range all {
		p := &all[i]
		o := pciObject(p)
		if parent := holder(bridges[p.Addr.Domain], p.Addr.Bus); parent != nil {
			o.Parent = parent
			parent.IO = append(parent.IO, o)
		} else {
			tops = append(tops, o)
			near[o] = p.Near
		}
		if o.Bridge != nil {
			bridges[p.Addr.Domain] = append(bridges[p.Addr.Domain], o)
		}
	}
	for _, host := range hostBridges(tops) {
		parent := b.nearParent(near[host.IO[0]])
		host.Parent = parent
		parent.IO = append(parent.IO, host)
	}
}

func pciObject(p *PCIPart) *Object {
	o := &Object{Type: TypePCIDevice, OS: NoIndex, PCI: &p.PCIDevice}
	if p.Secondary > p.Addr.Bus && p.Subordinate >= p.Secondary {
		o.Type = TypeBridge
		o.Bridge = &Bridge{Domain: p.Addr.Domain, Secondary: p.Secondary, Subordinate: p.Subordinate}
	}
	return o
}

// holder is the innermost bridge with a bus behind it. Later bridges of a domain are further in.
func holder(bridges []*Object, bus uint8) *Object {
	for _, o := range slices.Backward(bridges) {
		if o.Bridge.Secondary <= bus && bus <= o.Bridge.Subordinate {
			return o
		}
	}
	return nil
}

// hostBridges makes one bridge from the processors for each bus that no PCI bridge leads to.
func hostBridges(tops []*Object) (hosts []*Object) {
	var last *Object
	for _, o := range tops {
		at := o.PCI.Addr
		if last == nil || last.Bridge.Domain != at.Domain || last.Bridge.Secondary != at.Bus {
			last = &Object{Type: TypeBridge, OS: NoIndex,
				Bridge: &Bridge{Host: true, Domain: at.Domain, Secondary: at.Bus, Subordinate: at.Bus}}
			hosts = append(hosts, last)
		}
		if o.Bridge != nil {
			last.Bridge.Subordinate = max(last.Bridge.Subordinate, o.Bridge.Subordinate)
		}
		o.Parent = last
		last.IO = append(last.IO, o)
	}
	return hosts
}

// nearParent is what a host bridge with these CPUs near it hangs at.
func (b *builder) nearParent(cpus idset.Set) *Object {
	cpus = cpus.Intersect(b.present)
	online := cpus.Intersect(b.root.CPUs)
	if online.Empty() || b.present.Equal(cpus) {
		return b.root
	}
	o := b.around(online)
	for o.Parent != nil && o.Parent.CPUs.Equal(o.CPUs) {
		o = o.Parent
	}
	if o.CPUs.Equal(online) {
		return o
	}
	if g := b.insertGroup(o, online, Group{Kind: GroupIO}); g != nil {
		return g
	}
	return o
}

// addDevices hangs OS devices at their PCI function, else near their NUMA node, else at the
// machine.
func (b *builder) addDevices(devices []DevicePart, nodes map[int]*Object) {
	at := make(map[PCIAddr]*Object)
	b.root.walk(func(o *Object) {
		if o.PCI != nil {
			at[o.PCI.Addr] = o
		}
	})
	devices = slices.Clone(devices)
	slices.SortStableFunc(devices, func(x, y DevicePart) int {
		return cmp.Or(cmp.Compare(x.Kind, y.Kind), cmp.Compare(x.Name, y.Name))
	})
	for _, d := range devices {
		parent := b.root
		if node := nodes[d.Node]; node != nil {
			parent = node.Place()
		}
		if d.At != nil && at[*d.At] != nil {
			parent = at[*d.At]
		}
		o := &Object{Type: TypeOSDevice, OS: NoIndex, Name: d.Name, OSDev: d.Kind, Infos: d.Infos, Parent: parent}
		parent.IO = append(parent.IO, o)
	}
}
