package verdict

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/visible"
)

// Toll is what the ends of all ranks tell beside the fault: who only lost another one, what memory they had, whether they ended in the time that they
// were given. The zero value knows of none.
type Toll struct {
	echo, echoRanks idset.Set     // ids, and ranks, of those that only say that they lost another one, where the cause is known
	later           time.Duration // after the guilty one's exception the first of them said so; 0: not known
	used            []usage
	ranks, gone     int // that were told to end, and have
	told, last, had time.Duration
}

// usage is what a process had at most.
type usage struct {
	id, node    int
	who         string
	peak, bound uint64 // bytes; bound, where the kernel ended it for that, is its container's
}

// maxEchoes is how many ranks are heard that were stopped, of which some may have said that they lost the guilty one.
const maxEchoes = 1024

// hear notes which ranks of the guilty one's job say that they lost another one: what they wrote is a consequence.
func (t *Toll) hear(cause Fault, n int, words func(id int) Said, about func(id int) Fault) {
	if cause.Event != Ended && cause.Event != Aborted && cause.Event != Raised && cause.Event != HostLost {
		return
	}
	begun := time.Time{}
	if cause.ID >= 0 {
		begun = words(cause.ID).raised()
	}
	for id := range min(n, maxEchoes) {
		if id == cause.ID {
			continue
		}
		said := words(id)
		if f, ok := Read(said); ok && f.Echo {
			if who := about(id).Process; cause.ID < 0 || who.Job == cause.Process.Job {
				t.echo.Add(id)
				t.echoRanks.Add(who.Rank)
				if at := said.raised(); !begun.IsZero() && at.After(begun) && (t.later == 0 || at.Sub(begun) < t.later) {
					t.later = at.Sub(begun)
				}
			}
		}
	}
}

// raised is when the last exception came; zero: there was none.
func (s Said) raised() (at time.Time) {
	for _, e := range s.Raised {
		at = e.At
	}
	return at
}

// consequence says of ranks whose last words are of a loss that this is it; "": there are none.
func (t *Toll) consequence() string {
	if t.echoRanks.Empty() {
		return ""
	}
	later := ""
	if t.later > 0 {
		later = fmt.Sprintf(" %.1f s later", max(t.later.Seconds(), 0.1))
	}
	return fmt.Sprintf("%s lost a peer%s: a consequence", t.echoRanks.Named("rank"), later)
}

// echoed says that a fault is of a rank that only says that it lost another one.
func (t *Toll) echoed(f Fault) bool { return t.echo.Contains(f.ID) && !f.struck() }

// Ended notes that a process of a fault's has ended at its time, and had peak bytes at most. bound is how many its container may have, where the
// kernel ended it for that. 0: unknown. As many are kept as faults.
func (t *Toll) Ended(f Fault, peak, bound uint64) {
	if t.ranks > 0 {
		t.gone, t.last = t.gone+1, max(t.last, f.At)
	}
	if peak+bound > 0 && len(t.used) < maxFaults {
		t.used = append(t.used, usage{f.ID, f.Node, f.Process.String(), peak, bound})
	}
}

// memory is what the ranks of an OOM's host had: the kernel chooses one of them, whoever wanted more.
func (t *Toll) memory(f Fault) string {
	const most = 3
	all := slices.DeleteFunc(slices.Clone(t.used), func(u usage) bool { return u.node != f.Node })
	at := slices.IndexFunc(all, func(u usage) bool { return u.id == f.ID })
	if !f.OOM || at < 0 {
		return ""
	}
	bound := all[at].bound
	if f.Helper {
		all = slices.DeleteFunc(all, func(u usage) bool { return u.peak == 0 })
	}
	slices.SortFunc(all, func(a, b usage) int {
		if a.id == f.ID || b.id == f.ID {
			return map[bool]int{true: -1, false: 1}[a.id == f.ID]
		}
		return cmp.Or(cmp.Compare(b.peak, a.peak), cmp.Compare(a.id, b.id))
	})
	var had []string
	for _, u := range all {
		had = append(had, fmt.Sprintf("%s had %d MiB", u.who, u.peak>>20))
	}
	if text := visible.Few(had, most, ", "); bound == 0 {
		return text
	}
	return fmt.Sprintf("the memory limit of %s is %d MiB: %s", f.Host, bound>>20, visible.Few(had, most, ", "))
}

// Leaves notes that so many ranks were told at a time to end, and have so long.
func (t *Toll) Leaves(ranks int, at, had time.Duration) { t.ranks, t.told, t.had = ranks, at, had }

// well is the good news: all have ended in time; "": some have not.
func (t *Toll) well() string {
	if t.ranks == 0 || t.gone < t.ranks {
		return ""
	}
	who := cmp.Or(map[int]string{1: "the rank", 2: "both ranks"}[t.ranks], fmt.Sprintf("all %d ranks", t.ranks))
	return fmt.Sprintf("%s ended within %v of %v", who, max(t.last-t.told, 0).Round(100*time.Millisecond), t.had)
}
