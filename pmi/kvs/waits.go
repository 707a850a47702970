package kvs

import (
	"cmp"
	"slices"
)

// Wait is a fence that is open: who of this host is in it and whom of this host it waits for.
type Wait struct {
	Number  uint64 // tells it from all other fences of the engine
	Set     string // as Exchange has it
	Entered []int  // ranks of this host that wait, ascending
	Absent  []int  // ranks of this host that have not come, or gave up, ascending
}

// Waits are the fences that are open now, at most most of them, those that were begun first.
func (e *Engine) Waits(most int) []Wait {
	e.mu.Lock()
	defer e.mu.Unlock()
	open := make([]*fence, 0, len(e.fences.open))
	for _, f := range e.fences.open {
		open = append(open, f)
	}
	slices.SortFunc(open, func(a, b *fence) int { return cmp.Compare(a.number, b.number) })
	var list []Wait
	for _, f := range open[:min(len(open), most)] {
		w := Wait{Number: f.number, Set: f.set}
		for _, rank := range f.local {
			if f.entered[rank] && !f.quit[rank] {
				w.Entered = append(w.Entered, rank)
			} else {
				w.Absent = append(w.Absent, rank)
			}
		}
		list = append(list, w)
	}
	return list
}
