package placement

import (
	"fmt"
	"slices"

	"github.com/mpiup/mpiup/internal/job"
)

// placeApart maps and numbers each program as if it were alone, one after the other (orte_rmaps_rr_map and
// orte/mca/rmaps/ppr of Open MPI 4.1, PRRTE 3): each begins with the first host that has slots left.
//
//	-np 3 --map-by node a : -np 2 b     n0 n1 n0 | n0 n1
//	-npernode 1 a : b                   n0 n1    | n0 n1
//	-np 2 a : -np 3 b, of four slots    n0 n0    | n0 n0 n1
func placeApart(hosts []job.Host, apps []job.App, p Policy) (plan *job.Plan, where []seat, err error) {
	var sizes, hostOf []int
	used := make([]int, len(hosts))

	for i, a := range apps {
		its, at, slots, err := p.leftFor(a, hosts, used)
		if err != nil {
			return nil, nil, err
		}
		a.On = nil
		size, of, seats, err := assign(its, slots, []job.App{a}, p)
		if err != nil {
			return nil, nil, fmt.Errorf("program %d of %d, %s: %w", i+1, len(apps), a.Argv[0], err)
		}

		before := len(hostOf)
		taken := countsOf(of, len(its))
		for h, n := range taken {
			used[at[h]] += n
		}
		for _, h := range of {
			hostOf = append(hostOf, at[h])
		}
		for _, s := range seats {
			s.app, s.host = i, at[s.host]
			s.turn += before
			where = append(where, s)
		}
		if sizes = append(sizes, size[0]); len(hostOf) > MaxRanks {
			return nil, nil, errTooMany
		}
	}

	plan = number(hosts, sizes, hostOf)
	if where == nil {
		plan.Warnings = warnCPUs(hosts, used)
	}
	return plan, where, nil
}

// leftFor is the hosts that a program may use, where these stand among all, and how many of their slots those before
// it have. Of a host with a number of slots in the program's own list it may use so many, with Open MPI 4.1 as far as
// they are left.
func (p Policy) leftFor(a job.App, hosts []job.Host, used []int) (its []job.Host, at, slots []int, err error) {
	if len(a.On) == 0 {
		for h := range hosts {
			at = append(at, h)
		}
		return hosts, at, used, nil
	}

	share := map[int]int{}
	for _, s := range a.On {
		h := slices.IndexFunc(hosts, func(h job.Host) bool { return h.Name == s.Host })
		if h < 0 {
			return nil, nil, nil, fmt.Errorf("host %s of %s is not one of the job's", s.Host, a.Argv[0])
		}
		share[h] += s.Slots
	}
	for h, host := range hosts {
		own, mine := share[h]
		if !mine {
			continue
		}
		taken := used[h]
		if own > 0 {
			if p.Rules != OpenMPI5 {
				own = min(own, max(host.Slots-used[h], 0))
			}
			host.Slots, host.SlotsGiven, taken = own, true, 0
		}
		its, at, slots = append(its, host), append(at, h), append(slots, taken)
	}
	return its, at, slots, nil
}
