package choose

import (
	"slices"
	"strings"
)

// Came says that hosts have come, by their names.
func Came(hosts string) string {
	if strings.Contains(hosts, ", ") {
		return "hosts " + hosts + " have come"
	}
	return "host " + hosts + " has come"
}

// Share is how many ranks each of some hosts gets of an elastic job, which are asked in their order, and how many that are. Where the user says
// how many a host gets, it gets all of them or none.
func (w Wish) Share(room []int) (ranks []int, sum int) {
	ranks = make([]int, len(room))
	for i, n := range room {
		if w.Elastic.Max > 0 && sum+n > w.Elastic.Max {
			if w.Policy.PerNode > 0 {
				continue
			}
			n = w.Elastic.Max - sum
		}
		ranks[i], sum = n, sum+n
	}
	return ranks, sum
}

// Muster chooses hosts for an attempt of an elastic job: of those that answer, as many as bring it to target ranks; 0: all hosts that are
// known. Those that had ranks before come first, in their order, so that the lowest ranks are on the hosts that have been there longest.
func (w Wish) Muster(seats []Seat, target int, answers []Answer) (c Choice) {
	at := map[string]int{} // of the last attempt's hosts
	for i, s := range seats {
		at[s.Host] = i
	}
	all, soon := true, false // every host is here; one that had ranks is about to answer
	c.Settled = true
	for i, a := range answers {
		seat, known := at[a.Name()]
		lost := known && seats[seat].Lost
		switch {
		case a.Host != nil:
			c.Cast = append(c.Cast, i)
		case !a.Tried && !lost:
			c.Settled = false
			soon = soon || known
		}
		all = all && a.Host != nil
	}
	order := func(i int) int {
		if seat, known := at[answers[i].Name()]; known {
			return seat
		}
		return len(seats) + i
	}
	slices.SortFunc(c.Cast, func(i, j int) int { return order(i) - order(j) })
	room := make([]int, len(c.Cast))
	for k, i := range c.Cast {
		room[k] = w.Room(answers[i].Place())
	}
	c.Ranks, c.Sum = w.Share(room)
	for k := len(c.Cast) - 1; k >= 0; k-- {
		if c.Ranks[k] == 0 {
			c.Cast, c.Ranks = slices.Delete(c.Cast, k, k+1), slices.Delete(c.Ranks, k, k+1)
		}
	}
	c.Enough = c.Sum >= w.Elastic.Min && (all || !soon && target > 0 && c.Sum >= target)
	return c
}
