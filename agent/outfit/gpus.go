package outfit

import (
	"cmp"
	"slices"
	"strings"

	"github.com/mpiup/mpiup/gpu"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/idset"
)

// gpuChoice is the variables by which ranks of one job see some of the host's GPUs, by rank; nil:
// they see all.
type gpuChoice struct {
	variables map[uint32][]string
	first     map[uint32]gpu.Unit // of a rank's
	units     map[uint32][]int    // which a rank sees, by their numbers
}

// chooseGPUs makes the choice for a job: the units are given out in the order of local ranks.
func (o *Outfit) chooseGPUs() error {
	l := o.job.Launch
	if !l.Needs().GPUs {
		return nil
	}
	inv := o.host.GPUs
	units := inv.Units()
	procs := slices.SortedFunc(slices.Values(l.Procs), func(a, b *apiv1.Proc) int { return cmp.Compare(a.LocalRank, b.LocalRank) })
	cpus := make([]idset.Set, len(procs))
	for i, p := range procs {
		cpus[i] = o.job.Bound.cpus[p.Rank]
	}
	chosen, err := gpu.Assign(l.wishes.gpus, units, cpus)
	if err != nil {
		return err
	}
	c := gpuChoice{make(map[uint32][]string, len(procs)), make(map[uint32]gpu.Unit, len(procs)), make(map[uint32][]int, len(procs))}
	warned := make(map[uint32]bool)
	for i, p := range procs {
		app := l.Apps[p.App]
		if name := gpu.SetAlready(inv.Vendor, o.given(app)); name != "" {
			if !warned[p.App] {
				o.notice(true, "%s is set for %s and stays, so its ranks are given no GPUs by --gpus-per-rank or --gpu-bind", name, app.Argv[0])
			}
			warned[p.App] = true
			continue
		}
		if c.variables[p.Rank], err = gpu.Variables(inv.Vendor, units, chosen[i]); err != nil {
			return err
		}
		c.first[p.Rank], c.units[p.Rank] = units[chosen[i][0]], chosen[i]
	}
	o.gpus = c
	return nil
}

// gpuVariables are a rank's. Of those that go with the choice, what the user set stays.
func (o *Outfit) gpuVariables(p *apiv1.Proc) []string {
	given := o.given(o.job.Programs[p.App].App)
	return slices.DeleteFunc(slices.Clone(o.gpus.variables[p.Rank]), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return given(name)
	})
}

// visibleGPUs is how many GPUs a rank sees, and whether those are some of its host's only; 0 where there are
// none, or where the user or the container chose them.
func (o *Outfit) visibleGPUs(p *apiv1.Proc) (n int, narrowed bool) {
	inv := o.host.FileGPUs
	if n := len(o.gpus.units[p.Rank]); n > 0 {
		return n, true
	}
	if gpu.SetAlready(inv.Vendor, o.given(o.job.Programs[p.App].App)) != "" {
		return 0, false
	}
	return len(inv.Units()), false
}
