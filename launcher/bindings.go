package launcher

import (
	"fmt"
	"log/slog"

	"github.com/mpiup/mpiup/launcher/reach"

	"github.com/mpiup/mpiup/internal/api/machine"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/layout"
	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/launcher/placement"
)

// machineWish is what agents are to tell of their machines: nothing where ranks are neither bound nor
// mapped to objects, and by default only what a binding that does no harm needs.
func machineWish(p placement.Policy) apiv1.MachineWish {
	b := &p.Binding
	switch {
	case b.Map.Object != layout.None:
		return apiv1.MachineWish_MACHINE_ALWAYS
	case b.Bind.Said && b.Bind.To == layout.None && !b.Bind.List && !b.Listed() && b.Hydra == nil:
		return apiv1.MachineWish_MACHINE_NOT_WANTED
	case b.Asked():
		return apiv1.MachineWish_MACHINE_ALWAYS
	}
	return apiv1.MachineWish_MACHINE_IF_EXCLUSIVE
}

// layoutOf is what a host's agent tells of its machine; nil: nothing, or nothing that makes sense.
func layoutOf(f reach.Found, log *slog.Logger) *layout.Layout {
	l, err := machine.Unpack(f.Session.Opened.Machine)
	if err != nil {
		log.Warn("a host's machine is not understood", "host", f.Entry.Name, "err", err)
		return nil
	}
	return l
}

// early is the policy before any host was asked; ok is false where hosts must be asked first.
func early(p placement.Policy) (_ placement.Policy, ok bool) {
	m := p.Binding.Map
	if p.Binding.Lines != nil || m.Span || m.Policy == "ppr" && m.Object != layout.None {
		return p, false
	}
	if m.Policy == "object" {
		p.MapBy = placement.BySlot
	}
	p.Binding.Map, p.Binding.Rank = p.Binding.Map.Unmapped(), p.Binding.Rank.Unmapped()
	p.Binding.Bind.Said, p.Binding.Bind.To, p.Binding.Bind.List = true, layout.None, false
	p.Binding.Hydra, p.Binding.CPUs, p.Binding.Ordered = nil, nil, false
	return p, true
}

// reportBinding says where a rank that has just started is bound, in Open MPI's words.
func (r *run) reportBinding(j *jobRun, id int, pid int32) {
	if !r.cfg.ReportBindings {
		return
	}
	pl := j.plan.Placements[id-j.base]
	host := j.plan.Hosts[pl.Host]
	what := "is not bound (or bound to all available processors)"
	if host.Layout != nil && !pl.CPUs.Empty() {
		what = "bound to " + r.cfg.Policy.Bound(host.Layout, pl.CPUs, ": ")
	}
	who := fmt.Sprintf("MCW rank %d", pl.Rank)
	if r.cfg.Policy.Rules == placement.OpenMPI5 {
		who = fmt.Sprintf("Rank %d", pl.Rank)
	}
	if j.number > 0 {
		who = r.rankName(id)
	}
	fmt.Fprintf(r.cfg.Stderr, "[%s:%05d] %s %s\n", visible.Line(host.Name), pid, who, what)
}

// sayUnbound tells who looks closely why nobody is bound.
func (r *run) sayUnbound() {
	if r.plan.Unbound == "" {
		return
	}
	if text := "ranks are not bound to CPUs: " + r.plan.Unbound; r.cfg.ReportBindings || r.cfg.ShowMap || r.cfg.MapOfOpenMPI {
		r.say("%s (mpiup help binding)", text)
	} else {
		r.cfg.Log.Info(text)
	}
}

// takenOn is the CPUs of each process that is bound on a host and has not ended.
func (r *run) takenOn(host int) (taken []idset.Set) {
	for _, j := range r.jobs {
		for rank, pl := range j.plan.Placements {
			id := j.base + rank
			if !pl.CPUs.Empty() && r.places.hostOf(id) == host && !r.ranks[id].state.over() {
				taken = append(taken, pl.CPUs)
			}
		}
	}
	return taken
}
