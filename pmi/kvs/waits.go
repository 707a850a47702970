package kvs

import (
	"cmp"
	"slices"

	"github.com/mpiup/mpiup/internal/idset"
)

// Wait is a fence that is open: who of this host is in it and whom of this host it waits for.
type Wait struct {
	Number  uint64    // tells it from all other fences of the engine
	Set     string    // as Exchange has it
	Entered idset.Set // ids of this host that wait
	Absent  idset.Set // ids of this host that have not come, or gave up
}

// Waits are the fences of single jobs that are open now, at most most of them, those that were begun first.
func (e *Engine) Waits(most int) []Wait {
	e.mu.Lock()
	defer e.mu.Unlock()
	open := e.fences.those(func(f *fence) bool { return len(f.parts) == 1 })
	slices.SortFunc(open, func(a, b *fence) int { return cmp.Compare(a.number, b.number) })
	var list []Wait
	for _, f := range open[:min(len(open), most)] {
		w := Wait{Number: f.number, Set: f.set}
		for _, id := range f.local {
			if f.entered[id] && !f.quit[id] {
				w.Entered.Add(id)
			} else {
				w.Absent.Add(id)
			}
		}
		list = append(list, w)
	}
	return list
}
