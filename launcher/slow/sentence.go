package slow

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mpiup/mpiup/internal/idset"
)

// Names are how ranks are told of.
type Names struct {
	One  func(rank int) string    // with its host
	Many func(ranks []int) string // two at least
}

func (n Names) of(ranks []int) (who, it string) {
	if len(ranks) > 1 {
		return n.Many(ranks), "them"
	}
	return n.One(ranks[0]), "it"
}

// News is what is to be told now of a job of so many ranks; "" is nothing.
func (w *Watch) News(now time.Duration, ranks int, names Names) string {
	if l := w.Awaited(now, ranks); len(l.Ranks) > 0 {
		if w.late.told || !l.Sure || w.lates == maxLates {
			return ""
		}
		if l.Alleged {
			if w.late.told = true; w.said {
				return ""
			}
			w.said = true
			return l.Sentence(names)
		}
		w.late.told = true
		w.lates++
		return l.Sentence(names) + "; where it is: mpiup stacks"
	}
	if w.stepped(now) {
		return w.steps.slowed("have taken", now)
	}
	f, news := w.Look(now, ranks)
	if !news {
		return ""
	}
	return f.sentence("of the last "+long(f.Window), names) + w.also(f.Ranks).sentence()
}

// End says what the whole run came to, or why nothing can be said of it; "" where nobody held the others up, or nobody
// asked.
func (w *Watch) End(ranks int, names Names) string {
	if w.Window == 0 {
		return ""
	}
	f, why := w.Total(ranks), w.Unmeasured(ranks)
	switch {
	case (why != "" || !f.Measured) && (w.lates > 0 || w.before):
	case why != "" && w.Unwatched() && w.Cadence(w.heard()) != "":
		return "--watch-ranks: " + w.Cadence(w.heard()) + "; who is slow was not measured"
	case why != "":
		return "--watch-ranks: who is slow was not measured: " + why
	case !f.Measured:
		return "--watch-ranks: who is slow was not measured: the ranks had no " + long(min(w.Window, shortest)) + " in which each had enough collectives"
	case f.Alleged:
		return "--watch-ranks: " + f.sentence("of "+long(f.Window), names)
	case len(f.Ranks) > 0, f.Moves && !w.moved:
		return f.sentence("of "+long(f.Window), names) + w.also(f.Ranks).sentence()
	case f.Crowded >= Enough:
		return fmt.Sprintf("--watch-ranks: who is slow does not show: all ranks were ready to run %.0f %% of %s, and others had the processors",
			100*f.Crowded, long(f.Window))
	case f.Unclear >= Enough:
		return fmt.Sprintf("--watch-ranks: the ranks waited %.0f %% of %s in calls that do not show for whom, such as MPI_Recv and MPI_Bcast",
			100*f.Unclear, long(f.Window))
	}
	return ""
}

// Before is who the others waited for before a run was ended since it did not go on, else in which calls the ranks have been for long: "" where
// neither shows.
func (w *Watch) Before(now time.Duration, ranks int, names Names) string {
	w.before = true
	if l := w.Awaited(now, ranks); len(l.Ranks) > 0 {
		return l.Sentence(names)
	}
	if len(w.last.Ranks) == 0 || !slices.Equal(w.told, w.last.Ranks) {
		w.before = len(w.Calls()) > 0
		return w.Underway(now, names)
	}
	who, _ := names.of(w.last.Ranks)
	return fmt.Sprintf("before that, the others waited %.0f %% of %s for %s%s", 100*w.last.Share, long(w.last.Window), who,
		w.last.Cause.Sentence()) + w.also(w.last.Ranks).sentence()
}

// Tells says that one of these lines has what Before says: who all others wait for now, or who has not come to a call.
func (w *Watch) Tells(lines []string) bool {
	return slices.ContainsFunc(lines, func(l string) bool {
		return len(w.late.Ranks) > 0 && !w.late.Alleged && strings.Contains(l, ": all others have waited ") ||
			len(w.late.Ranks)+len(w.told) == 0 && strings.Contains(l, " not come to MPI_")
	})
}

// Calls are the calls of MPI in which ranks are, by their own word.
func (w *Watch) Calls() map[int]string {
	in := map[int]string{}
	for id, t := range w.ranks {
		if t.Call != "" {
			in[id] = t.Call
		}
	}
	return in
}

// Last is who the others wait for, and for what share of a window; nobody where none is named now.
func (w *Watch) Last() ([]int, float64) {
	switch {
	case len(w.late.Ranks) > 0 && !w.late.Alleged:
		return w.late.Ranks, 1
	case len(w.told) > 0:
		return w.told, w.last.Share
	case len(w.steps.named) > 0:
		return w.steps.named, w.steps.share
	}
	return nil, 0
}

// Why is why who is named holds the others up, as far as it shows.
func (w *Watch) Why() Cause {
	if len(w.told) == 0 {
		return Unclear
	}
	return w.last.Cause.Cause
}

// Suspects are who is named now, and for what share of a window the others wait for them, where it shows at most that they worked or rested: their
// stacks may say more.
func (w *Watch) Suspects() ([]int, float64) {
	cause := w.last.Cause.Cause
	if len(w.late.Ranks) > 0 {
		cause = w.late.Cause.Cause
	}
	switch {
	case cause != Unclear && cause != Busy && cause != Still, len(w.late.Ranks) > 0 && !w.late.told:
		return nil, 0
	case len(w.late.Ranks) > 0:
		return w.late.Ranks, 1
	case w.last.Alleged: // stacks may bear it out
		return w.last.Ranks, w.last.Share
	}
	return w.Last()
}

// An Opinion is what stacks say of ranks, a second one. The zero value says nothing.
type Opinion struct {
	Says   string
	Doubts bool // they show nothing that bears the name out, and should
}

func (o Opinion) sentence() string {
	if o.Says == "" {
		return ""
	}
	return "; " + o.Says
}

// Opine takes what stacks say of ranks and returns what is to be told of that, "" for nothing. Tools have stopped ranks for a moment until now:
// nobody is named by that.
func (w *Watch) Opine(now time.Duration, ranks []int, o Opinion, names Names) string {
	w.blind = now + w.Window*5/4
	if suspects, _ := w.Suspects(); o.Says == "" || !slices.Equal(ranks, suspects) {
		return ""
	}
	w.opined, w.opinion = ranks, o
	if named, _ := w.Last(); !slices.Equal(ranks, named) { // they are only alleged: what bears that out is told with their names
		return ""
	}
	who, _ := names.of(ranks)
	return who + ": " + o.Says
}

// also is what stacks say of ranks.
func (w *Watch) also(ranks []int) (o Opinion) {
	if slices.Equal(ranks, w.opined) {
		return w.opinion
	}
	return o
}

// Sentence names whom the others wait for.
func (f Finding) Sentence(names Names) string {
	return f.sentence("of the last "+long(f.Window), names)
}

func (f Finding) sentence(when string, names Names) string {
	share := fmt.Sprintf("%.0f %% %s", 100*f.Share, when)
	if f.Alleged {
		return names.says(f.By) + fmt.Sprintf(" waited %s for others: %s", share, alleged(f.By))
	}
	if f.Moves {
		return fmt.Sprintf("the ranks wait for each other %s, now for one and now for another: no host is slow all the time, and their work may be uneven", share)
	}
	who, it := names.of(f.Ranks)
	return fmt.Sprintf("%s: the others waited %s for %s%s", who, share, it, f.Cause.Sentence())
}

// alleged is why nobody is named.
func alleged(by idset.Set) string {
	if by.Len() == 1 {
		return "its word alone names nobody; where ranks are: mpiup stacks"
	}
	return "their words alone name nobody; where ranks are: mpiup stacks"
}

// says begins what ranks say of themselves.
func (n Names) says(by idset.Set) string {
	if by.Empty() {
		return "ranks say that they"
	}
	who, it := n.of(by.Slice())
	if it == "it" {
		return who + " says that it"
	}
	return who + " say that they"
}

// Sentence says who is waited for.
func (l Late) Sentence(names Names) string {
	if l.Alleged {
		return names.says(l.By) + fmt.Sprintf(" waited %s in %s for others: %s", long(l.For), cmp.Or(l.Call, "a collective over all ranks"), alleged(l.By))
	}
	who, _ := names.of(l.Ranks)
	return who + ": " + l.Why()
}

// Why is that without their names.
func (l Late) Why() string {
	it, sure := "it", "as one look shows"
	if len(l.Ranks) > 1 {
		it = "them"
	}
	if l.Sure {
		sure = "as several looks show"
	}
	return fmt.Sprintf("all others have waited %s for %s in %s, %s%s", long(l.For), it, cmp.Or(l.Call, "a collective over all ranks"), sure,
		l.Cause.Sentence()) + l.Also.sentence()
}

// long is a length of time as people read it.
func long(d time.Duration) string {
	if d < 2*time.Minute {
		return fmt.Sprintf("%.0f s", d.Seconds())
	}
	return d.Round(time.Second).String()
}
