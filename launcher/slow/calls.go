package slow

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/mpiup/mpiup/internal/frameworks"
	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/launcher/witness"
)

// Offset is how far a host's wall clock is from ours, and by how much that may be wrong: half of a round trip.
type Offset struct{ By, Within time.Duration }

// Calls are when torch's processes called collectives, by their flight recorders: the last to call is who the others wait for. These are wall
// clocks of hosts, so that a difference within what is known of these clocks accuses nobody. The zero value knows none.
type Calls struct {
	of    map[int]caller
	Hosts int // of the run, at least
}

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

	// Alleged says that it may not be named: too few others say that they call before it (launcher/witness).
	Alleged bool
	by      map[int]int // how often each of the others did, by half of what is usual at least
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
		if t.Share < Enough || float64(t.Times) < Held*float64(t.Of) {
			continue
		}
		t.Group, t.Alleged = name, !c.may(t)
		if found.Share == 0 || found.Alleged && !t.Alleged || t.Share > found.Share && t.Alleged == found.Alleged {
			found = t
		}
	}
	return found, measured
}

// may says that others enough say that they called before it. A process may have written the records of all of its host.
func (c *Calls) may(t Tardy) bool {
	var all, by idset.Set
	for rank := range c.of {
		all.Add(rank)
		if float64(t.by[rank]) >= Held*float64(t.Times) {
			by.Add(rank)
		}
	}
	places := witness.Places{All: all, Host: func(rank int) string { return c.of[rank].host }, Hosts: c.Hosts}
	return !places.Accused(witness.Claim{About: idset.Of(t.Rank), By: by, Shared: true}).Empty()
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
		before       []int
	}
	var lasts []last
	var before, end time.Time
	for i := len(seqs) - 1; i >= 0; i-- { // the newest first
		l, at, earlier := c.last(byRank, seqs[i])
		if end.IsZero() {
			end = at
		} else {
			lasts[len(lasts)-1].since = max(before.Sub(at), 0)
		}
		if end.Sub(at) > window {
			break
		}
		before = at
		lasts = append(lasts, last{rank: l.Rank, after: l.After, unsure: l.Unsure, before: earlier})
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
			t = &Tardy{Rank: l.rank, Host: c.of[l.rank].host, by: map[int]int{}}
			all[l.rank] = t
		}
		t.Times++
		for _, rank := range l.before {
			t.by[rank]++
		}
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

// last is who called a collective last, how long after the one in the middle of the others, when that one did, and who was earlier than the last
// by half of that.
func (c *Calls) last(byRank map[int]map[uint64]time.Time, seq uint64) (t Tardy, at time.Time, earlier []int) {
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
	for _, l := range list[:n] {
		if 2*own.at.Sub(l.at) >= t.After {
			earlier = append(earlier, l.rank)
		}
	}
	return t, middle.at, earlier
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
