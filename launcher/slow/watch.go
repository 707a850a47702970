package slow

import (
	"maps"
	"slices"
	"time"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/launcher/witness"
)

// A Watch hears what hosts tell, and finds who makes the others wait. The zero value has no window: set it first.
type Watch struct {
	// Window is for how long a rank must hold the others up to be named; 0: nobody has asked.
	Window time.Duration
	// Places are the ranks of the job that is watched, with their hosts: whose word may name whom.
	Places witness.Places

	ranks  map[int]*track
	looked time.Duration
	told   []int // who was named, and is still
	said   bool  // that ranks say that they wait for some who may not be named
	moved  bool  // that it changes was said
	last   Finding
	late   Late
	lates  int  // told
	before bool // Before has said where ranks are
	sum    sums

	opinion Opinion
	opined  []int         // of whom it is
	blind   time.Duration // until then windows have moments in which tools stopped ranks
	steps   steps
}

// track is one rank's last window, by its host's clock.
type track struct {
	job.Waits
	at    time.Duration // when that was
	heard time.Duration // by the launcher's clock
	works []moment
}

// moment is a rank's work at a time of its host's clock.
type moment struct {
	at time.Duration
	job.RankWork
}

// sums is what the whole of a run comes to, a window after the other.
type sums struct {
	window  time.Duration
	alleged Finding               // the last in which ranks may not be named
	claimed time.Duration         // that others waited for such, as they say
	unclear time.Duration         // that ranks waited where it does not show for whom
	crowded time.Duration         // that all were ready to run, and had no processor
	by      map[int]time.Duration // and for whom
}

// most bounds what is kept of one rank: windows of more points are thinned by their agents.
const mostPoints = 1024

// Hear takes what a host says at a time of its own clock.
func (w *Watch) Hear(now, at time.Duration, reports []job.Waits) {
	if w.ranks == nil {
		w.ranks = map[int]*track{}
	}
	for _, r := range reports {
		t := w.ranks[r.ID]
		if t == nil {
			t = &track{}
			w.ranks[r.ID] = t
		}
		t.hear(now, at, r, w.Window)
	}
}

func (t *track) hear(now, at time.Duration, r job.Waits, window time.Duration) {
	kept := t.Points
	if n := len(kept); n > 0 && r.Seq < kept[n-1].Seq {
		kept = nil // it counts anew, or lies
	}
	for _, p := range r.Points {
		n := len(kept)
		if n > 0 && p.Seq <= kept[n-1].Seq {
			continue
		}
		if n > 0 && p.At < kept[n-1].At {
			kept = nil
		}
		kept = append(kept, p)
	}
	old := func(then time.Duration) bool { return then < at-window-window/4 }
	kept = slices.DeleteFunc(kept, func(p job.WaitPoint) bool { return old(p.At) })
	works := t.works
	if n := len(works); n == 0 || r.CPU >= works[n-1].CPU { // else it has ended, and its last look shows no work
		works = append(works, moment{at, r.RankWork})
	}
	works = slices.DeleteFunc(works, func(m moment) bool { return old(m.at) })
	t.Waits, t.at, t.heard, t.works = r, at, now, works[max(len(works)-mostPoints, 0):]
	t.Points = kept[max(len(kept)-mostPoints, 0):]
}

// Look finds who holds the others up, of all the ranks of a job, at most four times a window. news: it is to be told, since it has held for a
// window, and was not told yet.
func (w *Watch) Look(now time.Duration, ranks int) (f Finding, news bool) {
	if now-w.looked < w.Window/4 {
		return f, false
	}
	w.looked = now
	if f = w.Finding(ranks); !f.Measured || f.Window < w.Window*3/4 {
		return f, false
	}
	if now < w.blind && f.Share > 0 && (f.Moves || !slices.Equal(f.Ranks, w.told)) {
		return f, false
	}
	w.sum.add(f, w.Window/4)
	switch {
	case f.Moves:
		news, w.moved = !w.moved, true
	case f.Alleged:
		news, w.said, w.told = !w.said, true, nil
		w.last = f
	case len(f.Ranks) > 0:
		news = !slices.Equal(f.Ranks, w.told)
		w.told, w.last = f.Ranks, f
	default:
		w.told = nil
		if w.last.Alleged {
			w.last = Finding{}
		}
	}
	return f, news
}

// Finding is what the last window shows of so many ranks. One that nobody measures may be the one that others wait for: then it shows nothing.
func (w *Watch) Finding(ranks int) (f Finding) {
	return w.explained(w.find(ranks, w.Window, func(t *track) bool { return t.State == job.Measured }))
}

// explained is a finding with its cause, or without its ranks where they are not to blame.
func (w *Watch) explained(f Finding) Finding {
	if len(f.Ranks) == 0 {
		return f
	}
	if f.Crowded = w.crowded(f); f.Crowded > 0 {
		f.Ranks, f.Share = nil, 0
		return f
	}
	f.Cause = w.cause(f)
	f.Ranks, f.Alleged = w.accused(f.Ranks, f.By, f.Cause.Cause)
	return f
}

// accused are those of some ranks that may be named by what others say of themselves, that they wait: all of them, where alleged, which may not.
// What their own host saw bears it out where it explains the delay, or stacks show them elsewhere; that they compute or rest goes with it, and with
// much else.
func (w *Watch) accused(ranks []int, by idset.Set, c Cause) (named []int, alleged bool) {
	claim := witness.Claim{About: idset.Of(ranks...), By: by}
	also := w.also(ranks)
	switch {
	case c != Unclear && c != Busy && c != Still, also.Says != "" && !also.Doubts:
		claim.Seen = claim.About
	case !also.Doubts:
		claim.Likely = claim.About
	}
	if may := w.Places.Accused(claim); !may.Empty() {
		return may.Slice(), false
	}
	return ranks, true
}

func (w *Watch) find(ranks int, window time.Duration, counts func(*track) bool) Finding {
	points := map[int][]job.WaitPoint{}
	for id, t := range w.ranks {
		if counts(t) {
			points[id] = t.Points
		}
	}
	if len(points) < ranks {
		return Finding{}
	}
	return Find(points, window)
}

// add counts a finding for the part of the window that is new.
func (s *sums) add(f Finding, part time.Duration) {
	s.window += part
	lost := time.Duration(f.Share * float64(part))
	s.unclear += time.Duration(f.Unclear * float64(part))
	s.crowded += time.Duration(f.Crowded * float64(part))
	if s.by == nil {
		s.by = map[int]time.Duration{}
	}
	if f.Alleged {
		s.alleged = f
		s.claimed += lost
		return
	}
	for _, r := range f.Ranks {
		s.by[r] += lost
	}
}

// shortest is the least of a run that is measured as a whole, since it was over before a window was.
const shortest = 5 * time.Second

// Total is what the whole run of so many ranks came to: for whom the others waited at least Enough of the time.
func (w *Watch) Total(ranks int) (f Finding) {
	if w.sum.window == 0 {
		return w.short(ranks)
	}
	f.Window, f.Measured = w.sum.window, true
	f.Unclear, f.Crowded = share(w.sum.unclear, w.sum.window), share(w.sum.crowded, w.sum.window)
	for r, lost := range w.sum.by {
		if s := share(lost, w.sum.window); s >= Enough {
			f.Ranks = append(f.Ranks, r)
			f.Share = max(f.Share, s)
		}
	}
	slices.Sort(f.Ranks)
	if claimed := share(w.sum.claimed, w.sum.window); len(f.Ranks) == 0 && claimed >= Enough {
		f.Ranks, f.By, f.Alleged, f.Share = w.sum.alleged.Ranks, w.sum.alleged.By, true, claimed
	}
	if slices.Equal(f.Ranks, w.last.Ranks) {
		f.Cause = w.last.Cause
	}
	return f
}

// short is what a run came to that was shorter than a window, as far as it is measured: by what its ranks left at their ends. It is cut into
// twice as many blocks as a window.
func (w *Watch) short(ranks int) (f Finding) {
	f = w.find(ranks, w.length()/2, func(t *track) bool { return t.State == job.Measured || t.State == job.Finalized })
	if f.Window < min(w.Window, shortest) {
		return Finding{}
	}
	return w.explained(f)
}

// length is how long the ranks' points reach, of the one in the middle.
func (w *Watch) length() time.Duration {
	var list []time.Duration
	for _, id := range slices.Sorted(maps.Keys(w.ranks)) {
		if p := w.ranks[id].Points; len(p) > 1 {
			list = append(list, p[len(p)-1].At-p[0].At)
		}
	}
	if len(list) == 0 {
		return 0
	}
	slices.Sort(list)
	return list[len(list)/2]
}

// Waited is the share of the last window that a rank waited in MPI, with the call that it is in, where it is measured.
func (w *Watch) Waited(id int) (waited float64, known bool) {
	t := w.ranks[id]
	if t == nil || t.State != job.Measured && (t.State != job.Finalized || t.Inside == 0) {
		return 0, false
	}
	since := max(t.Inside, t.Elsewhere) // it has been in the call that it waits in
	if since == 0 {
		return t.waited(), true
	}
	waits, begun := t.at-since, since
	if n := len(t.Points); n > 0 {
		first, last := t.Points[0], t.Points[n-1]
		waits, begun = waits+last.Waited-first.Waited+last.Other-first.Other, min(since, first.At)
	}
	return share(waits, t.at-begun), true
}

// Reason is why a rank holds the others up for a share of the time, as far as it shows.
func (w *Watch) Reason(id int, share float64) Reason {
	if w.ranks[id] == nil {
		return Reason{}
	}
	return w.cause(Finding{Ranks: []int{id}, Share: share})
}

// Unwatched says that no rank's waits were ever seen.
func (w *Watch) Unwatched() bool {
	for _, t := range w.ranks {
		if t.State != job.Unwatched {
			return false
		}
	}
	return true
}

// named are those of the ranks of which something is so, by their numbers, where it is not so of all.
func (w *Watch) named(ranks int, all string, is func(*track) bool) string {
	var those idset.Set
	for id := range ranks {
		if is(w.ranks[id]) {
			those.Add(id)
		}
	}
	switch those.Len() {
	case 0, ranks:
		return all
	}
	return those.Named("rank")
}

// Unmeasured says why nothing can be told of ranks so many, "" where something can.
func (w *Watch) Unmeasured(ranks int) string {
	states := map[job.WatchState]int{}
	var done, partial uint64
	for _, t := range w.ranks {
		states[t.State]++
		done = max(done, t.Seq)
		partial = max(partial, t.Partial)
	}
	switch {
	case len(w.ranks) < ranks:
		return "nothing was heard of " + w.named(ranks, "the ranks", func(t *track) bool { return t == nil }) + ": too short, or the agents say why they are not watched"
	case states[job.Unknown] > 0:
		return "the ranks' MPI library is none that can be watched (Open MPI, MPICH and what has their ABI can)"
	case states[job.Unwatched] > 0:
		return w.named(ranks, "ranks", func(t *track) bool { return t != nil && t.State == job.Unwatched }) + " did not call MPI_Init where it can be seen: " +
			"they have MPI linked in, call it by addresses, were started by a program that is no shell, or have none, and no call of NCCL was seen, as of torch over Gloo"
	case states[job.Lost] > 0:
		return "ranks have more than a thousand non-blocking collectives under way at once"
	case done == 0 && partial > 0:
		return "all collectives are over some of the ranks, and which is not known"
	case done == 0:
		return "there was no collective in which all ranks wait for all"
	}
	return ""
}
