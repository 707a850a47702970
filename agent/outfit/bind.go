package outfit

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/layout"
	"github.com/mpiup/mpiup/topology"
)

// Bound is how the ranks of one job are bound here; the zero value: none is.
type Bound struct {
	layout  *layout.Layout // nil: not known
	machine *topology.Machine
	cpus    map[uint32]idset.Set // by rank in the job
	sharing map[string]int       // ranks by the text of their CPUs
}

// Bind says where the ranks of a launch that are bound lie on the machine; nil: that is not known.
func (l *Launch) Bind(on *layout.Layout, machine *topology.Machine) *Bound {
	b := &Bound{layout: on, machine: machine, cpus: l.cpus, sharing: map[string]int{}}
	for _, cpus := range l.cpus {
		b.sharing[cpus.String()]++
	}
	return b
}

// CPUs is those of a rank; empty: it is not bound.
func (b *Bound) CPUs(rank uint32) idset.Set { return b.cpus[rank] }

// Any says that some rank is bound.
func (b *Bound) Any() bool { return len(b.cpus) > 0 }

// memory is the NUMA node whose memory a rank on these CPUs is to have first; nil: they are of several,
// or of a machine with one.
func (b *Bound) memory(cpus idset.Set) *int {
	if b.machine == nil || cpus.Empty() {
		return nil
	}
	nodes := b.machine.All(topology.TypeNUMANode)
	for _, n := range nodes {
		if len(nodes) > 1 && n.CPUs.Covers(cpus) && b.machine.AllowedNodes.Contains(n.OS) {
			return &n.OS
		}
	}
	return nil
}

// Places says to PMIx where a rank is (pmix.locstr, pmix.cpuset); empty: it is not bound.
func (b *Bound) Places(rank int) (locality, cpuset string) {
	cpus, is := b.cpus[uint32(rank)]
	if !is || b.layout == nil {
		return "", ""
	}
	return b.layout.Locality(cpus), cpus.String()
}

// variables keep libraries from binding a bound rank again, and tell OpenMP of its share of the
// cores. Values of the user's and of the container's stay.
//
// OMP_PLACES has one place, all the rank's CPUs, in which every thread may run: an OpenMP that binds by itself
// (Cray's, Fujitsu's) has nowhere narrower to go, and libgomp and libomp leave all masks as they are. Places of
// one core would have libgomp bind the program's first thread to one before main, and with it all processes
// that it starts, such as PyTorch's data loaders. Who binds threads himself is left alone.
func (b *Bound) variables(rank uint32, protocol apiv1.Pmi, given func(name string) bool) (env []string) {
	cpus, is := b.cpus[rank]
	if !is {
		return nil
	}
	add := func(name, value string) {
		if !given(name) {
			env = append(env, name+"="+value)
		}
	}
	if b.layout != nil {
		share := b.layout.Inside(layout.Core, cpus) / b.sharing[cpus.String()]
		add("OMP_NUM_THREADS", strconv.Itoa(max(share, 1)))
	}
	if !slices.ContainsFunc(openMPNames, given) {
		add("OMP_PLACES", onePlace(cpus))
	}
	switch protocol {
	case apiv1.Pmi_PMI_NONE:
	case apiv1.Pmi_PMI_PMIX:
		add("OMPI_MCA_orte_bound_at_launch", "1")
	default:
		add("I_MPI_PIN", "off")
		add("MV2_ENABLE_AFFINITY", "0")
	}
	return env
}

// openMPNames are the variables by which an OpenMP is told where its threads run, the standard's, libomp's and
// libgomp's.
var openMPNames = []string{"OMP_PLACES", "OMP_PROC_BIND", "KMP_AFFINITY", "GOMP_CPU_AFFINITY"}

// onePlace is CPUs as one place of OMP_PLACES: "{0:4,8:1}" (OpenMP 5.2, section 21.1.6).
func onePlace(cpus idset.Set) string {
	var parts []string
	for part := range strings.SplitSeq(cpus.String(), ",") {
		var lo, hi int
		if n, _ := fmt.Sscanf(part, "%d-%d", &lo, &hi); n == 1 {
			hi = lo
		}
		parts = append(parts, fmt.Sprintf("%d:%d", lo, hi-lo+1))
	}
	return "{" + strings.Join(parts, ",") + "}"
}
