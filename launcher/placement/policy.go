package placement

import (
	"fmt"

	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/layout"
)

// MaxRanks is the largest job. Everything that names ranks is bounded by it.
const MaxRanks = 1 << 20

// MapBy is the order in which ranks are dealt out to hosts.
type MapBy string

// The orders. The zero MapBy is BySlot.
const (
	BySlot MapBy = "slot"
	ByNode MapBy = "node"
	// ByRound is Hydra's: a host's block is PerNode ranks, else its slots where they were given,
	// else 1; or its cores (Policy.ByCores). Nothing is a limit. A program without a number of ranks gets a block
	// of each host.
	ByRound MapBy = "round"
)

// Rules says by whose rules ranks are mapped to objects, numbered and bound, where these differ.
type Rules int

// The rules. mpiup run follows Open MPI 4.1's.
const (
	OpenMPI4 Rules = iota
	// OpenMPI5 is PRRTE 3's way (prte5.go).
	OpenMPI5
)

// Policy is what the user said about placement.
type Policy struct {
	Rules         Rules
	MapBy         MapBy
	RankBy        MapBy // the order in which ranks are numbered; "": as MapBy
	PerNode       int   // exactly so many ranks on every host (-N, ppr:N:node); 0: by slots
	Oversubscribe bool  // slots that were given are no limit
	// Limited says that slots are also a limit where nobody gave them, as in Open MPI: a host takes as many ranks as
	// it has usable CPUs, or GPUs if those are more. What ranks spawn is not concerned.
	Limited bool
	// Apart says that each program is mapped and numbered as if it were alone, on the slots that those before it have
	// left, beginning with the first host, and that ranks beyond all slots go to hosts in equal parts (Open MPI). Else all
	// programs' ranks are one sequence, and those beyond slots go to hosts by their slots.
	Apart bool
	// ByCores says that ByRound gives a host as many ranks at a time as it has cores, whatever its slots (Intel MPI).
	ByCores bool
	Binding layout.Request
}

// Order takes from Binding in which order hosts get ranks, and these their numbers.
func (p *Policy) Order() {
	if p.MapBy = BySlot; p.Binding.Map.Policy == "node" {
		p.MapBy = ByNode
	}
	switch p.Binding.Rank.By {
	case "node":
		p.RankBy = ByNode
	case "slot", "fill", "object": // objects number within hosts
		p.RankBy = BySlot
	}
}

// counted says that a program without a number of ranks has as many as the policy gives it, also beside others.
func (p Policy) counted() bool {
	return p.MapBy == ByRound || p.Apart && (p.PerNode > 0 || p.Binding.Map.Policy == "ppr")
}

func slotsOf(hosts []job.Host) (sum int) {
	for _, h := range hosts {
		sum += h.Slots
	}
	return sum
}

var errTooMany = fmt.Errorf("more than %d ranks are asked for, the largest job", MaxRanks)

// hostOfRank deals ranks 0 to total-1 out to hosts that take at most counts ranks each.
func hostOfRank(counts []int, total int, by MapBy) []int {
	if by == BySlot {
		return deal(counts, total, func(h int) int { return counts[h] })
	}
	return deal(counts, total, func(int) int { return 1 })
}

// deal gives each host in turn its block of ranks, and round again, up to counts.
func deal(counts []int, total int, block func(h int) int) []int {
	of := make([]int, 0, total)
	open := make([]int, 0, len(counts)) // hosts that take more, in order
	for h, n := range counts {
		if n > 0 {
			open = append(open, h)
		}
	}
	for round := 0; len(of) < total; round++ {
		still := open[:0]
		for _, h := range open {
			done := round * block(h)
			for range min(counts[h]-done, block(h), total-len(of)) {
				of = append(of, h)
			}
			if counts[h] > done+block(h) {
				still = append(still, h)
			}
		}
		open = still
	}
	return of
}

// block is how many ranks ByRound gives a host at a time.
func (p Policy) block(h job.Host) int {
	switch {
	case p.PerNode > 0:
		return p.PerNode
	case p.ByCores:
		return coresOf(h)
	case h.SlotsGiven:
		return h.Slots
	}
	return 1
}

// coresOf is how many cores of a host ranks may use, at least 1: CPU time for fewer counts, too.
func coresOf(h job.Host) int {
	cores := h.CPUs
	if h.Layout != nil {
		cores = len(h.Layout.Objects(layout.Core))
		if h.CPUs > 0 {
			cores = min(cores, h.CPUs)
		}
	}
	return max(cores, 1)
}

// number builds the plan: hosts that got ranks in their order, local ranks dense.
func number(hosts []job.Host, sizes, hostOf []int) *job.Plan {
	used := make([]int, len(hosts)) // index in Plan.Hosts + 1
	for _, h := range hostOf {
		used[h] = 1
	}
	plan := &job.Plan{Placements: make([]job.Placement, 0, len(hostOf))}
	for h := range hosts {
		if used[h] != 0 {
			plan.Hosts = append(plan.Hosts, hosts[h])
			used[h] = len(plan.Hosts)
		}
	}
	local := make([]int, len(plan.Hosts))
	for app, n := range sizes {
		for range n {
			rank := len(plan.Placements)
			h := used[hostOf[rank]] - 1
			plan.Placements = append(plan.Placements, job.Placement{
				Rank: job.Rank(rank), App: app, Host: h, LocalRank: local[h]})
			local[h]++
		}
	}
	return plan
}

// Startable says whether each host can start its part of a plan, at most most, however much its container may have.
func Startable(plan *job.Plan, most int) error {
	counts := make([]int, len(plan.Hosts))
	for _, p := range plan.Placements {
		if counts[p.Host]++; counts[p.Host] > most {
			on := "host " + plan.Hosts[0].Name
			if n := len(plan.Hosts); n > 1 {
				on = fmt.Sprintf("%d hosts", n)
			}
			return fmt.Errorf("%d ranks on %s are too many, since a host starts %d at most: use more hosts, or fewer ranks",
				len(plan.Placements), on, most)
		}
	}
	return nil
}
