// Package placement decides which rank runs on which host. PURE: hosts, programs and a
// policy in, a plan or an error out.
//
//	allocate   how many ranks the job has, and how many each host takes
//	map        which rank goes to which host, in the order of the policy
//	rank       the numbers: job ranks in order of program, local ranks dense on each host
//
//	slot   0 1 2 3 | 4 5 6 7     fill a host's slots, then the next host (default)
//	node   0 2 4 6 | 1 3 5 7     deal the ranks out, one a host and round again
//	ppr    PerNode ranks on every host, in either order; fewer only on the last ones, when the
//	       job has fewer ranks
//	round  0 1 4 5 | 2 3 6 7     a block of ranks on each host, and round again (Hydra)
//	object as slot, and dealt out over the objects of a host (seats.go)
//	bind   which CPUs of its host each rank gets (bind.go; docs/binding.md)
//
// Slots are a limit only where somebody wrote them, in a hostfile or as ":N". A number that mpiup counted itself
// (GPUs, else usable CPUs) is how many ranks a host gets when nothing else is said. A user who asks for more ranks
// knows better. So:
//
//   - No number of ranks: one a slot, or PerNode a host.
//   - Ranks fill slots first. What is left is dealt out again over the hosts whose slots were
//     not given, in proportion to their slots; with Oversubscribe over all hosts. With Limited, Open MPI's
//     rule, these take no more than they have CPUs.
//   - Ranks that fit nowhere are an error that says the numbers and the way out.
//   - Programs with hosts of their own (job.App.On) are placed one after the other, each on its
//     hosts, by the rules of Spawn. With Apart all programs are, each as if it were alone (apart.go).
//   - PerNode counts ranks of the whole job, over all its programs unless Apart, and obeys the same limit.
//     Asking for more ranks than PerNode times the hosts is an error, Oversubscribe or not.
//   - More ranks on a host than CPUs it may use is one warning for the plan.
//
// It does not know addresses, and starts nothing.
package placement

import (
	"cmp"
	"fmt"

	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/layout"
)

// Place gives every rank of apps a host. Hosts are taken in their order and need at least one
// slot each. An App's N of 0 means one rank a slot (PerNode a host, if set) and is allowed only
// for a single app, and for each where the policy counts their ranks. All errors are the user's (exit code 240).
func Place(hosts []job.Host, apps []job.App, p Policy) (*job.Plan, error) {
	p.MapBy = cmp.Or(p.MapBy, BySlot)
	if err := check(hosts, apps, p); err != nil {
		return nil, err
	}
	p.Limited = p.Limited && !p.Oversubscribe
	plan, where, err := place(p.roomFor(hosts, apps), apps, p)
	if err != nil {
		return nil, p.explained(err)
	}
	at := 0
	for i := range plan.Hosts { // whose slots may have been counted otherwise
		for hosts[at].Name != plan.Hosts[i].Name {
			at++
		}
		plan.Hosts[i].Slots = hosts[at].Slots
	}
	plan.Universe = max(slotsOf(hosts), len(plan.Placements)) // never below MPI_COMM_WORLD's size (MPI 4.1, 11.10.1)
	return plan, bind(plan, where, p)
}

// place is Place up to the binding. where is nil unless ranks were mapped to objects.
func place(hosts []job.Host, apps []job.App, p Policy) (plan *job.Plan, where []seat, err error) {
	switch {
	case p.Binding.Lines != nil:
		plan, err = placeLines(hosts, apps, p)
		return plan, nil, err
	case p.Apart && (len(apps) > 1 || ownHosts(apps)):
		return placeApart(hosts, apps, p)
	case ownHosts(apps):
		plan, err = placePrograms(hosts, apps, p)
		return plan, nil, err
	}
	sizes, hostOf, where, err := assign(hosts, nil, apps, p)
	if err != nil {
		return nil, nil, err
	}
	plan = number(hosts, sizes, hostOf)
	if where == nil {
		plan.Warnings = warnCPUs(hosts, countsOf(hostOf, len(hosts)))
	}
	return plan, where, nil
}

// assign gives each rank of programs that may use all hosts its host, and its seat where ranks are mapped to objects.
// used is how many slots of each host others have; nil: none.
func assign(hosts []job.Host, used []int, apps []job.App, p Policy) (sizes, hostOf []int, where []seat, err error) {
	if p.Binding.Map.Object != layout.None {
		return placeObjects(hosts, used, apps, p)
	}
	counts, sizes, err := allocate(hosts, used, apps, p)
	if err != nil {
		return nil, nil, nil, err
	}
	total := sum(sizes)
	hostOf = hostOfRank(counts, total, cmp.Or(p.RankBy, p.MapBy))
	if p.MapBy == ByRound {
		hostOf = deal(counts, total, func(h int) int { return p.block(hosts[h]) })
	}
	return sizes, hostOf, nil, nil
}

// countsOf is how many ranks each host has.
func countsOf(hostOf []int, hosts int) []int {
	counts := make([]int, hosts)
	for _, h := range hostOf {
		counts[h]++
	}
	return counts
}

func check(hosts []job.Host, apps []job.App, p Policy) error {
	switch {
	case len(hosts) == 0:
		return fmt.Errorf("there is no host to run on")
	case len(apps) == 0:
		return fmt.Errorf("there is no program to run")
	case p.PerNode < 0 || p.PerNode > MaxRanks:
		return fmt.Errorf("%d ranks per host; use 1 to %d", p.PerNode, MaxRanks)
	}
	if p.Binding.Rank.Span && p.Binding.Map.Object == layout.None {
		return fmt.Errorf("ranks are numbered over the objects of all hosts where they are mapped to objects; add --map-by with one, or leave span out")
	}
	for _, h := range hosts {
		if h.Slots < 1 {
			return fmt.Errorf("host %s has %d slots; a host takes at least 1 rank", h.Name, h.Slots)
		}
	}
	total := 0
	for i, a := range apps {
		switch total += a.N; {
		case len(a.Argv) == 0:
			return fmt.Errorf("program %d of %d has no name", i+1, len(apps))
		case a.N < 0:
			return fmt.Errorf("%d ranks of %s; use 1 or more", a.N, a.Argv[0])
		case a.N == 0 && (len(apps) > 1 || len(a.On) > 0) && !p.counted():
			return fmt.Errorf("program %d of %d, %s, needs its own -n: one rank a slot is for a single program", i+1, len(apps), a.Argv[0])
		case a.N > MaxRanks || total > MaxRanks:
			return errTooMany
		}
	}
	return nil
}
