// Package hang answers one question of a run: why does it not go on, and who is waited for? A stall, the time limits, Ctrl-C and a
// rank's end ask it of the same facts, which agents tell. PURE: what was told and times in, names and sentences out.
//
//	Activity   what each rank has done, since when ──Watch────▶ whether the run has stalled, and who does something else (hang.go)
//	Barriers   of MPI_Init and its like ────────────Picture──▶ who has not come, and who waits there (barrier.go)
//	Record     of each process's collectives ───────Records──▶ who is absent from one in which others wait (collective.go, records.go)
//	Facts      all of these ───────────────────────Blame────▶ who is waited for, as far as they tell (blame.go)
//	Stack      of ranks, before the run is ended ───ByStacks─▶ who computes while all others wait in one call of MPI (stacks.go)
//	Stack      five times, while others wait ───────Opinions─▶ where a rank is that they are said to wait for, or a doubt (opinion.go)
//	Meeting    where frameworks' ranks meet ────────Roll─────▶ who has not come there, and who never met (roll.go)
//
// A run seems to hang when for the whole time After no rank has shown work (output, I/O, bytes of its sockets, pages, a GPU, a word to
// PMI) AND at least one has been idle. Ranks that only use CPU may compute or wait actively: Open MPI and MPICH do so in a barrier, and
// nothing outside of a process tells the two apart. So a run is told of, and ended only where its ranks' stacks say that those wait in
// calls of MPI (Doubt, Computing). A rank whose library waits actively is never idle in MPI: one that is idle for so long waits for
// something else. Where every rank uses CPU the package says nothing: they may compute.
//
// Who is the odd one out: ranks that others wait for in a fence; else the fewer of those that idle and those that use CPU;
// else, where all idle, those that wait elsewhere than most.
//
// Times are handed in and are of one clock. What a host tells is taken only of its own ranks. No value here is safe for concurrent use.
package hang

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/launcher/progress"
)

type class uint8

const (
	idle class = iota
	busy
	works
)

// rank is what is known of one.
type rank struct {
	class class
	quiet time.Duration // since when it has not worked
	since time.Duration // since when it has its class
	where string

	looked job.Looked
}

// Watch is what hosts have told. Times are of one clock. The zero value has heard nothing.
type Watch struct {
	ranks map[int]rank
}

// Hear takes a host's report, which is about its own ranks alone and is true until the next.
func (w *Watch) Hear(now time.Duration, own idset.Set, r job.Activity) {
	if w.ranks == nil {
		w.ranks = map[int]rank{}
	}
	for _, c := range []struct {
		ids   idset.Set
		class class
	}{{r.Works, works}, {r.Busy, busy}, {r.Idle, idle}} {
		for id := range c.ids.Intersect(own).All() {
			old, known := w.ranks[id]
			next := rank{class: c.class, quiet: old.quiet, since: old.since, looked: r.Looked}
			if !known || old.class != c.class {
				next.since = now
			}
			if !known || old.class == works {
				next.quiet = now
			}
			w.ranks[id] = next
		}
	}
	for _, p := range r.Places {
		for id := range p.IDs.Intersect(own).All() {
			if k, known := w.ranks[id]; known && k.class == idle {
				k.where = p.Where
				w.ranks[id] = k
			}
		}
	}
}

// Stall is a run that hangs.
type Stall struct {
	For        time.Duration
	Idle, Busy idset.Set
	Looked     job.Looked // at what of all of them
	Asleep     bool       // each has gone to sleep for a time that it has chosen
}

// Look says whether the ranks that run have hung for a time at now.
func (w *Watch) Look(now, after time.Duration, running idset.Set) (s Stall, stalled bool) {
	long := false
	s.For, s.Looked, s.Asleep = now, ^job.Looked(0), true
	for id := range running.All() {
		r, known := w.ranks[id]
		if !known || r.class == works || now-r.quiet < after {
			return Stall{}, false
		}
		s.For, s.Looked = min(s.For, now-r.quiet), s.Looked&r.looked
		s.Asleep = s.Asleep && r.class == idle && strings.Contains(r.where, "nanosleep")
		if r.class == idle {
			s.Idle.Add(id)
			long = long || now-r.since >= after
		} else {
			s.Busy.Add(id)
		}
	}
	if !long {
		return Stall{}, false
	}
	return s, true
}

// Quiet is for how long no rank that runs has shown work; 0 while one does, or nobody has told of one.
func (w *Watch) Quiet(now time.Duration, running idset.Set) (quiet time.Duration) {
	quiet = now
	for id := range running.All() {
		r, known := w.ranks[id]
		if !known || r.class == works {
			return 0
		}
		quiet = min(quiet, now-r.quiet)
	}
	if running.Empty() {
		return 0
	}
	return quiet
}

// odd are the fewer of those that idle and those that use CPU; where all idle, those that wait elsewhere than most.
func (w *Watch) odd(s Stall) (list []Odd) {
	switch {
	case !s.Busy.Empty() && s.Idle.Len() <= s.Busy.Len():
		return w.waiting(s.Idle, " while others use CPU")
	case !s.Busy.Empty():
		return []Odd{{IDs: s.Busy, Why: "it uses CPU while others idle", Many: "they use CPU while others idle"}}
	}
	return w.waiting(w.elsewhere(s.Idle), " and the others elsewhere")
}

// waiting are idle ranks by where they wait.
func (w *Watch) waiting(ids idset.Set, whereas string) (list []Odd) {
	for id := range ids.All() {
		one, many := "it idles", "they idle"
		if where := w.ranks[id].where; where != "" {
			one, many = "it waits in "+where, "they wait in "+where
		}
		i := slices.IndexFunc(list, func(o Odd) bool { return o.Why == one+whereas })
		if i < 0 {
			i = len(list)
			list = append(list, Odd{Why: one + whereas, Many: many + whereas})
		}
		list[i].IDs.Add(id)
	}
	return list
}

// elsewhere are ranks that wait where fewer than half of all do; none where there is no such majority.
func (w *Watch) elsewhere(ids idset.Set) (odd idset.Set) {
	count := map[string]int{}
	for id := range ids.All() {
		count[w.ranks[id].where]++
	}
	places := slices.SortedFunc(maps.Keys(count), func(a, b string) int { return cmp.Or(-cmp.Compare(count[a], count[b]), cmp.Compare(a, b)) })
	if len(places) < 2 || 2*count[places[0]] <= ids.Len() || places[0] == "" {
		return odd
	}
	for id := range ids.All() {
		if where := w.ranks[id].where; where != places[0] && where != "" {
			odd.Add(id)
		}
	}
	return odd
}

// Interval is how often agents look, for stalls of a time: often enough to tell of one soon after, and seldom enough to cost nothing.
func Interval(after time.Duration) time.Duration {
	return min(max(after/6, time.Second), 10*time.Second)
}

// LookEvery is how often it is looked whether a run hangs whose agents look at its ranks so often, 0: never, and whose ranks may be in MPI_Init
// for so long, 0: for ever.
func LookEvery(activity, init time.Duration) time.Duration {
	if init == 0 {
		return activity
	}
	if init = max(init/8, 100*time.Millisecond); activity == 0 {
		return init
	}
	return min(activity, init)
}

// Some are the first of names.
func Some(names []string) string {
	const most = 4
	if len(names) > most {
		names = append(names[:most:most], "others")
	}
	return strings.Join(names, ", ")
}

// Names is how a run calls its ranks.
type Names struct {
	Rank  func(id int) string        // "rank 2 on w1 (pid 4711)"
	Ranks func(ids idset.Set) string // "ranks 0-1,3"
}

// Sentence is the stall in a line. Ranks that use CPU may compute: of them it is not said that they have not worked.
func (s Stall) Sentence(n Names) string {
	all, worked := s.Idle.Union(s.Busy), "worked"
	if !s.Busy.Empty() {
		worked = "shown work"
	}
	one := func(ids idset.Set, single, several string) string {
		if ids.Len() == 1 {
			return "one " + single
		}
		return fmt.Sprintf("%d %s", ids.Len(), several)
	}
	did := "all idle"
	switch {
	case s.Asleep && s.Idle.Len() > 1:
		did = "all sleep for a time that they have chosen"
	case s.Asleep:
		did = "it sleeps for a time that it has chosen"
	case s.Busy.Empty() && s.Idle.Len() == 1:
		did = "it idles"
	case !s.Busy.Empty():
		did = fmt.Sprintf("of them %s and %s CPU", one(s.Idle, "idles", "idle"), one(s.Busy, "uses", "use"))
	}
	looked := cmp.Or(s.Looked, job.AtOutput)
	return fmt.Sprintf("no rank has %s for %v: no %v of %s, and %s", worked, s.For.Round(time.Second), looked, n.Ranks(all), did)
}

// Doubt says why what ranks did is no reason to end the run; "": it is one, as far as their stacks bear it out.
func (s Stall) Doubt() string {
	switch {
	case s.Looked&job.AtIO == 0:
		return "not every host sees the I/O of its ranks"
	case s.Looked&job.AtSockets == 0:
		return "not every host sees the network traffic of its ranks"
	case s.Asleep:
		return "every rank sleeps for a time that it has chosen, and waits for no other"
	}
	return ""
}

// AbortEnds is what --on-stall abort would do about it, after a notice.
const AbortEnds = "; --on-stall abort ends such a run"

// Ends is AbortEnds as far as that is so; "": it would not end the run.
func (s Stall) Ends() string {
	switch {
	case s.Doubt() != "":
		return ""
	case !s.Busy.Empty():
		return AbortEnds + ", unless stacks show that a rank computes"
	}
	return AbortEnds
}

// Config is what is done about a run that hangs.
type Config struct {
	After time.Duration // no rank has worked for so long; 0: nobody looks
	Init  time.Duration // since the start of the ranks, and some wait for others in MPI_Init; 0: nobody looks
	Abort bool          // the run ends, with exit code 110; else it is said
	Alone bool          // the only rank of a run counts too: it may wait for a user

	// Watch says that how long ranks wait for each other in MPI is measured, by a library that is loaded into them. It is off unless
	// somebody asked for it.
	Watch bool
	// WatchWindow is for how long one rank must hold up the others to be named.
	WatchWindow time.Duration

	Progress progress.Config // what the ranks' output tells of how far they are
}
