// Package stall decides whether a run hangs, by what agents tell of its ranks. It is PURE: reports and times in, a stall out.
//
//	Report of each host ──Hear──▶ class of each rank, since when ──Look──▶ Stall: for how long, who is the odd one out
//
// A run hangs when for the whole time After no rank has worked (output, I/O, a GPU, a word to PMI) AND at least one has
// been idle. Ranks that only use CPU may compute or wait actively: Open MPI and MPICH do so in a barrier, and nothing
// outside of a process tells the two apart. But a rank whose library waits actively is never idle in MPI. So one that is
// idle for so long waits for something else. Those that use CPU wait for it, or have not needed it for all that time.
// Where every rank uses CPU the package says nothing: they may compute.
//
// Who is the odd one out: ranks that others wait for in a fence; else the fewer of those that idle and those that use CPU;
// else, where all idle, those that wait elsewhere than most.
package stall

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/mpiup/mpiup/internal/idset"
)

// Report is what one host tells of ranks, by id.
type Report struct {
	Works, Busy, Idle idset.Set
	Places            []Place
}

// Place is where some of the idle ones wait.
type Place struct {
	Where string
	IDs   idset.Set
}

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
}

// Watch is what hosts have told. Times are of one clock. The zero value has heard nothing.
type Watch struct {
	ranks map[int]rank
}

// Hear takes a host's report, which is about its own ranks alone and is true until the next.
func (w *Watch) Hear(now time.Duration, own idset.Set, r Report) {
	if w.ranks == nil {
		w.ranks = map[int]rank{}
	}
	for _, c := range []struct {
		ids   idset.Set
		class class
	}{{r.Works, works}, {r.Busy, busy}, {r.Idle, idle}} {
		for id := range c.ids.Intersect(own).All() {
			old, known := w.ranks[id]
			next := rank{class: c.class, quiet: old.quiet, since: old.since}
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
	Odd        []Odd
}

// Odd is a rank that does something else than the others.
type Odd struct {
	ID  int
	Why string // "it waits in futex while the others use CPU"
}

// Absent are ranks that others wait for in fences.
type Absent struct {
	Silent idset.Set // they have not called MPI_Init
	Late   idset.Set // they have
}

// Look says whether the ranks that run have hung for a time at now.
func (w *Watch) Look(now, after time.Duration, running idset.Set, absent Absent) (s Stall, stalled bool) {
	long := false
	s.For = now
	for id := range running.All() {
		r, known := w.ranks[id]
		if !known || r.class == works || now-r.quiet < after {
			return Stall{}, false
		}
		s.For = min(s.For, now-r.quiet)
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
	s.Odd = w.odd(s, running, absent)
	return s, true
}

// Uninitialized is a stall of ranks that wait in MPI_Init.
func Uninitialized(absent Absent, running idset.Set) (s Stall) {
	s.Odd = (&Watch{}).odd(s, running, Absent{Silent: absent.Silent})
	return s
}

func (w *Watch) odd(s Stall, running idset.Set, absent Absent) (list []Odd) {
	say := func(ids idset.Set, why func(id int) string) {
		for id := range ids.All() {
			list = append(list, Odd{id, why(id)})
		}
	}
	silent, late := absent.Silent.Intersect(running), absent.Late.Intersect(running)
	switch {
	case !silent.Empty() || !late.Empty():
		say(silent, func(int) string { return "it has not called MPI_Init, and others wait for it there" })
		say(late, func(int) string { return "others wait for it in a fence (MPI_Init, MPI_Finalize or another exchange)" })
	case !s.Busy.Empty() && s.Idle.Len() <= s.Busy.Len():
		say(s.Idle, func(id int) string { return "it " + w.waits(id) + " while others use CPU" })
	case !s.Busy.Empty():
		say(s.Busy, func(int) string { return "it uses CPU while others idle" })
	default:
		say(w.elsewhere(s.Idle), func(id int) string { return "it " + w.waits(id) + " and the others elsewhere" })
	}
	return list
}

func (w *Watch) waits(id int) string {
	if where := w.ranks[id].where; where != "" {
		return "waits in " + where
	}
	return "idles"
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

// Names is how a run calls its ranks.
type Names struct {
	Rank  func(id int) string        // "rank 2 on w1 (pid 4711)"
	Ranks func(ids idset.Set) string // "ranks 0-1,3"
}

// maxNamed bounds the lines that name a rank.
const maxNamed = 4

// Sentence is the stall in a line.
func (s Stall) Sentence(n Names) string {
	did := fmt.Sprintf("%d of them idle", s.Idle.Len())
	switch {
	case s.Busy.Empty() && s.Idle.Len() == 1:
		did = "it idles"
	case s.Busy.Empty():
		did = "all idle"
	case s.Idle.Len() == 1:
		did = "one of them idles"
	}
	all := s.Idle.Union(s.Busy)
	return fmt.Sprintf("no rank has worked for %v: no output, I/O, GPU or PMI of %s, and %s", s.For.Round(time.Second), n.Ranks(all), did)
}

// Lines name the odd ones out.
func (s Stall) Lines(n Names) (lines []string) {
	for i, o := range s.Odd {
		if i == maxNamed {
			return append(lines, fmt.Sprintf("and %d more are odd ones out", len(s.Odd)-maxNamed))
		}
		lines = append(lines, n.Rank(o.ID)+" is the odd one out: "+o.Why)
	}
	if len(lines) == 0 {
		lines = append(lines, "no rank is the odd one out by what it does")
	}
	return lines
}
