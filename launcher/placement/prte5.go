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
//   - With PE=n a host takes no more ranks than it has n CPUs for.
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

// roomFor is hosts, with as many slots as there are PE=n CPUs for.
func (p Policy) roomFor(hosts []job.Host) []job.Host {
	pe := p.Binding.Map.PE
	if p.Rules != OpenMPI5 || pe < 2 || p.Binding.Lines != nil {
		return hosts
	}
	hosts = slices.Clone(hosts)
	for i := range hosts {
		h := &hosts[i]
		if h.Layout == nil {
			continue
		}
		b := binder{l: h.Layout, target: target{hwt: p.Binding.HWThreads}}
		h.Slots = min(h.Slots, max(b.count(h.Layout.CPUs())/pe, 1))
	}
	return hosts
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
			return cpus, b.lacking(name)
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
