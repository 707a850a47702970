package placement

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/layout"
	"github.com/mpiup/mpiup/internal/visible"
)

// Site is a host as a spawn finds it.
type Site struct {
	job.Host
	Busy int // processes of the run that are there now
}

// Batch is one program of a spawn.
type Batch struct {
	Name    string // of the program, for messages
	Procs   int
	On      []Share // the hosts it may use; empty: all
	PerHost int     // at most so many of it on a host; 0: no bound
	MapBy   MapBy   // order in which free slots are taken; empty: the policy's
}

// Share is a host that a batch may use.
type Share struct {
	Site  int
	Slots int // that it may take there; 0: the host's own
}

// Spawn gives every process of a spawned job a host. Free slots are taken first, in the order of hosts; what is left
// goes round, one a host, over hosts that may have more processes than slots. By the rules of Place these are the
// hosts whose slots nobody wrote, with p.Oversubscribe all. Where a batch does not say in which order, it is p's: by
// node one a host, and by Hydra's rounds a block on each host and round again, whatever is free there. The plan's hosts
// are sites[used[i]]. Errors say numbers and the way out.
func Spawn(sites []Site, batches []Batch, p Policy) (plan *job.Plan, used []int, err error) {
	hosts, busy := make([]job.Host, len(sites)), make([]int, len(sites))
	for h, s := range sites {
		hosts[h] = s.Host
	}
	sites = slices.Clone(sites)
	sizes := make([]int, len(batches))
	var hostOf []int
	for i, b := range batches {
		b.MapBy = cmp.Or(b.MapBy, p.MapBy, BySlot)
		counts, err := b.spread(sites, p)
		if err != nil {
			return nil, nil, err
		}
		sizes[i] = b.Procs
		for h, n := range counts {
			sites[h].Busy += n
			busy[h] = sites[h].Busy
		}
		if b.MapBy == ByRound {
			hostOf = append(hostOf, deal(counts, b.Procs, func(h int) int { return p.block(hosts[h]) })...)
		} else {
			hostOf = append(hostOf, hostOfRank(counts, b.Procs, b.MapBy)...)
		}
	}
	used = slices.Clone(hostOf)
	slices.Sort(used)
	plan = number(hosts, sizes, hostOf)
	plan.Warnings = warnCPUs(hosts, busy)
	return plan, slices.Compact(used), nil
}

// room is what a batch may take of a site.
type room struct {
	on      bool
	slots   int // that count for it there
	free    int // processes for which a slot is free
	elastic int // processes more, beyond slots
}

// rooms is what a batch may take of each site; on is how many sites it may use.
func (b Batch) rooms(sites []Site, oversubscribe bool) (rooms []room, on int) {
	rooms = make([]room, len(sites))
	share := make([]int, len(sites))
	for _, s := range b.On {
		rooms[s.Site].on = true
		share[s.Site] += s.Slots
	}
	most := b.Procs
	if b.PerHost > 0 {
		most = b.PerHost
	}
	for h, s := range sites {
		r := &rooms[h]
		if r.on = r.on || len(b.On) == 0; !r.on {
			continue
		}
		on++
		r.slots, r.free = s.Slots, max(s.Slots-s.Busy, 0)
		limited := s.SlotsGiven && !oversubscribe
		switch n := share[h]; {
		case n == 0:
		case limited:
			r.slots, r.free = min(n, r.slots), min(n, r.free)
		default: // the request says how many, as a hostfile would
			r.slots, r.free = n, n
		}
		r.free = min(r.free, most)
		if oversubscribe || !limited && share[h] == 0 {
			r.elastic = most - r.free
		}
	}
	return rooms, on
}

// spread says how many processes of a batch each site takes.
func (b Batch) spread(sites []Site, p Policy) ([]int, error) {
	rooms, on := b.rooms(sites, p.Oversubscribe)
	if b.PerHost > 0 && b.PerHost*on < b.Procs {
		return nil, fmt.Errorf("%s asked for, but %d per host on %s makes %d; ask for fewer, for more per host or for more hosts",
			b.what(), b.PerHost, visible.Count(on, "host"), b.PerHost*on)
	}
	if b.MapBy == ByRound && b.PerHost == 0 && len(b.On) == 0 {
		hosts := make([]job.Host, len(sites))
		for h, s := range sites {
			hosts[h] = s.Host
		}
		return allocateRounds(hosts, b.Procs, p), nil
	}
	free, elastic := 0, 0
	for _, r := range rooms {
		free += r.free
		elastic += r.elastic
	}
	first := min(b.Procs, free)
	left := b.Procs - first
	if left > elastic {
		return nil, b.tooMany(sites, rooms, free)
	}
	counts := make([]int, len(sites))
	fill(counts, first, b.MapBy, func(h int) int { return rooms[h].free })
	fill(counts, left, ByNode, func(h int) int { return rooms[h].elastic })
	return counts, nil
}

// tooMany says why a batch finds no room: what each host has, and how much of it is taken.
func (b Batch) tooMany(sites []Site, rooms []room, free int) error {
	var each []string
	for h, r := range rooms {
		if r.on {
			each = append(each, fmt.Sprintf("%s: %s, %d taken", sites[h].Name, visible.Count(r.slots, "slot"), min(sites[h].Busy, r.slots)))
		}
	}
	way := "give more slots, or start mpiup with --oversubscribe"
	if free > 0 {
		way = fmt.Sprintf("ask for %d or less, ", free) + way
	}
	return fmt.Errorf("%s asked for, but there is room for %d (%s); %s", b.what(), free, visible.Few(each, named, ", "), way)
}

// what is "1 process of ./child".
func (b Batch) what() string {
	if b.Procs == 1 {
		return "1 process of " + b.Name
	}
	return fmt.Sprintf("%d processes of %s", b.Procs, b.Name)
}

// BindSpawned binds the processes of a spawned job like those of the first job, by the same request: each to the
// object that the fewest have. It binds none if the first job is not bound, or has its own lists or files of CPUs.
// taken is the CPUs of the processes on each of the plan's hosts. Where CPUs are too few, none is bound: a job that
// can run is not refused.
func BindSpawned(plan, first *job.Plan, taken [][]idset.Set, req layout.Request) {
	isBound := slices.ContainsFunc(first.Placements, func(p job.Placement) bool { return !p.CPUs.Empty() })
	if !isBound || req.Lines != nil || req.Hydra != nil || req.Ordered || req.Bind.Ordered {
		return
	}
	byHost := ranksByHost(plan)
	t, _ := choose(first, ranksByHost(first), Policy{Binding: req})
	if t == nil {
		return
	}
	for h, ranks := range byHost {
		b := &binder{target: *t, host: plan.Hosts[h], req: req, plan: plan, ranks: ranks, taken: taken[h], free: true}
		if b.host.Layout == nil || b.bind() != nil {
			unbind(plan)
			return
		}
	}
}
