package discover

import (
	"errors"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/topology"
)

// Limits is what this process may use of a machine's processors and memories.
type Limits struct {
	CPUs    idset.Set // hardware threads: online, in the cpuset and in the affinity mask
	Memory  idset.Set // NUMA nodes whose memory it may use
	Quota   float64   // CFS quota in CPUs; 0: none
	Sharing Sharing
}

// Sharing says whether others run on the same CPUs.
type Sharing string

// The kinds of sharing. Kubernetes gives a container CPUs of its own only by the static CPU manager,
// and then a quota that covers them, or none.
const (
	Whole     Sharing = "machine"   // all CPUs that are online, and no quota below them
	Exclusive Sharing = "exclusive" // some of the CPUs, and no quota below them
	Shared    Sharing = "shared"    // a quota below the CPUs: others run there too
)

// Limit joins a machine with what is allowed of it. The result is good even when the error is not nil:
// what could not be read limits nothing, and the error names it.
func (g *Cgroups) Limit(m *topology.Machine) (Limits, error) {
	l := Limits{CPUs: m.AllowedCPUs, Memory: m.AllowedNodes}
	if both := l.CPUs.Intersect(m.Affinity); !both.Empty() {
		l.CPUs = both
	}
	mems, memsErr := statusList(g.fs, "Mems_allowed_list") // none of a kernel without NUMA
	if both := l.Memory.Intersect(mems); !both.Empty() {
		l.Memory = both
	}
	quota, quotaErr := g.quota()
	l.Quota = quota
	l.Sharing = sharing(l, m.Root.CPUs)
	return l, errors.Join(missing(memsErr), missing(quotaErr))
}

func sharing(l Limits, online idset.Set) Sharing {
	switch {
	case l.Quota > 0 && l.Quota < float64(l.CPUs.Len()):
		return Shared
	case l.CPUs.Equal(online):
		return Whole
	}
	return Exclusive
}

// Of reports whether any of an object of the machine may be used: a CPU of it, or a memory in it. An
// I/O object is where it hangs.
func (l Limits) Of(o *topology.Object) bool {
	if o.Type == topology.TypeNUMANode {
		return l.Memory.Contains(o.OS)
	}
	if o.CPUs.Overlaps(l.CPUs) {
		return true
	}
	for _, list := range [][]*topology.Object{o.Memory, o.Children} {
		for _, c := range list {
			if l.Of(c) {
				return true
			}
		}
	}
	return false
}

// Summary counts what may be used.
type Summary struct {
	Packages  int `json:"packages"`   // with a usable CPU or memory
	NUMANodes int `json:"numa_nodes"` // whose memory may be used, GPUs' memory not counted
	Cores     int `json:"cores"`      // with a usable CPU
	CPUs      int `json:"cpus"`       // hardware threads
	GPUs      int `json:"gpus"`
	HCAs      int `json:"hcas"`
}

// Summary counts what may be used of a machine, and has the numbers of GPUs and HCAs that packages gpu and rdma
// count.
func (l Limits) Summary(m *topology.Machine, gpus, hcas int) Summary {
	s := Summary{Packages: l.count(m, topology.TypePackage), Cores: l.count(m, topology.TypeCore), CPUs: l.CPUs.Len(), GPUs: gpus, HCAs: hcas}
	for _, o := range m.All(topology.TypeNUMANode) {
		if l.Of(o) && o.Subtype != topology.GPUMemory {
			s.NUMANodes++
		}
	}
	return s
}

func (l Limits) count(m *topology.Machine, t topology.Type) (n int) {
	for _, o := range m.All(t) {
		if l.Of(o) {
			n++
		}
	}
	return n
}
