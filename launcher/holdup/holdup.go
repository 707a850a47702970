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
	"strings"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/idset"
)

// Run is what the words need to know of the run.
type Run struct {
	Running idset.Set                  // ids of the processes that run and may speak to mpiup
	Name    func(id int) string        // "rank 2 (w1, pid 4711)"
	Names   func(ids idset.Set) string // "ranks 0-1,3"
}

// Picture is what the hosts have told so far. The zero value is empty.
type Picture struct {
	silent   idset.Set
	barriers map[string]*barrier
	order    []*barrier
}

type barrier struct {
	of, entered idset.Set
	age         time.Duration
}

const (
	maxBarriers = 64 // taken from all hosts together
	maxLines    = 3
	maxNamed    = 4 // ranks by name in one line
)

// Add takes what one host tells; own are the ids of its processes. An error is an agent that does not keep to
// the protocol.
func (p *Picture) Add(w *apiv1.Waits, own idset.Set) error {
	silent, err := idset.Parse(w.Silent)
	if err != nil {
		return err
	}
	p.silent = p.silent.Union(silent.Intersect(own))
	for _, m := range w.Waits {
		ids, _, _ := strings.Cut(m.Set, "#")
		of, err := idset.Parse(ids)
		if err != nil {
			return err
		}
		entered, err := idset.Parse(m.Entered)
		if err != nil {
			return err
		}
		b := p.barriers[m.Set]
		if b == nil {
			if len(p.order) == maxBarriers {
				return nil
			}
			if p.barriers == nil {
				p.barriers = map[string]*barrier{}
			}
			b = &barrier{of: of}
			p.barriers[m.Set] = b
			p.order = append(p.order, b)
		}
		b.entered = b.entered.Union(entered.Intersect(own).Intersect(of))
		b.age = max(b.age, time.Duration(m.Seconds)*time.Second)
	}
	return nil
}

// Waiting is a line for each barrier that has been open for at least age, and the first rank that is missing in one;
// -1: there is none.
func (p *Picture) Waiting(r Run, age time.Duration) (lines []string, culprit int) {
	culprit = -1
	more := 0
	for _, b := range p.order {
		missing := b.of.Intersect(r.Running).Sub(b.entered)
		if b.age < age || b.entered.Empty() || missing.Empty() {
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
		lines = append(lines, fmt.Sprintf("%s not %s; %s for %s%s", r.subject(who), what, wait(b.entered, r), object(who), since(b.age)))
	}
	if more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more barriers are open", more))
	}
	return lines, culprit
}

// Missing are the ranks that run and that others wait for in barriers: those that have not called MPI_Init, and those that have.
func (p *Picture) Missing(running idset.Set) (silent, late idset.Set) {
	for _, b := range p.order {
		if missing := b.of.Intersect(running).Sub(b.entered); !b.entered.Empty() {
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
