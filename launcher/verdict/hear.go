package verdict

import "time"

// Hear takes what ranks wrote of their failures into the case, when all output has come: words of the one that is guilty so far, and
// of all n processes where that one only says that it lost another. stopped is when the ranks were told to end; zero: they were not.
// about begins a fault of a process.
func (c *Case) Hear(n int, words func(id int) Said, stopped time.Time, about func(id int) Fault) {
	f, ok := c.Cause()
	if !ok || f.Event != Ended && f.Event != Aborted {
		return
	}
	c.found = map[int]Finding{}
	if !c.hear(f.ID, words(f.ID)) || !c.echoes(f) {
		return
	}
	failed := map[int]bool{}
	for _, g := range c.of(func(g Fault) bool { return g.Event == Ended }) {
		failed[g.ID] = true
		c.hear(g.ID, words(g.ID))
	}
	if c.blame(f).ID != f.ID || stopped.IsZero() {
		return
	}
	for id := range n {
		if failed[id] || !c.hear(id, words(id).before(stopped)) || c.found[id].Echo {
			continue
		}
		own := about(id)
		own.Event, own.At, own.seq, own.Code = Raised, f.At, -1, f.Status()
		c.faults = append(c.faults, own)
		return
	}
}

// hear reads what one process said, and keeps what it found.
func (c *Case) hear(id int, said Said) bool {
	f, ok := Read(said)
	if ok {
		c.found[id] = f
	}
	return ok
}

// before is the exceptions that came before a time: when lines came is not known.
func (s Said) before(t time.Time) (early Said) {
	for _, e := range s.Raised {
		if e.At.Before(t) {
			early.Raised = append(early.Raised, e)
		}
	}
	return early
}
