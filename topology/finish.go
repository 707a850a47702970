package topology

import (
	"cmp"
	"slices"

	"github.com/mpiup/mpiup/internal/idset"
)

// finish sets what follows from the whole tree: its order, who sees which memory, logical
// numbers, and what is allowed.
func (m *Machine) finish(p *Parts) {
	m.Root.OS = 0
	m.Root.sort()
	m.Root.spreadNodes(idset.Set{})
	m.Root.walk(func(o *Object) {
		o.Logical = len(m.byType[o.Type])
		m.byType[o.Type] = append(m.byType[o.Type], o)
		for up := o.Parent; o.Bridge != nil && up != nil && up.Bridge != nil; up = up.Parent {
			o.Bridge.Depth++
		}
	})
	m.AllowedCPUs = within(p.AllowedCPUs, m.Root.CPUs)
	m.AllowedNodes = within(p.AllowedNodes, m.Root.Nodes)
}

// within is set as far as it is in all; an empty one, and one that has nothing of all, limits
// nothing.
func within(set, all idset.Set) idset.Set {
	if both := set.Intersect(all); !both.Empty() {
		return both
	}
	return all
}

// sort puts children in the order of their first CPU, those without one last, and memory in the
// order of its numbers. I/O is in the order of addresses.
func (o *Object) sort() {
	slices.SortStableFunc(o.Children, func(x, y *Object) int {
		// -1, of the empty set, becomes the largest number
		return cmp.Compare(uint(x.CPUs.First()), uint(y.CPUs.First()))
	})
	slices.SortStableFunc(o.Memory, func(x, y *Object) int { return cmp.Compare(uint(x.OS), uint(y.OS)) })
	for _, c := range o.Children {
		c.sort()
	}
}

// spreadNodes: an object's nodes are those at it, above it and below it.
func (o *Object) spreadNodes(above idset.Set) {
	here := above
	for _, n := range o.Memory {
		here = here.Union(n.Nodes)
	}
	all := here
	for _, c := range o.Children {
		c.spreadNodes(here)
		all = all.Union(c.Nodes)
	}
	o.Nodes = all
}
