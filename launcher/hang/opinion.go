package hang

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/launcher/slow"
)

// Opinions are second ones, by stacks, on ranks that the others are said to wait for where nothing says why. The zero value has none.
//
//	named, cause weak ──Due──▶ stacks of all ──See──▶ apart from the others' wait, or not ──five times──▶ where it is, a doubt, or nothing
//
// A look costs what its tools need, in which a rank stands still. So each rank has five looks at most in a run, and a run has three opinions.
// Where that is longer than a step, as on a busy machine, the rank waits for others that stand still: one look that shows it apart is no doubt.
type Opinions struct {
	of    idset.Set // the ranks that are looked at; empty: none are
	had   idset.Set // they, and those before them
	times int       // opinions
	share float64   // of the time, that the others are said to wait for them
	next  time.Duration
	begun time.Duration // when the first look was

	tries, looks int        // and those that showed where ranks are
	apart        [][]string // in those of them that show the ranks elsewhere than the others: where
	in           string     // and the call in which most of the others were
}

// OpinionTime is for one look: where tools need longer, for ranks' many symbols or on a machine that has no time, there is no other.
const OpinionTime = 3 * time.Second

const (
	opinionLooks = 5    // of an opinion
	agree        = 4    // of them at least, that must show one thing
	maxOpinions  = 3    // of a run
	improbable   = 0.01 // that no look shows what is said: less is a doubt
)

// Due says that it is time for a look, where named ranks are those for which the others wait for a share of the time. all, evenly, are those
// to look at. Who is named no longer is looked at again once it is.
func (o *Opinions) Due(now, every time.Duration, named []int, share float64) bool {
	ids := idset.Of(named...)
	if !ids.Empty() && !ids.Equal(o.of) {
		if o.of = (idset.Set{}); o.times == maxOpinions || ids.Overlaps(o.had) {
			return false
		}
		*o = Opinions{of: ids, had: o.had.Union(ids), times: o.times + 1, share: share, begun: now}
	}
	if ids.Empty() || o.of.Empty() || now < o.next {
		return false
	}
	o.next = now + every
	return true
}

// Of are the ranks that are looked at.
func (o *Opinions) Of() idset.Set { return o.of }

// See takes a look, and says what all five come to; nothing before, nor where they show nothing. Who cannot be looked at, or not soon enough, is
// looked at no more.
func (o *Opinions) See(now time.Duration, found []Stack, answered bool) (says slow.Opinion) {
	at, in, seen := apart(o.of, found)
	if o.tries++; !answered || !seen && o.looks == 0 {
		o.of = idset.Set{}
		return says
	}
	if seen {
		o.looks++
	}
	if at != nil {
		if len(o.apart) > 0 && in != o.in {
			in = several
		}
		o.apart, o.in = append(o.apart, at), in
	}
	if o.tries < opinionLooks {
		return says
	}
	it, were := "it was", "its stacks show"
	if o.of.Len() > 1 {
		it, were = "they were", "their stacks show"
	}
	o.of = idset.Set{}
	times := fmt.Sprintf("in %d of %d looks within %.0f s", len(o.apart), o.looks, max(1, (now-o.begun).Seconds()))
	if len(o.apart) >= agree {
		if place := common(o.apart); len(place) > 1 { // else main alone
			says.Says = fmt.Sprintf("%s %s in %s, the others in %s", times, it, strings.Join(Telling(place), ", called by "), o.in)
		}
	} else if len(o.apart) == 0 && o.looks >= agree && math.Pow(1-o.share, float64(o.looks)) < improbable {
		says.Doubts, says.Says = true, fmt.Sprintf("%s nothing that differs: %s %s elsewhere than the others", were, times, it)
	}
	return says
}

// apart is where ranks are, from a call that waits outwards, while more than half of the others wait in one call and none of them does. nil: they
// are not apart. seen: stacks of them were taken, each whole, and of others.
func apart(of idset.Set, found []Stack) (at []string, in string, seen bool) {
	calls := map[string]int{}
	var theirs []Stack
	var others int
	for _, s := range found {
		name, whole := s.Wait()
		switch {
		case of.Contains(s.ID) && !whole:
			return nil, "", false
		case of.Contains(s.ID):
			theirs = append(theirs, s)
		default:
			if others++; whole {
				calls[name]++
			}
		}
	}
	for name, n := range calls {
		if 2*n > others && name != "" && !polls(name) {
			in = name
		}
	}
	var places [][]string
	for _, s := range theirs {
		if name, _ := s.Wait(); name == in {
			return nil, in, others > 0
		}
		places = append(places, call(s.Frames))
	}
	if in == "" || len(places) == 0 {
		return nil, "", others > 0 && len(places) > 0
	}
	return common(places), in, true
}

// common are the outermost frames that stacks have in common, without those that have no name. Of one function at several lines it is the function.
func common(stacks [][]string) []string {
	both := stacks[0]
	for _, s := range stacks[1:] {
		n := 0
		for n < min(len(both), len(s)) && function(both[len(both)-1-n]) == function(s[len(s)-1-n]) {
			n++
		}
		both, s = slices.Clone(both[len(both)-n:]), s[len(s)-n:]
		for i := range both {
			if both[i] != s[i] {
				both[i] = function(both[i])
			}
		}
	}
	for len(both) > 0 && both[0] == "??" {
		both = both[1:]
	}
	return both
}
