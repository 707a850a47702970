package slow

import (
	"slices"
	"time"
)

// A Cause is what a slow rank did that the others did not, as far as it shows.
type Cause uint8

// The causes.
const (
	Unclear   Cause = iota
	Throttled       // its container was kept from running by its CPU quota
	Queued          // it was ready to run, and others had the processors
	Blocked         // it waited for storage
	Busy            // it ran all the time: it has more to do, or a slower processor
	Still           // it neither ran nor waited for any of these
)

// Reason is a cause and its share of the window.
type Reason struct {
	Cause Cause
	Share float64
}

// explains is how much of the lost time a cause must be.
const explains = 0.5

// cause finds what explains that the others wait for the named ranks: it differs from the others', and is as large as what they lost.
func (w *Watch) cause(f Finding) Reason {
	named := f.Ranks[0]
	theirs := w.shares(named)
	if theirs == nil {
		return Reason{}
	}
	usual := [4]float64{}
	for i := range usual {
		var all []float64
		for id := range w.ranks {
			if s := w.shares(id); s != nil && !slices.Contains(f.Ranks, id) {
				all = append(all, s[i])
			}
		}
		if len(all) > 0 {
			slices.Sort(all)
			usual[i] = all[len(all)/2]
		}
	}
	for i, c := range []Cause{Throttled, Queued, Blocked} {
		if more := theirs[i] - usual[i]; theirs[i] >= 2*usual[i] && more >= explains*f.Share {
			return Reason{c, theirs[i]}
		}
	}
	const running, resting = 0.9, 0.5
	waited := w.ranks[named].waited()
	switch rest := 1 - theirs[3] - waited; {
	case theirs[3]+waited >= running:
		return Reason{Busy, theirs[3]}
	case rest >= resting*f.Share && theirs[0]+theirs[1]+theirs[2] < rest/2:
		return Reason{Still, rest}
	}
	return Reason{}
}

// shares are of the last window: throttled, queued, blocked, on a processor. nil: there was one look only.
func (w *Watch) shares(id int) *[4]float64 {
	works := w.ranks[id].works
	if len(works) < 2 {
		return nil
	}
	a, b := works[0], works[len(works)-1]
	long := b.at - a.at
	if long <= 0 {
		return nil
	}
	part := func(d time.Duration) float64 { return max(0, float64(d)/float64(long)) }
	return &[4]float64{part(b.Throttled - a.Throttled), part(b.Queued - a.Queued), part(b.Blocked - a.Blocked), part(b.CPU - a.CPU)}
}

// waited is the share of its last window that a rank spent waiting in MPI.
func (t *track) waited() float64 {
	if len(t.Points) < 2 {
		return 0
	}
	a, b := t.Points[0], t.Points[len(t.Points)-1]
	return share(b.Waited-a.Waited+b.Other-a.Other, b.At-a.At)
}
