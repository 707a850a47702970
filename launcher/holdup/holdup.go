// Package holdup says in words who keeps whom waiting. It joins what a run's hosts tell of ranks that have not called
// MPI_Init and of barriers that are open.
//
//	host w0   0-1 entered "0-3"            ┐
//	host w1   3 entered "0-3", 2 did not,  ├─▶ rank 2 (w1, pid 4711) has not called MPI_Init;
//	          2 is silent                  ┘   ranks 0-1,3 have waited for it for 60s
//
// A barrier is one that ranks enter through mpiup: those of MPI_Init and MPI_Finalize, and of PMIx. How MPI
// calls wait for each other is between the ranks, and not to be seen.
//
// It has no I/O, clock or goroutine. What hosts tell is taken only of their own ranks.
package holdup

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mpiup/mpiup/internal/idset"
)

// Run is what the words need to know of the run.
type Run struct {
	Running idset.Set                  // ids of the processes that run and may speak to mpiup
	Name    func(id int) string        // "rank 2 (w1, pid 4711)"
	Names   func(ids idset.Set) string // "ranks 0-1,3"
}

// Report is what one host tells, by ids.
type Report struct {
	Silent idset.Set // processes that run and have not called MPI_Init
	Open   []Barrier // with processes of the host in them
}

// Barrier is one that is open.
type Barrier struct {
	Name        string // tells it from others of the same processes
	Of, Entered idset.Set
	Age         time.Duration
}

// Picture is what the hosts have told so far. The zero value is empty.
type Picture struct {
	silent idset.Set
	open   []Barrier
}

const (
	maxBarriers = 64 // taken from all hosts together
	maxLines    = 3
	maxNamed    = 4 // ranks by name in one line
)

// Add takes what one host tells; own are the ids of its processes.
func (p *Picture) Add(h Report, own idset.Set) {
	p.silent = p.silent.Union(h.Silent.Intersect(own))
	for _, m := range h.Open {
		i := slices.IndexFunc(p.open, func(b Barrier) bool { return b.Name == m.Name })
		if i < 0 {
			if i = len(p.open); i == maxBarriers {
				return
			}
			p.open = append(p.open, Barrier{Name: m.Name, Of: m.Of})
		}
		b := &p.open[i]
		b.Entered = b.Entered.Union(m.Entered.Intersect(own).Intersect(b.Of))
		b.Age = max(b.Age, m.Age)
	}
}

// Waiting is a line for each barrier that has been open for at least age, and the first rank that is missing in one;
// -1: there is none.
func (p *Picture) Waiting(r Run, age time.Duration) (lines []string, culprit int) {
	culprit = -1
	more := 0
	for _, b := range p.open {
		missing := b.Of.Intersect(r.Running).Sub(b.Entered)
		if b.Age < age || b.Entered.Empty() || missing.Empty() {
			continue
		}
		what, who := "entered the barrier", missing.Sub(p.silent)
		if mute := missing.Intersect(p.silent); !mute.Empty() {
			what, who = "called MPI_Init", mute
		}
		if culprit < 0 {
			culprit = who.First()
		}
		if len(lines) == maxLines {
			more++
			continue
		}
		lines = append(lines, fmt.Sprintf("%s not %s; %s for %s%s", r.subject(who), what, wait(b.Entered, r), object(who), since(b.Age)))
	}
	if more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more barriers are open", more))
	}
	return lines, culprit
}

// Missing are the ranks that run and that others wait for in barriers: those that have not called MPI_Init, and those that have.
func (p *Picture) Missing(running idset.Set) (silent, late idset.Set) {
	for _, b := range p.open {
		if missing := b.Of.Intersect(running).Sub(b.Entered); !b.Entered.Empty() {
			silent, late = silent.Union(missing.Intersect(p.silent)), late.Union(missing.Sub(p.silent))
		}
	}
	return silent, late
}

// All is Waiting of every barrier, and where nobody waits in one, who has not called MPI_Init.
func (p *Picture) All(r Run) (lines []string, culprit int) {
	lines, culprit = p.Waiting(r, 0)
	silent := p.silent.Intersect(r.Running)
	switch {
	case len(lines) > 0 || r.Running.Empty():
		return lines, culprit
	case silent.Equal(r.Running):
		return []string{"no rank has called MPI_Init: all are in the program's own code"}, silent.First()
	case !silent.Empty():
		return []string{r.subject(silent) + " not called MPI_Init; all others have"}, silent.First()
	}
	return []string{"all ranks have called MPI_Init and none waits in its barrier or MPI_Finalize's: they are in the program's own code or in MPI calls"},
		r.Running.First()
}

// Absent is a line for ranks that others wait for at a place.
func (r Run) Absent(missing, there idset.Set, place string, age time.Duration) string {
	return fmt.Sprintf("%s not come to %s; %s for %s%s", r.subject(missing), place, wait(there, r), object(missing), since(age))
}

// subject is ranks by name, as many as are bearable, with "has" or "have".
func (r Run) subject(ids idset.Set) string {
	var names []string
	for id := range ids.All() {
		if len(names) == maxNamed {
			break
		}
		names = append(names, r.Name(id))
	}
	switch n := ids.Len(); {
	case n == 1:
		return names[0] + " has"
	case n > maxNamed:
		return strings.Join(names, ", ") + fmt.Sprintf(" and %d others have", n-maxNamed)
	default:
		return strings.Join(names[:n-1], ", ") + " and " + names[n-1] + " have"
	}
}

func wait(ids idset.Set, r Run) string {
	name := r.Names(ids)
	const most = 60
	if len(name) > most {
		name = fmt.Sprintf("%d ranks", ids.Len())
	}
	if ids.Len() == 1 {
		return name + " has waited"
	}
	return name + " have waited"
}

func object(ids idset.Set) string {
	if ids.Len() == 1 {
		return "it"
	}
	return "them"
}

// since is how long; barriers are looked at now and then, so little says nothing.
func since(age time.Duration) string {
	if age < time.Second {
		return ""
	}
	return fmt.Sprintf(" for %v", age)
}
