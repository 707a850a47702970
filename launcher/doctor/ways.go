package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// ways judges reachability, MTU, and with rates which way is much slower than the others.
func (r *Report) ways(ways []Way) {
	if len(ways) == 0 {
		return
	}
	r.Ways = ways
	var rates []float64
	mtus := map[int]bool{}
	bad := 0
	for _, w := range ways {
		if w.Error != "" {
			bad++
			continue
		}
		if w.Rate > 0 {
			rates = append(rates, w.Rate)
		}
		if w.MTU > 0 {
			mtus[w.MTU] = true
		}
	}
	r.broken(ways)
	if bad == 0 {
		r.add("reachable", Pass, fmt.Sprintf("every host reaches every other (%d ways)", len(ways)), "", r.there...)
	}
	if len(mtus) > 1 {
		r.add("MTU", Warn, strings.Trim(fmt.Sprint(slices.Sorted(maps.Keys(mtus))), "[]")+" bytes on different ways", "give all hosts' interfaces one "+
			"MTU (a CNI has a setting for it)", r.there...)
	}
	r.slow(ways, rates)
}

// broken tells of ways that do not pass, by cause, with who cannot be reached from whom.
func (r *Report) broken(ways []Way) {
	type cause struct{ text, to string }
	from, mute := map[cause][]string{}, map[cause]bool{}
	var order []cause
	for _, w := range ways {
		if w.Error == "" {
			continue
		}
		c := cause{w.Error, w.To}
		if from[c] == nil {
			order = append(order, c)
		}
		from[c], mute[c] = append(from[c], w.From), w.Mute
	}
	for _, c := range order {
		if mute[c] {
			r.add("reachable", Fail, c.text, "see what has the ports there (ss -ltnp), or give a wider --mpi-ports", c.to)
			continue
		}
		r.add("reachable", Fail, "from "+few(from[c])+": "+c.text,
			"allow TCP between the job's hosts on the ports of --mpi-ports (as examples/network-policy.yaml does); --interface chooses the interface", c.to)
	}
}

// open tells of ports that a job may find taken.
func (r *Report) open(hosts []Host) {
	for _, h := range hosts {
		if h.Open != "" {
			r.add("reachable", Fail, "its agent did not say that it has closed the port at which it answered: "+h.Open, "try again", h.Name)
		}
	}
}

// slowPart of the median rate is slow: noise on shared networks stays above it.
const slowPart = 0.5

func (r *Report) slow(ways []Way, rates []float64) {
	if len(rates) == 0 {
		return
	}
	median, slow := middle(rates), 0
	for _, w := range ways {
		if w.Rate > 0 && w.Rate < slowPart*median {
			slow++
			r.add("bandwidth", Warn, fmt.Sprintf("%s from %s, half of all ways have %s or more", rate(w.Rate), w.From, rate(median)),
				"look for a slow link, a busy machine or a host on another network; mpiup doctor --bandwidth --json has every way", w.To)
		}
	}
	if slow == 0 {
		r.add("bandwidth", Pass, fmt.Sprintf("%s or more, median %s (one TCP connection)", rate(slices.Min(rates)), rate(median)), "", r.there...)
	}
}

// rate is 10^6 bytes a second in words.
func rate(r float64) string {
	if r >= 1e3 {
		return fmt.Sprintf("%.1f GB/s", r/1e3)
	}
	return fmt.Sprintf("%.0f MB/s", r)
}

// Rounds pairs n hosts up. Each host is in one pair of a round and meets every other once in each direction, so
// bandwidths that are measured at the same time do not share a host.
func Rounds(n int) (rounds [][][2]int) {
	m := n + n%2 // an odd one sits out
	for k := range max(m-1, 0) {
		var there, back [][2]int
		for i := range m / 2 {
			a, b := (k+i)%(m-1), (k+m-1-i)%(m-1)
			if i == 0 {
				b = m - 1
			}
			if a < n && b < n {
				there, back = append(there, [2]int{a, b}), append(back, [2]int{b, a})
			}
		}
		rounds = append(rounds, there, back)
	}
	return rounds
}
