package agent

import (
	"cmp"
	"slices"
	"strings"

	"github.com/mpiup/mpiup/gpu"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/idset"
)

// gpuUnits is what launchers are told of the GPUs that ranks here can be given.
func (a *Agent) gpuUnits() (units []*apiv1.GpuUnit) {
	for _, u := range a.cfg.GPUs.Units() {
		m := &apiv1.GpuUnit{Vendor: string(a.cfg.GPUs.Vendor), Uuid: u.Name(), Model: u.GPU.Model, NearCpus: u.GPU.Near.String()}
		if u.GPU.Located() {
			m.Pci = u.GPU.At.String()
		}
		units = append(units, m)
	}
	return units
}

// gpuChoice is the variables by which ranks of one job see some of the host's GPUs, by rank; nil:
// they see all.
type gpuChoice struct {
	variables map[uint32][]string
	first     map[uint32]gpu.Unit // of a rank's
	count     map[uint32]int      // how many a rank sees
}

// chooseGPUs makes the choice for a job: the units are given out in the order of local ranks.
func (st *step) chooseGPUs() (c gpuChoice, err error) {
	l := st.launch
	wish, err := gpu.ParseWish(int(l.Job.GpusPerRank), l.Job.GpuBind)
	if err != nil || wish.IsZero() || l.Exec != nil || len(l.Procs) == 0 {
		return c, err
	}
	inv := st.s.agent.host.GPUs(st.may)
	units := inv.Units()
	procs := slices.SortedFunc(slices.Values(l.Procs), func(a, b *apiv1.Proc) int { return cmp.Compare(a.LocalRank, b.LocalRank) })
	cpus := make([]idset.Set, len(procs))
	for i, p := range procs {
		cpus[i] = st.bound().cpus[p.Rank]
	}
	chosen, err := gpu.Assign(wish, units, cpus)
	if err != nil {
		return c, err
	}
	c = gpuChoice{make(map[uint32][]string, len(procs)), make(map[uint32]gpu.Unit, len(procs)), make(map[uint32]int, len(procs))}
	warned := make(map[uint32]bool)
	for i, p := range procs {
		app := l.Apps[p.App]
		if name := gpu.SetAlready(inv.Vendor, st.given(app)); name != "" {
			if !warned[p.App] {
				st.s.notice(true, "%s is set for %s and stays, so its ranks are given no GPUs by --gpus-per-rank or --gpu-bind", name, app.Argv[0])
			}
			warned[p.App] = true
			continue
		}
		if c.variables[p.Rank], err = gpu.Variables(inv.Vendor, units, chosen[i]); err != nil {
			return c, err
		}
		c.first[p.Rank], c.count[p.Rank] = units[chosen[i][0]], len(chosen[i])
	}
	return c, nil
}

// gpuVariables are a rank's. Of those that go with the choice, what the user set stays.
func (p *proc) gpuVariables(app *apiv1.App) []string {
	given := p.step.given(app)
	return slices.DeleteFunc(slices.Clone(p.step.gpus.variables[p.spec.Rank]), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return given(name)
	})
}

// visibleGPUs is how many GPUs a rank sees, and whether those are some of its host's only; 0 where there are
// none, or where the user or the container chose them.
func (p *proc) visibleGPUs(app *apiv1.App) (n int, narrowed bool) {
	inv := p.step.s.agent.cfg.GPUs
	if n := p.step.gpus.count[p.spec.Rank]; n > 0 {
		return n, true
	}
	if gpu.SetAlready(inv.Vendor, p.step.given(app)) != "" {
		return 0, false
	}
	return len(inv.Units()), false
}
