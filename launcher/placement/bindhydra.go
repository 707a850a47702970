package placement

import (
	"fmt"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/layout"
	"github.com/mpiup/mpiup/internal/visible"
)

// bindHydra gives the ranks of a host the sets of Hydra's list one after the other, and begins again
// (tools/topo/hwloc/topo_hwloc.c of MPICH 4.0). Ranks beyond a user's list are not bound.
func (b *binder) bindHydra() error {
	h := b.req.Hydra
	if h.User != nil {
		for i, rank := range b.ranks {
			if i >= len(h.User) {
				break
			}
			if !b.l.CPUs().Covers(h.User[i]) {
				return fmt.Errorf("host %s: CPUs %s of -bind-to user cannot be used: those that can are %s", b.host.Name, h.User[i], b.l.CPUs())
			}
			b.give(rank, h.User[i])
		}
		return nil
	}
	if h.RoundRobin {
		cpus := b.l.CPUs().Slice()
		for i, rank := range b.ranks {
			b.give(rank, idset.Of(cpus[i%len(cpus)]))
		}
		return nil
	}
	domains, err := b.domains(h.By)
	if err != nil {
		return err
	}
	for i, rank := range b.ranks {
		cpus, err := b.step(h.To, domains[i%len(domains)], i/len(domains))
		if err != nil {
			return err
		}
		b.give(rank, cpus)
	}
	return nil
}

// hydraObjects are those of a step's kind.
func (b *binder) hydraObjects(s layout.Step) ([]idset.Set, error) {
	if s.Kind == layout.None {
		return []idset.Set{b.l.CPUs()}, nil
	}
	objects := b.l.Objects(s.Kind)
	if len(objects) == 0 {
		return nil, fmt.Errorf("host %s has no %s; use another object, or none", b.host.Name, s.Kind)
	}
	return objects, nil
}

// domain is what ranks are mapped to: some objects, the first of which says where binding begins.
type domain struct{ first, all idset.Set }

// domains go over all objects in steps of so many, round and round until a step ends at the last object.
func (b *binder) domains(s layout.Step) ([]domain, error) {
	objects, err := b.hydraObjects(s)
	if err != nil {
		return nil, err
	}
	if s.N > len(objects) {
		return nil, fmt.Errorf("host %s has %s of kind %s, fewer than %d", b.host.Name, visible.Count(len(objects), "object"), s.Kind, s.N)
	}
	var out []domain
	for at := 0; at == 0 || at%len(objects) != 0; at += s.N {
		d := domain{first: objects[at%len(objects)]}
		for i := range s.N {
			d.all = d.all.Union(objects[(at+i)%len(objects)])
		}
		out = append(out, d)
	}
	return out, nil
}

// step is the nth set in a domain: so many objects after those of the set before, going round within
// the domain; from its beginning on, where the set is not smaller than the domain.
func (b *binder) step(s layout.Step, d domain, nth int) (cpus idset.Set, err error) {
	objects, err := b.hydraObjects(s)
	if err != nil {
		return cpus, err
	}
	begin, size := 0, 0
	for !objects[begin].Overlaps(idset.Of(d.first.First())) {
		if begin++; begin == len(objects) {
			return cpus, fmt.Errorf("host %s: CPU %d is in no %s; bind to another object", b.host.Name, d.first.First(), s.Kind)
		}
	}
	var inside []idset.Set
	for i := range objects {
		if o := objects[(begin+i)%len(objects)]; d.all.Covers(o) {
			inside = append(inside, o)
			size += o.Len()
		}
	}
	if len(inside) == 0 || size/len(inside)*s.N >= d.all.Len() {
		inside, nth = append(objects[begin:len(objects):len(objects)], objects[:begin]...), 0
	}
	for i := range min(s.N, len(inside)) {
		cpus = cpus.Union(inside[(nth*s.N+i)%len(inside)])
	}
	return cpus, nil
}
