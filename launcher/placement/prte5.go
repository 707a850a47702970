package placement

import (
	"fmt"
	"slices"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/layout"
)

// What Open MPI 5 (PRRTE 3.0.8, src/mca/rmaps) does otherwise than 4.1:
//
//   - Ranks that are mapped to objects are numbered object by object ("fill"), with span round over the
//     objects of all hosts.
//   - A binding without a mapping maps by its own object; ppr binds to the object that ranks are counted
//     by.
//   - Of the objects within its place a rank gets the first that has CPUs left, and with PE=n the first n
//     CPUs left there, in one package where they may be anywhere in the host.
//   - A host takes no more ranks that are bound than it has CPUs for, or n CPUs with PE=n (BindsWithin).
//   - With a list of CPUs each rank is bound to all of them, also with --bind-to core.
//   - With oversubscribe nobody is bound who did not ask for it.

// ranking is --rank-by, or its default where the user did not say it.
func (p Policy) ranking() layout.Ranking {
	r, m := p.Binding.Rank, &p.Binding.Map
	switch {
	case r.By != "" || m.Policy != "object":
	case p.Rules == OpenMPI5 && !m.Span:
		r.By = "fill"
	default:
		r.By, r.Object, r.Span = "object", m.Object, p.Rules == OpenMPI5
	}
	return r
}

// BindsWithin says that 5 gives a host no more ranks than it has CPUs for, n for each rank with PE=n, and then the next
// host its turn: ranks that are bound do not share CPUs (prte_rmaps_base_check_avail). Its ranks are bound where
// binding, objects to map to or PE=n are asked for, which each host must be asked for before any rank has its place.
func (p Policy) BindsWithin() bool {
	m, bind := &p.Binding.Map, &p.Binding.Bind
	switch {
	case p.Rules != OpenMPI5, p.Binding.Lines != nil, p.MapBy == ByRound:
		return false
	case m.PE > 1:
		return true
	case bind.Overload, bind.Said && bind.To == layout.None, p.Oversubscribe && !bind.Said:
		return false
	}
	return bind.Said || m.Object != layout.None || m.PE > 0
}

// roomFor is hosts with as many slots as there are CPUs for (BindsWithin). Where that is too little for all ranks, and
// nobody asked for several CPUs for each, hosts keep their slots: 5 refuses such a job, and here its ranks run unbound.
func (p Policy) roomFor(hosts []job.Host, apps []job.App) []job.Host {
	if !p.BindsWithin() {
		return hosts
	}
	pe := max(p.Binding.Map.PE, 1)
	most := slices.Clone(hosts)
	for i := range most {
		h := &most[i]
		if h.Layout == nil {
			continue
		}
		b := binder{l: h.Layout, target: target{hwt: p.Binding.HWThreads}}
		h.Slots = min(h.Slots, max(b.count(h.Layout.CPUs())/pe, 1))
	}

	_, total := sizesOf(apps)
	if pe == 1 && (total == 0 || total > slotsOf(most)) {
		return hosts
	}
	return most
}

// explained adds to an error about slots that each rank wants several CPUs.
func (p Policy) explained(err error) error {
	if p.Rules == OpenMPI5 && p.Binding.Map.PE > 1 {
		return fmt.Errorf("%w (with %d CPUs for each rank)", err, p.Binding.Map.PE)
	}
	return err
}

// chosen5 turns what 4.1 binds to into what 5 does; nil: nothing is bound.
func (t *target) chosen5(p Policy) *target {
	m, bind := &p.Binding.Map, &p.Binding.Bind
	if p.Oversubscribe && !bind.Said {
		return nil
	}
	t.first = true
	switch {
	case p.Binding.CPUs != nil && m.PE <= 1 && (t.to == layout.Core || t.to == layout.HWThread):
		t.to = layout.None // a list of CPUs, which can be bound to as cores or threads alone, is each rank's as a whole
	case m.Policy == "" && bind.Said && m.PE == 0:
		t.implied, t.blocks = t.to, true
	case m.Policy == "":
		t.implied = layout.None
	case m.Policy == "ppr" && m.Object != layout.None && !bind.Said && m.PE == 0:
		t.to = m.Object
	}
	return t
}

// takeFirst is take by the rules of 5: the first objects of a place that have CPUs left.
func (b *binder) takeFirst(objects []idset.Set, place idset.Set, name string) (cpus idset.Set, err error) {
	if b.pe > 1 {
		place = b.onePackage(objects, place)
	}
	for have := 0; have < max(b.pe, 1); {
		best, laps := -1, 0
		for o, set := range objects {
			n := b.bound[o] / max(b.count(set), 1)
			if place.Overlaps(set) && !cpus.Overlaps(set) && (best < 0 || n < laps) {
				best, laps = o, n
			}
		}
		switch {
		case best < 0 && have == 0:
			return cpus, fmt.Errorf("host %s: %s has no %s to bind to; use another object, or none", b.host.Name, name, b.to)
		case best < 0, b.pe > 1 && laps > 0 && !b.req.Bind.Overload:
			return cpus, fmt.Errorf("host %s has no %d CPUs left in %s for another rank (PE=%d): %w", b.host.Name, b.pe, name, b.pe, errCrowded)
		case laps > 0 && !b.req.Bind.Overload:
			return cpus, b.crowded(best, objects[best])
		}
		b.bound[best]++
		cpus = cpus.Union(objects[best])
		have += max(b.count(objects[best]), 1)
	}
	return cpus, nil
}

// onePackage is the part of a place in the first package that has PE CPUs left there; the whole place,
// where none has.
func (b *binder) onePackage(objects []idset.Set, place idset.Set) idset.Set {
	for _, pkg := range b.l.Objects(layout.Package) {
		part, left := place.Intersect(pkg), 0
		for o, set := range objects {
			if b.bound[o] == 0 && part.Overlaps(set) {
				left += max(b.count(set), 1)
			}
		}
		if left >= b.pe {
			return part
		}
	}
	return place
}
