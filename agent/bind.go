package agent

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

// bound is how the ranks of one job are bound here; the zero value: none is.
type bound struct {
	layout  *layout.Layout // nil: not known
	machine *topology.Machine
	cpus    map[uint32]idset.Set // by rank in the job
	sharing map[string]int       // ranks by the text of their CPUs
}

// binding reads what the launcher says of its ranks' CPUs, checked already.
func (st *step) binding() *bound {
	b := &bound{}
	if st.launch.Exec != nil {
		return b
	}
	for _, p := range st.launch.Procs {
		cpus, err := idset.Parse(p.Cpus)
		if err != nil || cpus.Empty() {
			continue
		}
		if b.cpus == nil {
			b.cpus, b.sharing = map[uint32]idset.Set{}, map[string]int{}
		}
		b.cpus[p.Rank] = cpus
		b.sharing[cpus.String()]++
	}
	if b.cpus == nil {
		return b
	}
	var err error
	if b.layout, b.machine, err = st.s.agent.host.Layout(); err != nil {
		st.s.log.Info("bound ranks are not told where they are", "cause", err)
	}
	return b
}

// checkCPUs bounds a process's CPUs.
func checkCPUs(p *apiv1.Proc) error {
	if p.Cpus == "" {
		return nil
	}
	cpus, err := idset.Parse(p.Cpus)
	if err != nil || cpus.Last() >= layout.MaxThreads {
		return fmt.Errorf("launch: rank %d with CPUs %.60q", p.Rank, p.Cpus)
	}
	return nil
}

// memory is the NUMA node whose memory a rank on these CPUs is to have first; nil: they are of several,
// or of a machine with one.
func (b *bound) memory(cpus idset.Set) *int {
	if b.machine == nil {
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

// places says to PMIx where a rank is (pmix.locstr, pmix.cpuset); empty: it is not bound.
func (b *bound) places(rank int) (locality, cpuset string) {
	cpus, is := b.cpus[uint32(rank)]
	if !is || b.layout == nil {
		return "", ""
	}
	return b.layout.Locality(cpus), cpus.String()
}

// bindingVariables keep libraries from binding a bound rank again, and tell OpenMP of its share of the
// cores. Values of the user's and of the container's stay.
//
// OMP_PLACES has one place, all the rank's CPUs, in which every thread may run: an OpenMP that binds by itself
// (Cray's, Fujitsu's) has nowhere narrower to go, and libgomp and libomp leave all masks as they are. Places of
// one core would have libgomp bind the program's first thread to one before main, and with it all processes
// that it starts, such as PyTorch's data loaders. Who binds threads himself is left alone.
func (p *proc) bindingVariables(app *apiv1.App) (env []string) {
	b := p.step.bound()
	cpus, is := b.cpus[p.spec.Rank]
	if !is {
		return nil
	}
	add := func(name, value string) {
		if !p.has(app, name) {
			env = append(env, name+"="+value)
		}
	}
	if b.layout != nil {
		share := b.layout.Inside(layout.Core, cpus) / b.sharing[cpus.String()]
		add("OMP_NUM_THREADS", strconv.Itoa(max(share, 1)))
	}
	if !slices.ContainsFunc(openMPNames, p.step.given(app)) {
		add("OMP_PLACES", onePlace(cpus))
	}
	switch p.step.protocolOf(p.spec.App) {
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

// verifyBinding says when a rank that was just started runs on CPUs that it was not bound to.
func (p *proc) verifyBinding() {
	want, is := p.step.bound().cpus[p.spec.Rank]
	if !is {
		return
	}
	got, err := p.process.CPUs()
	if err != nil || len(got) == 0 { // it has ended
		return
	}
	if now := idset.Of(got...); !want.Covers(now) {
		p.step.s.notice(true, "rank %d runs on CPUs %s, and was bound to %s: its program or a tool around it has bound it anew", p.spec.Rank, now, want)
	}
}
