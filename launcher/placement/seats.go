package placement

import (
	"fmt"
	"slices"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/layout"
	"github.com/mpiup/mpiup/internal/visible"
)

// seat is a rank that has a host, and an object there, but no number yet.
//
//	socket            0 2 | 1 3     dealt out over the objects of a host, host after host
//	socket:span       0 2 | 1 3     over those of all hosts, as evenly as it goes
//	ppr:2:socket      0 1 | 2 3     so many on each object, host after host
type seat struct {
	app, host int
	object    int // of the kind that was mapped by
	turn      int // among the seats of its host
}

// placeObjects maps ranks to the objects of hosts and numbers them: the host and the seat of each rank.
func placeObjects(hosts []job.Host, used []int, apps []job.App, p Policy) (sizes, hostOf []int, where []seat, err error) {
	counts, sizes, objects, err := p.share(hosts, used, apps)
	if err != nil {
		return nil, nil, nil, err
	}
	if where, err = p.order(hosts, p.seat(counts, used, sizes, objects), len(sizes)); err != nil {
		return nil, nil, nil, err
	}
	hostOf = make([]int, len(where))
	for rank, s := range where {
		hostOf[rank] = s.host
	}
	return sizes, hostOf, where, nil
}

// objectsOf counts the objects that ranks are mapped to on each host that takes part.
func (p Policy) objectsOf(hosts []job.Host, takesPart func(h int) bool) (objects []int, err error) {
	kind := p.Binding.Map.Object
	objects = make([]int, len(hosts))

	for h, host := range hosts {
		if !takesPart(h) {
			continue
		}
		if host.Layout == nil {
			return nil, fmt.Errorf("host %s does not tell where its CPUs are; map by slot or node", host.Name)
		}
		if objects[h] = len(host.Layout.Objects(kind)); objects[h] == 0 {
			return nil, fmt.Errorf("host %s has no %s; map by another object, or by slot", host.Name, kind)
		}
	}
	return objects, nil
}

// share says how many ranks each host takes, where ranks are mapped by object, and how many of these objects each
// host has that takes any. A host that fills up first leaves the later ones without ranks: those may never have been
// asked where their CPUs are.
func (p Policy) share(hosts []job.Host, used []int, apps []job.App) (counts, sizes, objects []int, err error) {
	m := &p.Binding.Map
	if m.Policy == "object" && !m.Span {
		p.MapBy = BySlot
		counts, sizes, err = allocate(hosts, used, apps, p)
		if err == nil {
			objects, err = p.objectsOf(hosts, func(h int) bool { return counts[h] > 0 })
		}
		return counts, sizes, objects, err
	}

	if objects, err = p.objectsOf(hosts, func(int) bool { return true }); err != nil {
		return nil, nil, nil, err
	}
	all, most := 0, 0
	for h := range hosts {
		all += objects[h]
		most += m.N * objects[h]
	}
	sizes, total := sizesOf(apps)
	if total == 0 {
		total = most
		if m.Policy != "ppr" {
			total = max(slotsOf(hosts)-sum(used), 0)
		}
		sizes[0] = total
	}
	if total > MaxRanks || most > MaxRanks {
		return nil, nil, nil, errTooMany
	}
	if m.Policy == "ppr" && total > most {
		return nil, nil, nil, fmt.Errorf("%d ranks asked for, but %d for each %s of %s makes %d; ask for fewer ranks, more for each or more hosts",
			total, m.N, m.Object, visible.Count(len(hosts), "host"), most)
	}
	counts = make([]int, len(hosts))
	left, extra := total, total%all
	for h := range hosts {
		if m.Policy == "ppr" {
			counts[h] = min(left, m.N*objects[h])
		} else {
			counts[h] = total/all*objects[h] + min(extra, objects[h])
			extra -= min(extra, objects[h])
		}
		left -= counts[h]
	}
	return counts, sizes, objects, p.within(hosts, used, counts)
}

func sum(list []int) (total int) {
	for _, n := range list {
		total += n
	}
	return total
}

// within checks counts against the slots that are a limit.
func (p Policy) within(hosts []job.Host, used, counts []int) error {
	for h, host := range hosts {
		most, limited := p.limit(host)
		if used != nil {
			most = max(most-used[h], 0)
		}
		if limited && counts[h] > most {
			return fmt.Errorf("%s on host %s, which has %s; ask for fewer, give more slots, or pass --oversubscribe",
				visible.Count(counts[h], "rank"), host.Name, visible.Count(most, "slot"))
		}
	}
	return nil
}

// seat gives every rank an object, in the order of mapping: programs one after the other, each going
// on where the one before ended, on a host where those that have used slots did. With Open MPI 5 these do not count.
func (p Policy) seat(counts, used, sizes, objects []int) []seat {
	m := &p.Binding.Map
	seats := make([]seat, 0, len(counts))
	app, placed := 0, 0
	for h, n := range counts {
		before := 0
		if used != nil {
			before = used[h]
		}
		for i := range n {
			for app < len(sizes) && placed == sizes[app] {
				app, placed = app+1, 0
			}
			placed++
			object := (before + i) % objects[h]
			switch {
			case m.Policy == "ppr":
				object = i / m.N
			case p.Rules == OpenMPI5:
				object = i % objects[h]
			}
			seats = append(seats, seat{app: app, host: h, object: object, turn: i})
		}
	}
	return seats
}

// order gives seats their numbers: a program's ranks follow those of the one before.
func (p Policy) order(hosts []job.Host, seats []seat, apps int) ([]seat, error) {
	r := p.ranking()
	p.Binding.Rank = r
	out := make([]seat, 0, len(seats))
	for app := range apps {
		byHost := make([][]seat, len(hosts))
		for _, s := range seats {
			if s.app == app {
				byHost[s.host] = append(byHost[s.host], s)
			}
		}
		switch r.By {
		case "node":
			out = appendRounds(out, byHost)
		case "object", "fill":
			kind := r.Object
			if kind == layout.None {
				kind = p.Binding.Map.Object
			}
			groups, err := p.groups(hosts, byHost, kind)
			if err != nil {
				return nil, err
			}
			switch {
			case r.By == "fill":
				out = append(out, slices.Concat(slices.Concat(groups...)...)...)
			case r.Span:
				out = appendRounds(out, slices.Concat(groups...))
			default:
				for _, g := range groups {
					out = appendRounds(out, g)
				}
			}
		default:
			out = append(out, slices.Concat(byHost...)...)
		}
	}
	return out, nil
}

// appendRounds takes one of each list, and round again.
func appendRounds(out []seat, lists [][]seat) []seat {
	for round, took := 0, true; took; round++ {
		took = false
		for _, list := range lists {
			if round < len(list) {
				out, took = append(out, list[round]), true
			}
		}
	}
	return out
}

// groups parts the seats of each host by the objects of a kind: going round over these, each takes the
// next seat that touches it.
func (p Policy) groups(hosts []job.Host, byHost [][]seat, kind layout.Kind) ([][][]seat, error) {
	out := make([][][]seat, len(hosts))
	for h, seats := range byHost {
		if len(seats) == 0 {
			continue
		}
		by := hosts[h].Layout.Objects(kind)
		if len(by) == 0 {
			return nil, fmt.Errorf("host %s has no %s; number ranks by another object, or by slot", hosts[h].Name, kind)
		}
		out[h] = make([][]seat, len(by))
		mapped := hosts[h].Layout.Objects(p.Binding.Map.Object)
		for left := seats; len(left) > 0; {
			left = takeRound(out[h], by, mapped, left, p.Binding.Rank.By == "fill")
		}
		// Numbers begin with the object where the program's first rank was mapped.
		first := slices.IndexFunc(out[h], func(g []seat) bool { return len(g) > 0 && g[0] == seats[0] })
		if first > 0 {
			out[h] = slices.Concat(out[h][first:], out[h][:first])
		}
	}
	return out, nil
}

// takeRound gives each object the next seat that touches it, with fill all such seats, and returns what
// is left. A seat that touches none of them is given to the first.
func takeRound(groups [][]seat, by, mapped []idset.Set, seats []seat, fill bool) (left []seat) {
	left = append(left, seats...)
	for o := range by {
		for i := 0; i < len(left); {
			if !by[o].Overlaps(mapped[left[i].object]) {
				i++
				continue
			}
			groups[o] = append(groups[o], left[i])
			left = append(left[:i], left[i+1:]...)
			if !fill {
				break
			}
		}
	}
	if len(left) == len(seats) {
		groups[0], left = append(groups[0], left...), nil
	}
	return left
}
