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

// Choose chooses hosts, by index in answers, and how many ranks each gets. Those that had ranks before come first, in their order,
// so that the lowest ranks are on the hosts that have been there longest. enough: there are as many as ever may be.
func (m Muster) Choose(answers []Answer) (cast, ranks []int, enough bool) {
	at := map[string]int{} // of the last attempt's hosts
	for i, s := range m.Seats {
		at[s.Host] = i
	}
	all, soon := true, false // every host is here; one is about to answer
	for i, a := range answers {
		seat, known := at[a.Host]
		switch {
		case a.Here:
			cast = append(cast, i)
		case known && !m.Seats[seat].Lost && !a.Tried:
			soon = true
		}
		all = all && a.Here
	}
	order := func(i int) int {
		if seat, known := at[answers[i].Host]; known {
			return seat
		}
		return len(m.Seats) + i
	}
	slices.SortFunc(cast, func(i, j int) int { return order(i) - order(j) })
	room := make([]int, len(cast))
	for k, i := range cast {
		room[k] = answers[i].Slots
	}
	ranks, sum := m.Share(room, m.Whole)
	for k := len(cast) - 1; k >= 0; k-- {
		if ranks[k] == 0 {
			cast, ranks = slices.Delete(cast, k, k+1), slices.Delete(ranks, k, k+1)
		}
	}
	switch {
	case sum < m.Min:
		return cast, ranks, false
	case all:
		return cast, ranks, true
	}
	return cast, ranks, !soon && m.Target > 0 && sum >= m.Target
}

// Sum is the ranks of all.
func Sum(ranks []int) (n int) {
	for _, r := range ranks {
		n += r
	}
	return n
}
