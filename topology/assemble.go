package topology

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/mpiup/mpiup/internal/idset"
)

// builder is the tree while it grows.
type builder struct {
	root    *Object
	present idset.Set // CPUs, offline ones too
	inner   []*Object // by CPU: the innermost object that holds it
}

// New assembles a machine the way hwloc does. Parts that contradict others (a core in two
// packages) are left out, as are groups that say nothing new; an error means that no machine can
// be made at all.
func New(p Parts) (*Machine, error) {
	if err := p.check(); err != nil {
		return nil, fmt.Errorf("topology: %w", err)
	}
	root := &Object{Type: TypeMachine, CPUs: p.Online, Infos: p.Hardware}
	b := &builder{root: root, present: p.Present.Union(p.Online), inner: make([]*Object, p.Online.Last()+1)}
	for cpu := range p.Online.All() {
		b.inner[cpu] = root
	}
	b.addParts(&p)
	nodes := b.addNodes(&p)
	b.groupByDistance(&p, nodes)
	b.addPCI(p.PCI)
	b.addDevices(p.Devices, nodes)
	b.dropUselessGroups()
	m := &Machine{
		Root: root, Present: b.present, Latency: p.Latency, Kinds: onlineKinds(&p), Affinity: p.Affinity,
	}
	m.finish(&p)
	return m, nil
}

func onlineKinds(p *Parts) (kinds []CPUKind) {
	for _, k := range p.Kinds {
		if k.CPUs = k.CPUs.Intersect(p.Online); !k.CPUs.Empty() {
			kinds = append(kinds, k)
		}
	}
	slices.SortStableFunc(kinds, func(a, b CPUKind) int { return cmp.Compare(a.Order, b.Order) })
	if len(kinds) < 2 {
		return nil
	}
	return kinds
}

// addParts makes the objects that are ordered by CPU sets alone. From the largest to the
// smallest, each goes into the innermost object that holds all its CPUs.
func (b *builder) addParts(p *Parts) {
	objects := parts(p)
	sizes := make(map[*Object]int, len(objects))
	for _, o := range objects {
		sizes[o] = o.CPUs.Len()
	}
	slices.SortStableFunc(objects, func(x, y *Object) int {
		return cmp.Or(cmp.Compare(sizes[y], sizes[x]), cmp.Compare(x.Type, y.Type), cmp.Compare(x.CPUs.First(), y.CPUs.First()))
	})
	for _, o := range objects {
		b.place(o)
	}
}

// parts is the objects of all parts that have CPUs online.
func parts(p *Parts) (objects []*Object) {
	add := func(t Type, os int, cpus idset.Set, infos []Info) *Object {
		cpus = cpus.Intersect(p.Online)
		o := &Object{Type: t, OS: os, CPUs: cpus, Infos: infos}
		if !cpus.Empty() {
			objects = append(objects, o)
		}
		return o
	}
	for _, kind := range []struct {
		t    Type
		list []Part
	}{{TypePackage, p.Packages}, {TypeDie, p.Dies}, {TypeCore, p.Cores}, {TypeGroup, p.Clusters}} {
		for _, part := range kind.list {
			o := add(kind.t, part.OS, part.CPUs, part.Infos)
			if kind.t == TypeGroup {
				o.Group, o.Subtype = &Group{Kind: GroupCluster}, "Cluster"
			}
		}
	}
	for i := range p.Caches {
		c := &p.Caches[i]
		if t, ok := cacheType(c.Level, c.Kind); ok {
			add(t, c.OS, c.CPUs, nil).Cache = &c.Cache
		}
	}
	for cpu := range p.Online.All() {
		add(TypePU, cpu, idset.Of(cpu), nil)
	}
	return objects
}

// place puts o into the tree, unless it is there already or overlaps another.
func (b *builder) place(o *Object) {
	parent := b.inner[o.CPUs.First()]
	for cpu := range o.CPUs.All() {
		if b.inner[cpu] != parent {
			return // part of it lies elsewhere
		}
	}
	if same := parent.CPUs.Equal(o.CPUs); same && (parent.Type == o.Type || o.Type == TypeGroup) {
		return
	}
	o.Parent = parent
	parent.Children = append(parent.Children, o)
	for cpu := range o.CPUs.All() {
		b.inner[cpu] = o
	}
}

// around is the outermost object below the machine that holds exactly these CPUs, else the
// innermost that holds them and more.
func (b *builder) around(cpus idset.Set) *Object {
	o := b.inner[cpus.First()]
	for !o.CPUs.Covers(cpus) {
		o = o.Parent
	}
	for o.CPUs.Equal(cpus) && o != b.root && o.Parent != b.root && o.Parent.CPUs.Equal(cpus) {
		o = o.Parent
	}
	return o
}

// insertGroup makes a group of CPUs inside parent, around those of its children that it holds.
// It is nil if the group would cut through a child.
func (b *builder) insertGroup(parent *Object, cpus idset.Set, g Group) *Object {
	var inside, beside []*Object
	for _, c := range parent.Children {
		switch {
		case !c.CPUs.Empty() && cpus.Covers(c.CPUs):
			inside = append(inside, c)
		case cpus.Overlaps(c.CPUs):
			return nil
		default:
			beside = append(beside, c)
		}
	}
	o := &Object{Type: TypeGroup, OS: NoIndex, CPUs: cpus, Group: &g, Parent: parent, Children: inside}
	for _, c := range inside {
		c.Parent = o
	}
	parent.Children = append(beside, o)
	return o
}

// dropUselessGroups takes out groups that are all there is in their parent, as hwloc does with
// levels that add no structure.
func (b *builder) dropUselessGroups() {
	for len(b.root.Children) == 1 && b.root.Children[0].Type == TypeGroup {
		b.root.dissolve(b.root.Children[0])
	}
	packages := 0
	dies := true // one in each package
	for _, o := range b.root.Children {
		if o.Type == TypePackage {
			packages++
			dies = dies && len(o.Children) == 1 && o.Children[0].Type == TypeDie
		}
	}
	if packages < len(b.root.Children) || !dies {
		return
	}
	for _, o := range b.root.Children {
		o.dissolve(o.Children[0])
	}
}

// dissolve takes out the only child of o, whose own take its place.
func (o *Object) dissolve(child *Object) {
	o.Children, o.Memory, o.IO = child.Children, append(o.Memory, child.Memory...), append(o.IO, child.IO...)
	for _, list := range [][]*Object{child.Children, child.Memory, child.IO} {
		for _, c := range list {
			c.Parent = o
		}
	}
}
