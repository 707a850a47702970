package slow

import (
	"fmt"
	"time"
)

// Names are how ranks are told of.
type Names struct {
	One  func(rank int) string    // with its host
	Many func(ranks []int) string // two at least
}

// News is what is to be told now of a job of so many ranks; "" is nothing.
func (w *Watch) News(now time.Duration, ranks int, names Names) string {
	f, news := w.Look(now, ranks)
	if !news {
		return ""
	}
	return f.sentence("of the last "+long(f.Window), names)
}

// End says what the whole run came to, or why nothing can be said of it; "" where nobody held the others up, or nobody asked.
func (w *Watch) End(ranks int, names Names) string {
	if w.Window == 0 {
		return ""
	}
	if why := w.Unmeasured(ranks); why != "" {
		return "--watch-ranks: who is slow was not measured: " + why
	}
	f := w.Total()
	switch {
	case !f.Measured:
		return "--watch-ranks: who is slow was not measured: the ranks had no " + long(w.Window) + " in which each had enough collectives"
	case len(f.Ranks) > 0:
		return f.sentence("of "+long(f.Window), names)
	case f.Unclear >= Enough:
		return fmt.Sprintf("--watch-ranks: the ranks waited %.0f %% of %s in calls that do not show for whom, such as MPI_Recv and MPI_Bcast", 100*f.Unclear, long(f.Window))
	}
	return ""
}

// sentence names whom the others wait for.
func (f Finding) sentence(when string, names Names) string {
	share := fmt.Sprintf("%.0f %% %s", 100*f.Share, when)
	switch {
	case f.Moves:
		return fmt.Sprintf("the ranks wait for each other %s, now for one and now for another: no host is slow all the time, and their work may be uneven", share)
	case len(f.Ranks) > 1:
		return fmt.Sprintf("%s: the others waited %s for them%s", names.Many(f.Ranks), share, f.Cause)
	}
	return fmt.Sprintf("%s: the others waited %s for it%s", names.One(f.Ranks[0]), share, f.Cause)
}

// long is a length of time as people read it.
func long(d time.Duration) string {
	if d < 2*time.Minute {
		return fmt.Sprintf("%.0f s", d.Seconds())
	}
	return d.Round(time.Second).String()
}

// String is what follows the sentence that names a rank.
func (r Reason) String() string {
	share := fmt.Sprintf("%.0f %% of that time", 100*min(r.Share, 1))
	switch r.Cause {
	case Throttled:
		return "; its container was throttled " + share + ": raise its CPU limit"
	case Queued:
		return "; its threads were ready to run " + share + ", and others had the processors: look for what else runs there"
	case Blocked:
		return "; it waited for storage " + share
	case Busy:
		return "; it was computing: it has more to do than the others, or a slower processor"
	case Still:
		return "; it neither computed nor waited for a processor or storage " + share + ": mpiup stacks says where it is"
	}
	return ""
}
