package rdma

import (
	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/topology"
)

// NearestTo is the usable HCAs nearest to a PCI function, a GPU, in their order, and how near they are.
func (inv *Inventory) NearestTo(p topology.PCIPath) (list []*HCA, at topology.Distance) {
	at = topology.NoDistance
	for _, h := range inv.Usable() {
		switch d := h.Path.To(p); {
		case d < at:
			list, at = []*HCA{h}, d
		case d == at:
			list = append(list, h)
		}
	}
	return list, at
}

// NearestToCPUs is the usable HCAs of whose near CPUs a set has the largest part, in their order. A set that
// is near to none, or to all alike, gets all.
func (inv *Inventory) NearestToCPUs(cpus idset.Set) (list []*HCA) {
	best := -1
	for _, h := range inv.Usable() {
		switch n := h.Near.Intersect(cpus).Len(); {
		case n > best:
			list, best = []*HCA{h}, n
		case n == best:
			list = append(list, h)
		}
	}
	return list
}

// Share is one of several HCAs that are equally near, dealt out in turn to ranks by their number among
// those that have the same choice; nil without any.
func Share(list []*HCA, number int) *HCA {
	if len(list) == 0 || number < 0 {
		return nil
	}
	return list[number%len(list)]
}
