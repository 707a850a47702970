package slow

import (
	"slices"
	"time"
)

// State says how far a rank's MPI is, as the library that is before it sees it (agent/watch.State).
type State uint8

// The states.
const (
	Never State = iota
	Measured
	Finalized
	Unknown
	Lost
)

// A Report is what a host tells of one of its ranks, each time what is new. Sums count from its start.
type Report struct {
	ID      int
	State   State
	Seq     uint64        // collectives over all ranks that are over
	Partial uint64        // and over some
	Inside  time.Duration // since when it is in one over all, by its host's clock; 0: it is in none
	Points  []Point       // ascending
	Work    Work
}

// Work is what a rank did besides waiting in MPI. Parts that do not show are 0.
type Work struct {
	CPU       time.Duration // used by all its threads
	Queued    time.Duration // its threads were ready, and had no processor
	Blocked   time.Duration // it waited for block devices
	Throttled time.Duration // its container was kept from running, by its quota
}

// A Watch hears what hosts tell, and finds who makes the others wait. The zero value has no window: set it first.
type Watch struct {
	Window time.Duration // for so long a rank must hold the others up to be named

	ranks  map[int]*track
	looked time.Duration
	told   []int // who was named, and is still
	moved  bool  // that it changes was said
	sum    sums
}

// track is one rank's last window, by its host's clock.
type track struct {
	Report
	works []moment
}

// moment is a rank's work at a time of its host's clock.
type moment struct {
	at time.Duration
	Work
}

// sums is what the whole of a run comes to, a window after the other.
type sums struct {
	window  time.Duration
	unclear time.Duration         // that ranks waited where it does not show for whom
	by      map[int]time.Duration // and for whom
}

// most bounds what is kept of one rank: windows of more points are thinned by their agents.
const mostPoints = 1024

// Hear takes what a host says at a time of its own clock.
func (w *Watch) Hear(at time.Duration, reports []Report) {
	if w.ranks == nil {
		w.ranks = map[int]*track{}
	}
	for _, r := range reports {
		t := w.ranks[r.ID]
		if t == nil {
			t = &track{}
			w.ranks[r.ID] = t
		}
		kept := t.Points
		for _, p := range r.Points {
			if n := len(kept); n > 0 && (p.Seq <= kept[n-1].Seq || p.At < kept[n-1].At) {
				kept = nil // it counts anew, or lies
			}
			kept = append(kept, p)
		}
		old := func(then time.Duration) bool { return then < at-w.Window-w.Window/4 }
		kept = slices.DeleteFunc(kept, func(p Point) bool { return old(p.At) })
		kept = kept[max(len(kept)-mostPoints, 0):]
		works := append(t.works, moment{at, r.Work})
		works = slices.DeleteFunc(works, func(m moment) bool { return old(m.at) })
		works = works[max(len(works)-mostPoints, 0):]
		t.Report, t.works = r, works
		t.Points = kept
	}
}

// Look finds who holds the others up, of all the ranks of a job, at most four times a window. news: it is to be told, since it has held for a
// window, and was not told yet.
func (w *Watch) Look(now time.Duration, ranks int) (f Finding, news bool) {
	if now-w.looked < w.Window/4 || len(w.ranks) < ranks {
		return f, false
	}
	w.looked = now
	points := map[int][]Point{}
	for id, t := range w.ranks {
		if t.State == Measured {
			points[id] = t.Points
		}
	}
	if len(points) < ranks { // one that nobody measures may be the one
		return f, false
	}
	f = Find(points, w.Window)
	if !f.Measured || f.Window < w.Window*3/4 {
		return f, false
	}
	w.sum.add(f, w.Window/4)
	switch {
	case f.Moves:
		news, w.moved = !w.moved, true
	case len(f.Ranks) > 0:
		news = !slices.Equal(f.Ranks, w.told)
		w.told = f.Ranks
	default:
		w.told = nil
	}
	if news && !f.Moves {
		f.Cause = w.cause(f)
	}
	return f, news
}

// add counts a finding for the part of the window that is new.
func (s *sums) add(f Finding, part time.Duration) {
	s.window += part
	lost := time.Duration(f.Share * float64(part))
	s.unclear += time.Duration(f.Unclear * float64(part))
	if s.by == nil {
		s.by = map[int]time.Duration{}
	}
	for _, r := range f.Ranks {
		s.by[r] += lost
	}
}

// Total is what the whole run came to: for whom the others waited at least Enough of the time.
func (w *Watch) Total() (f Finding) {
	f.Window, f.Measured, f.Unclear = w.sum.window, w.sum.window > 0, share(w.sum.unclear, w.sum.window)
	for r, lost := range w.sum.by {
		if s := share(lost, w.sum.window); s >= Enough {
			f.Ranks = append(f.Ranks, r)
			f.Share = max(f.Share, s)
		}
	}
	slices.Sort(f.Ranks)
	return f
}

// Unmeasured says why nothing can be told of ranks so many, "" where something can.
func (w *Watch) Unmeasured(ranks int) string {
	states := map[State]int{}
	var done, partial uint64
	for _, t := range w.ranks {
		states[t.State]++
		done = max(done, t.Seq)
		partial = max(partial, t.Partial)
	}
	switch {
	case len(w.ranks) < ranks:
		return "some ranks were not heard of: they were too short, or their agents say why they are not watched"
	case states[Unknown] > 0:
		return "the ranks' MPI library is none that can be watched (Open MPI, MPICH and what has their ABI can)"
	case states[Never] > 0:
		return "ranks did not call MPI_Init where it can be seen: they have MPI linked in, opened it in a way that hides it, or have none"
	case states[Lost] > 0:
		return "ranks have more than a thousand non-blocking collectives under way at once"
	case done == 0 && partial > 0:
		return "all collectives are over some of the ranks, and which is not known"
	case done == 0:
		return "there was no collective in which all ranks wait for all"
	}
	return ""
}
