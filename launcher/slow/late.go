package slow

import (
	"slices"
	"time"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/job"
)

// Late is ranks that have not come to a collective in which all others are. It shows before that collective is over, which may be never.
type Late struct {
	Ranks []int         // ascending; empty: nobody
	For   time.Duration // so long the last of the others to come has waited
	Call  string        // in which all of them are; "": it does not show
	Sure  bool          // two looks saw the same, and were not nearer than a window's Looks are
	Cause Reason        // of the first of Ranks
	Also  Opinion

	// Alleged says that Ranks may not be named: too little bears out what By, those inside, say of themselves (launcher/witness).
	Alleged bool
	By      idset.Set

	seq  uint64        // collectives that were over
	seen time.Duration // when it was seen first
	told bool
}

// Looks is how many looks a window has.
const Looks = 12

// maxLates bounds how often a run says that ranks are late.
const maxLates = 3

// Awaited is who all others wait for now, and have for a window, and for as long as a busy machine may let anybody wait.
// How long each of the others waited is by its own host's clock.
func (w *Watch) Awaited(now time.Duration, ranks int) Late {
	found := w.absent(now, ranks)
	switch old := w.late; {
	case len(found.Ranks) == 0 || found.For < max(w.Window, shortest):
		w.late = Late{}
		return w.late
	case slices.Equal(found.Ranks, old.Ranks) && found.seq == old.seq:
		found.seen, found.told = old.seen, old.told
		found.Sure = old.Sure || now-old.seen >= w.Window/Looks
	default:
		found.seen = now
	}
	late, cause := found.Ranks, w.cause(Finding{Ranks: found.Ranks, Share: 1})
	found.Ranks, found.Alleged = w.accused(late, found.By, cause.Cause)
	if found.told = found.told && found.Alleged == w.late.Alleged; len(found.Ranks) != len(late) {
		cause = w.cause(Finding{Ranks: found.Ranks, Share: 1})
	}
	found.Cause, found.Also = cause, w.also(found.Ranks)
	w.late = found
	return found
}

// absent finds ranks still outside the collective that all others have entered.
func (w *Watch) absent(now time.Duration, ranks int) (l Late) {
	if len(w.ranks) < ranks || ranks < 2 {
		return l
	}
	for _, t := range w.ranks {
		if t.State != job.Measured && (t.State != job.Finalized || t.Call == "" || t.Inside == 0) || now-t.heard > w.Window {
			return Late{}
		}
		if t.Inside > 0 {
			l.seq = max(l.seq, t.Seq)
		}
	}
	first := true
	var waiting []int // for somebody else, in a call between two
	for id, t := range w.ranks {
		switch {
		case t.Inside > 0 && t.Seq == l.seq:
			l.By.Add(id)
			switch waits := t.at - t.Inside; {
			case first:
				l.For, l.Call, first = waits, t.Call, false
			case t.Call != l.Call: // some have left the others
				return Late{}
			default:
				l.For = min(l.For, waits)
			}
		case t.Inside == 0 && t.Seq <= l.seq:
			if l.Ranks = append(l.Ranks, id); t.Elsewhere > 0 {
				waiting = append(waiting, id)
			}
		default: // they are not at the same place: a look was too early, or somebody lies
			return Late{}
		}
	}
	if first || len(l.Ranks)*together > ranks {
		return Late{}
	}
	switch {
	case len(waiting) < len(l.Ranks):
		l.By = l.By.Union(idset.Of(waiting...))
		l.Ranks = slices.DeleteFunc(l.Ranks, func(id int) bool { return slices.Contains(waiting, id) })
	case len(waiting) > 1: // each may wait for another of them, or for what the network has lost
		return Late{}
	}
	slices.Sort(l.Ranks)
	return l
}
