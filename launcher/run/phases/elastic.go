package phases

import (
	"fmt"
	"slices"
)

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

// AsMany chooses hosts for an attempt of an elastic job: of those that answer, as many as bring it to target ranks; 0: all hosts that are
// known. Those that had ranks before come first, in their order, so that the lowest ranks are on the hosts that have been there longest.
func (w Wish) AsMany(seats []Seat, target int, answers []Answer) (c Choice) {
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
			c.Answers = append(c.Answers, i)
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
	slices.SortFunc(c.Answers, func(i, j int) int { return order(i) - order(j) })
	room := make([]int, len(c.Answers))
	for k, i := range c.Answers {
		room[k] = w.Room(answers[i].Place())
	}
	c.Ranks, c.Sum = w.Share(room)
	for k := len(c.Answers) - 1; k >= 0; k-- {
		if c.Ranks[k] == 0 {
			c.Answers, c.Ranks = slices.Delete(c.Answers, k, k+1), slices.Delete(c.Ranks, k, k+1)
		}
	}
	c.Enough = c.Sum >= w.Elastic.Min && (all || !soon && target > 0 && c.Sum >= target)
	return c
}

// Check refuses what an elastic job cannot be. goesOn: it does when ranks fail; nodes: pods that start ranks of their own.
func (w Wish) Check(goesOn bool, nodes int) error {
	e := w.Elastic
	switch {
	case w.Spares > 0:
		return fmt.Errorf("--spares %d: with --min-np a host without ranks comes in by itself; leave --spares out, or bound the ranks by --max-np", w.Spares)
	case goesOn:
		return fmt.Errorf("--min-np %d: this run goes on when ranks fail, so they are never started again; leave one of the two out", e.Min)
	case nodes > 1:
		return fmt.Errorf("--min-np %d: each host starts ranks of its own, and those of the others would not be started "+
			"again with them; start all from one host", e.Min)
	case len(w.Apps) > 1:
		return fmt.Errorf("--min-np %d: several programs have fixed numbers of ranks; give one program", e.Min)
	case w.Apps[0].On != nil || len(w.Policy.Binding.Lines) > 0:
		return fmt.Errorf("--min-np %d: ranks that are given to hosts by name cannot move to others; leave out the rankfile or the program's own hosts", e.Min)
	case w.Policy.Oversubscribe && w.Policy.PerNode == 0:
		return fmt.Errorf("--min-np %d: an elastic job has a rank for each slot of its hosts; leave --oversubscribe out, or "+
			"say how many ranks a host gets (--ppn)", e.Min)
	case w.Policy.PerNode > 0 && (e.Min%w.Policy.PerNode != 0 || e.Max%w.Policy.PerNode != 0):
		return fmt.Errorf("--min-np %d, --max-np %d: each host gets %d ranks (--ppn), so both must be multiples of that", e.Min, e.Max, w.Policy.PerNode)
	}
	return nil
}
