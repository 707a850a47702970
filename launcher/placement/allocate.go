package placement

import (
	"fmt"
	"slices"

	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/visible"
)

// named is how many hosts a message lists before it counts the rest.
const named = 6

// allocate says how many ranks each host takes and how many each app has. used is how many slots of each host programs
// before these have; nil: none.
func allocate(hosts []job.Host, used []int, apps []job.App, p Policy) (counts, sizes []int, err error) {
	if used == nil {
		used = make([]int, len(hosts))
	}
	sizes, total := sizesOf(apps)
	if slices.Contains(sizes, 0) {
		one, err := p.withoutNumber(hosts)
		if err != nil {
			return nil, nil, err
		}
		for i := range sizes {
			if sizes[i] == 0 {
				sizes[i], total = one, total+one
			}
			if total > MaxRanks {
				return nil, nil, errTooMany
			}
		}
	}
	switch {
	case p.MapBy == ByRound:
		counts = allocateRounds(hosts, total, p)
	case p.PerNode > 0:
		counts, err = allocatePerNode(hosts, used, total, p)
	default:
		counts, err = allocateSlots(hosts, used, total, p)
	}
	return counts, sizes, err
}

// withoutNumber is how many ranks a program has that has no number of them.
func (p Policy) withoutNumber(hosts []job.Host) (total int, err error) {
	for _, h := range hosts {
		n := h.Slots
		switch {
		case p.MapBy == ByRound:
			n = p.block(h)
		case p.PerNode > 0:
			n = p.PerNode
		}
		if total += n; n > MaxRanks || total > MaxRanks {
			return 0, fmt.Errorf("the hosts have more than %d slots, the largest job; say -n", MaxRanks)
		}
	}
	return total, nil
}

// sizesOf are the ranks that each app asks for, and all together. They are 0 of a single app that asks for none.
func sizesOf(apps []job.App) (sizes []int, total int) {
	sizes = make([]int, len(apps))
	for i, a := range apps {
		sizes[i] = a.N
		total += a.N
	}
	return sizes, total
}

// limit is how many ranks a host may take; false: nothing limits it.
func (p Policy) limit(h job.Host) (int, bool) {
	switch {
	case p.Oversubscribe || !h.SlotsGiven && !p.Limited:
		return 0, false
	case h.SlotsGiven:
		return h.Slots, true
	}
	return max(h.Slots, h.CPUs), true
}

// allocateRounds gives each host in turn its block, as often as it takes.
func allocateRounds(hosts []job.Host, total int, p Policy) []int {
	once := 0
	for _, h := range hosts {
		once += p.block(h)
	}
	counts := make([]int, len(hosts))
	left := total % once
	for h, host := range hosts {
		rest := min(left, p.block(host))
		counts[h] = total/once*p.block(host) + rest
		left -= rest
	}
	return counts
}

// allocatePerNode gives every host p.PerNode ranks while they last; by node they are spread
// over all hosts.
func allocatePerNode(hosts []job.Host, used []int, total int, p Policy) ([]int, error) {
	if total > p.PerNode*len(hosts) {
		return nil, fmt.Errorf("%d ranks asked for, but %d per host on %s makes %d; ask for fewer ranks, more per host or more hosts",
			total, p.PerNode, visible.Count(len(hosts), "host"), p.PerNode*len(hosts))
	}
	counts := make([]int, len(hosts))
	fill(counts, total, p.MapBy, func(int) int { return p.PerNode })
	var over []string
	for h, host := range hosts {
		if most, limited := p.limit(host); limited && counts[h] > max(most-used[h], 0) {
			over = append(over, fmt.Sprintf("%s: %d", host.Name, max(most-used[h], 0)))
		}
	}
	if len(over) > 0 {
		return nil, fmt.Errorf("%d ranks per host asked for, but fewer slots were given for %s (%s); ask for fewer, give more slots, or pass --oversubscribe",
			p.PerNode, visible.Count(len(over), "host"), visible.Few(over, named, ", "))
	}
	return counts, nil
}

// allocateSlots fills slots and deals the rest out over the hosts that may take more.
func allocateSlots(hosts []job.Host, used []int, total int, p Policy) ([]int, error) {
	slots, elastic := 0, 0
	free := make([]int, len(hosts))
	for h, host := range hosts {
		free[h] = max(host.Slots-used[h], 0)
		slots += free[h]
		if _, limited := p.limit(host); !limited {
			elastic += host.Slots
		}
	}
	counts := make([]int, len(hosts))
	left := total
	if total <= slots && !(p.MapBy == ByNode && p.Rules == OpenMPI5 && p.Oversubscribe) {
		fill(counts, left, p.MapBy, func(h int) int { return free[h] })
		return counts, nil
	}
	left -= slots
	if p.Apart && p.Oversubscribe {
		return p.evenly(free, total, left), nil
	}
	if elastic == 0 {
		return p.beyondSlots(hosts, used, free, total, left)
	}
	rounds := left / elastic
	for h, host := range hosts {
		counts[h] = free[h]
		if _, limited := p.limit(host); !limited {
			counts[h] += rounds * host.Slots
		}
	}
	// What is less than a full round is dealt out one by one, whatever the order of mapping.
	fill(counts, left-rounds*elastic, ByNode, func(h int) int {
		if _, limited := p.limit(hosts[h]); !limited {
			return hosts[h].Slots
		}
		return 0
	})
	return counts, nil
}

// evenly deals out more ranks than there are slots as Open MPI does: by node as if there were no slots, else what is left
// when all slots are full in equal parts, of which the first hosts have one more (orte_rmaps_rr_byslot).
func (p Policy) evenly(free []int, total, left int) []int {
	counts := make([]int, len(free))
	extra := total
	if p.MapBy != ByNode {
		copy(counts, free)
		extra = left
	}
	for h := range counts {
		counts[h] += extra / len(counts)
		if h < extra%len(counts) {
			counts[h]++
		}
	}
	return counts
}

// beyondSlots deals out the ranks that are left when all slots are full. It takes hosts that may have more, up to a
// limit: those that have more CPUs than GPUs.
func (p Policy) beyondSlots(hosts []job.Host, used, free []int, total, left int) ([]int, error) {
	counts, most := slices.Clone(free), make([]int, len(hosts))
	all := 0
	for h, host := range hosts {
		limit, _ := p.limit(host)
		most[h] = max(limit-used[h], 0)
		all += most[h]
	}
	if total > all {
		return nil, tooFewSlots(hosts, total, most, all)
	}
	fill(counts, left, ByNode, func(h int) int { return most[h] - free[h] })
	return counts, nil
}

// fill adds n ranks to counts, at most room(h) to host h. By slot it fills host after host, by node it gives one a
// host and goes round. The rooms hold n together.
func fill(counts []int, n int, by MapBy, room func(h int) int) {
	rooms := make([]int, len(counts))
	for h := range rooms {
		rooms[h] = room(h)
	}
	for _, h := range hostOfRank(rooms, n, by) {
		counts[h]++
	}
}

// tooFewSlots says how many each host has, and how many all have.
func tooFewSlots(hosts []job.Host, total int, most []int, slots int) error {
	where := fmt.Sprintf("host %s has %s", hosts[0].Name, visible.Count(slots, "slot"))
	if len(hosts) > 1 {
		each := make([]string, 0, len(hosts))
		for i, h := range hosts {
			each = append(each, fmt.Sprintf("%s: %d", h.Name, most[i]))
		}
		where = fmt.Sprintf("the %d hosts have %d slots (%s)", len(hosts), slots, visible.Few(each, named, ", "))
	}
	fewer := fmt.Sprintf("use -n %d or less, ", slots)
	if slots == 0 { // the programs before have them all
		fewer = ""
	}
	return fmt.Errorf("%s asked for, but %s; %sgive more slots, or pass --oversubscribe", visible.Count(total, "rank"), where, fewer)
}

// warnCPUs is one sentence, or nothing, on hosts with more ranks than CPUs.
func warnCPUs(hosts []job.Host, counts []int) []string {
	var over []string
	for h, host := range hosts {
		if host.CPUs > 0 && counts[h] > host.CPUs {
			over = append(over, fmt.Sprintf("%s: %s on %s", host.Name, visible.Count(counts[h], "rank"), visible.Count(host.CPUs, "CPU")))
		}
	}
	if len(over) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("more ranks than usable CPUs on %s (%s); ranks that wait actively will be slow",
		visible.Count(len(over), "host"), visible.Few(over, named, ", "))}
}
