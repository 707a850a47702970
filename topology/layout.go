package topology

import (
	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/layout"
)

// Layout is where the hardware threads of a set lie, as far as they are the machine's. NUMA nodes are
// those whose memory is allowed; of several near the same CPUs the first counts.
func (m *Machine) Layout(usable idset.Set) (*layout.Layout, error) {
	node := make(map[int]int)
	for i, n := range m.All(TypeNUMANode) {
		if !m.AllowedNodes.Contains(n.OS) {
			continue
		}
		for cpu := range n.CPUs.All() {
			if _, has := node[cpu]; !has {
				node[cpu] = i
			}
		}
	}
	var threads []layout.Thread
	for _, pu := range m.All(TypePU) {
		if !usable.Contains(pu.OS) {
			continue
		}
		t := layout.Thread{CPU: pu.OS}
		for _, k := range layout.Kinds() {
			t.In[k] = -1
		}
		if n, has := node[pu.OS]; has {
			t.In[layout.NUMA] = n
		}
		for o := pu.Parent; o != nil; o = o.Parent {
			if k := kindOf(o.Type); k != layout.None {
				t.In[k] = o.Logical
			}
		}
		threads = append(threads, t)
	}
	return layout.New(threads)
}

func kindOf(t Type) layout.Kind {
	switch t {
	case TypeCore:
		return layout.Core
	case TypeL1Cache:
		return layout.L1
	case TypeL2Cache:
		return layout.L2
	case TypeL3Cache:
		return layout.L3
	case TypePackage:
		return layout.Package
	}
	return layout.None
}
