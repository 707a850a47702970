package restart

import (
	"slices"
	"time"
)

// Elastic is how many ranks a job may have, where hosts come and go. The zero value: as many as were asked for, always.
type Elastic struct {
	Min      int           // fewer are never started; 0: the job is not elastic
	Begin    int           // as many are waited for at first; 0: all hosts that are known
	Max      int           // more are never started; 0: no limit
	LastCall time.Duration // how long other hosts are waited for, once those for Min are here
}

// On says that a job's size may change.
func (e Elastic) On() bool { return e.Min > 0 }

// Share is how many ranks each of some hosts gets, which are asked in their order, and how many that are. whole: a host gets all that it
// can have, or none.
func (e Elastic) Share(room []int, whole bool) (ranks []int, sum int) {
	ranks = make([]int, len(room))
	for i, n := range room {
		if e.Max > 0 && sum+n > e.Max {
			if whole {
				continue
			}
			n = e.Max - sum
		}
		ranks[i], sum = n, sum+n
	}
	return ranks, sum
}

// Muster is who may begin an attempt of an elastic job.
type Muster struct {
	Elastic
	Seats  []Seat // of the last attempt; empty: this is the first
	Target int    // as many ranks are enough, and nobody else is waited for; 0: all hosts that are known
	Whole  bool   // a host gets as many ranks as it has slots, or none
}

// Choice is hosts for an attempt.
type Choice struct {
	Cast    []int // by index in the answers
	Ranks   []int // of each
	Sum     int   // of these
	Enough  bool  // there are as many as may be, or as are wanted
	Settled bool  // every host has answered, was asked in vain, or was lost: who may come else, nobody knows
}

// Choose chooses hosts. Those that had ranks before come first, in their order, so that the lowest ranks are on the hosts that have
// been there longest.
func (m Muster) Choose(answers []Answer) (c Choice) {
	at := map[string]int{} // of the last attempt's hosts
	for i, s := range m.Seats {
		at[s.Host] = i
	}
	all, soon := true, false // every host is here; one that had ranks is about to answer
	c.Settled = true
	for i, a := range answers {
		seat, known := at[a.Host]
		lost := known && m.Seats[seat].Lost
		switch {
		case a.Here:
			c.Cast = append(c.Cast, i)
		case !a.Tried && !lost:
			c.Settled = false
			soon = soon || known
		}
		all = all && a.Here
	}
	order := func(i int) int {
		if seat, known := at[answers[i].Host]; known {
			return seat
		}
		return len(m.Seats) + i
	}
	slices.SortFunc(c.Cast, func(i, j int) int { return order(i) - order(j) })
	room := make([]int, len(c.Cast))
	for k, i := range c.Cast {
		room[k] = answers[i].Slots
	}
	c.Ranks, c.Sum = m.Share(room, m.Whole)
	for k := len(c.Cast) - 1; k >= 0; k-- {
		if c.Ranks[k] == 0 {
			c.Cast, c.Ranks = slices.Delete(c.Cast, k, k+1), slices.Delete(c.Ranks, k, k+1)
		}
	}
	c.Enough = c.Sum >= m.Min && (all || !soon && m.Target > 0 && c.Sum >= m.Target)
	return c
}
