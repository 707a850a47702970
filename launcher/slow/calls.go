package slow

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/mpiup/mpiup/internal/frameworks"
)

// Offset is how far a host's wall clock is from ours, and by how much that may be wrong: half of a round trip.
type Offset struct{ By, Within time.Duration }

// Calls are when torch's processes called collectives, by their flight recorders: the last to call is who the others wait for. These are wall
// clocks of hosts, so that a difference within what is known of these clocks accuses nobody. The zero value knows none.
type Calls struct{ of map[int]caller }

// caller is one process, by torch's rank.
type caller struct {
	host   string
	offset Offset
	groups []frameworks.FlightGroup
}

// maxSum bounds what one collective adds.
const maxSum = 1000 * 24 * time.Hour

// Hear takes what a process on a host has called.
func (c *Calls) Hear(host string, offset Offset, of frameworks.Flight) {
	if c.of == nil {
		c.of = map[int]caller{}
	}
	c.of[of.Rank] = caller{host, offset, of.Groups}
}

// Tardy is a process that is the last to call the collectives of a group.
type Tardy struct {
	Rank   int // torch's
	Host   string
	Group  string
	Times  int           // it was the last, by more than the clocks are unsure,
	Of     int           // of so many collectives
	After  time.Duration // the one in the middle of those that called before it, on average
	Share  float64       // of Window that these lost by it, about
	Window time.Duration
	Unsure time.Duration // by how much the clocks may be wrong
}

// Find finds who is the last in most of a group's collectives of the last window. measured: there were collectives enough that several
// processes have called.
func (c *Calls) Find(window time.Duration) (found Tardy, measured bool) {
	groups := map[string]map[int][]frameworks.FlightCall{}
	for rank, p := range c.of {
		for _, g := range p.groups {
			if groups[g.Name] == nil {
				groups[g.Name] = map[int][]frameworks.FlightCall{}
			}
			groups[g.Name][rank] = g.Calls
		}
	}
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		t, enough := c.tardy(groups[name], window)
		measured = measured || enough
		if t.Share > found.Share && t.Share >= Enough && float64(t.Times) >= Held*float64(t.Of) {
			found, found.Group = t, name
		}
	}
	return found, measured
}

// tardy is the one that was last most often in one group.
func (c *Calls) tardy(of map[int][]frameworks.FlightCall, window time.Duration) (best Tardy, enough bool) {
	byRank := map[int]map[uint64]time.Time{}
	count := map[uint64]int{}
	for rank, list := range of {
		byRank[rank] = map[uint64]time.Time{}
		for _, call := range list {
			byRank[rank][call.Seq] = time.Unix(0, call.At).Add(-c.of[rank].offset.By)
			count[call.Seq]++
		}
	}
	var seqs []uint64
	for seq, n := range count {
		if n == len(of) && n > 1 {
			seqs = append(seqs, seq)
		}
	}
	slices.Sort(seqs)
	type last struct {
		rank         int
		after, since time.Duration
		unsure       time.Duration
	}
	var lasts []last
	var before, end time.Time
	for i := len(seqs) - 1; i >= 0; i-- { // the newest first
		l, at := c.last(byRank, seqs[i])
		if end.IsZero() {
			end = at
		} else {
			lasts[len(lasts)-1].since = max(before.Sub(at), 0)
		}
		if end.Sub(at) > window {
			break
		}
		before = at
		lasts = append(lasts, last{rank: l.Rank, after: l.After, unsure: l.Unsure})
	}
	if n := len(lasts); n > 0 && lasts[n-1].since == 0 {
		lasts = lasts[:n-1] // nobody knows when the one before was
	}
	if len(lasts) < fewest {
		return Tardy{}, false
	}
	all := map[int]*Tardy{}
	var long time.Duration
	for _, l := range lasts {
		long += l.since
		if l.after <= l.unsure {
			continue
		}
		t := all[l.rank]
		if t == nil {
			t = &Tardy{Rank: l.rank, Host: c.of[l.rank].host}
			all[l.rank] = t
		}
		t.Times++
		t.After += min(l.after, maxSum)
		t.Unsure = max(t.Unsure, l.unsure)
		t.Share += float64(min(l.after, l.since))
	}
	for _, rank := range slices.Sorted(maps.Keys(all)) {
		t := *all[rank]
		t.After /= time.Duration(t.Times)
		t.Of, t.Window, t.Share = len(lasts), long, share(time.Duration(t.Share), long)
		if t.Times > best.Times {
			best = t
		}
	}
	return best, true
}

// last is who called a collective last, how long after the one in the middle of the others, and when that one did.
func (c *Calls) last(byRank map[int]map[uint64]time.Time, seq uint64) (t Tardy, at time.Time) {
	type call struct {
		rank int
		at   time.Time
	}
	var list []call
	for rank, calls := range byRank {
		list = append(list, call{rank, calls[seq]})
	}
	slices.SortFunc(list, func(a, b call) int {
		if n := a.at.Compare(b.at); n != 0 {
			return n
		}
		return a.rank - b.rank
	})
	n := len(list) - 1
	own, middle := list[n], list[(n-1)/2]
	t = Tardy{Rank: own.rank, After: own.at.Sub(middle.at)}
	if a, b := c.of[own.rank], c.of[middle.rank]; a.host != b.host {
		t.Unsure = a.offset.Within + b.offset.Within
	}
	return t, middle.at
}

// Sentence names it.
func (t Tardy) Sentence(cause string) string {
	unsure := ""
	if t.Unsure > 0 {
		unsure = fmt.Sprintf(", by clocks that agree to %v", t.Unsure.Round(10*time.Microsecond))
	}
	return fmt.Sprintf("torch's rank %d on %s: it was the last to call %d of the last %d collectives of group %s, %v after the others%s: "+
		"these waited about %.0f %% of %s for it%s",
		t.Rank, t.Host, t.Times, t.Of, t.Group, t.After.Round(100*time.Microsecond), unsure, 100*t.Share, long(t.Window), cause)
}
