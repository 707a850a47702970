package placement

import (
	"errors"
	"fmt"
	"slices"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/layout"
	"github.com/mpiup/mpiup/internal/visible"
)

// bind gives every rank of a plan its CPUs, by the rules of Open MPI 4.1
// (orte/mca/rmaps/base/rmaps_base_binding.c):
//
//   - A rank that was mapped to an object of the kind that it is bound to gets that object.
//   - Else it gets, of the objects that touch where it was mapped to, the one with the fewest ranks so
//     far, and with PE=n those that follow, until there are n CPUs.
//   - More ranks on an object than it has CPUs are an error, unless overload-allowed was said. Where
//     nobody asked for a binding (only for a mapping), nobody is bound then.
//   - Bound without having been mapped, up to two ranks are mapped by core, more, or with PE=n any, by NUMA node.
//
// A rank that has all CPUs of its host is not bound. Unlike Open MPI, mpiup binds nothing that ranks may share with
// others, unless somebody asks (docs/binding.md).
func bind(plan *job.Plan, where []seat, p Policy) error {
	req := p.Binding
	if req.Listed() {
		return bindLines(plan, req)
	}
	byHost := ranksByHost(plan)
	t, why := choose(plan, byHost, p)
	if t == nil {
		plan.Unbound = why
		return nil
	}
	for h, ranks := range byHost {
		b := &binder{target: *t, host: plan.Hosts[h], req: req, plan: plan, ranks: ranks, where: where}
		err := b.bind()
		if errors.Is(err, errCrowded) && t.soft {
			unbind(plan)
			plan.Unbound = fmt.Sprintf("host %s has fewer CPUs than ranks", plan.Hosts[h].Name)
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func unbind(plan *job.Plan) {
	for i := range plan.Placements {
		plan.Placements[i].CPUs = idset.Set{}
	}
}

// ranksByHost is the ranks of each host, by local rank.
func ranksByHost(plan *job.Plan) [][]int {
	byHost := make([][]int, len(plan.Hosts))
	for i, pl := range plan.Placements {
		byHost[pl.Host] = append(byHost[pl.Host], i)
	}
	return byHost
}

// target is what ranks are bound to.
type target struct {
	to      layout.Kind // None: all that the request leaves
	pe      int         // CPUs for each rank; 0: one object
	implied layout.Kind // ranks were not mapped, and are taken to be by this
	blocks  bool        // in blocks: neighbours share an object
	soft    bool        // rather not bound than more ranks than CPUs
	first   bool        // to the first objects with CPUs left, not to those with the fewest ranks
	hwt     bool        // hardware threads are CPUs

	// ascending says that each rank is bound to one of a list of CPUs in the machine's order, not in the list's
	// (Open MPI 4.1).
	ascending bool

	nearGPUs bool // to the CPUs near each rank's GPU, and nothing else of this counts
}

// choose says what ranks are bound to. nil means to nothing, with the reason where nobody asked for that.
func choose(plan *job.Plan, byHost [][]int, p Policy) (*target, string) {
	req := &p.Binding
	m := &req.Map
	t := &target{pe: m.PE, ascending: p.Apart && p.Rules == OpenMPI4, hwt: req.HWThreads || req.Bind.To == layout.HWThread || m.Object == layout.HWThread}
	common := layout.NUMA
	switch small := len(plan.Placements) <= 2 && m.PE <= 1; {
	case small && t.hwt:
		common = layout.HWThread
	case small:
		common = layout.Core
	}
	if m.Policy == "" {
		t.implied = common
	}
	switch {
	case req.Bind.Said && req.Bind.To == layout.None && !req.Bind.List:
		return nil, ""
	case req.Hydra != nil, req.Ordered, req.Bind.List:
	case req.Bind.Said:
		t.to = req.Bind.To
	case m.PE > 0 && t.hwt:
		t.to = layout.HWThread
	case m.PE > 0:
		t.to = layout.Core
	case m.Policy == "object":
		t.to, t.soft = m.Object, true
	case m.Policy == "ppr" && m.Object != layout.None:
		t.to, t.soft = common, true
	case req.CPUs != nil:
	default:
		if near, why, known := chooseGPUs(plan, byHost); known {
			return near, why
		}
		return chooseDefault(plan, byHost)
	}
	if p.Rules == OpenMPI5 && req.Hydra == nil && t.chosen5(p) == nil {
		return nil, "more ranks than slots are allowed (Open MPI 5)"
	}
	return t, ""
}

// chooseDefault is what happens when nothing was said: ranks are bound to NUMA nodes, in blocks, where
// that can do no harm.
func chooseDefault(plan *job.Plan, byHost [][]int) (*target, string) {
	several := false
	for h, host := range plan.Hosts {
		l := host.Layout
		if l == nil || !l.Exclusive {
			return nil, fmt.Sprintf("the CPUs of host %s may be shared with others", host.Name)
		}
		nodes := len(l.Objects(layout.NUMA))
		several = several || nodes > 1
		switch {
		case nodes > 1 && len(byHost[h]) < nodes:
			return nil, fmt.Sprintf("host %s has fewer ranks than NUMA nodes", host.Name)
		case l.Inside(layout.Core, l.CPUs()) < len(byHost[h]):
			return nil, fmt.Sprintf("host %s has fewer cores than ranks", host.Name)
		}
	}
	if !several {
		return nil, "there is one NUMA node"
	}
	return &target{to: layout.NUMA, implied: layout.NUMA, blocks: true, soft: true}, ""
}

// errCrowded: a host has more ranks on an object than it has CPUs.
var errCrowded = errors.New("more ranks than CPUs")

// binder binds the ranks of one host.
type binder struct {
	target
	host  job.Host
	req   layout.Request
	plan  *job.Plan
	ranks []int // by local rank
	where []seat
	taken []idset.Set // CPUs of processes of other jobs; nil: there are none
	free  bool        // ranks are anywhere in the host, whatever the mapping

	l     *layout.Layout // what ranks may use
	bound []int          // ranks on each object of the target's kind
}

func (b *binder) bind() error {
	if b.l = b.host.Layout; b.l == nil {
		return fmt.Errorf("host %s does not tell where its CPUs are; use --bind-to none", b.host.Name)
	}
	if b.nearGPUs {
		for local, rank := range b.ranks {
			b.give(rank, gpuCPUs(b.host, local))
		}
		return nil
	}
	if b.req.Hydra != nil {
		return b.bindHydra()
	}
	var listed []idset.Set
	if b.req.CPUs != nil {
		var err error
		if listed, err = b.req.CPUs.On(b.l, b.hwt); err != nil {
			return fmt.Errorf("host %s: %w", b.host.Name, err)
		}
		if b.l, err = b.l.Restrict(idset.Union(listed...)); err != nil {
			return fmt.Errorf("host %s: %w", b.host.Name, err)
		}
	}
	if b.req.Ordered || b.req.Bind.Ordered {
		if b.ascending {
			b.sortCPUs(listed)
		}
		return b.bindOrdered(listed)
	}
	if b.to == layout.None {
		for _, rank := range b.ranks {
			b.give(rank, b.l.CPUs())
		}
		return nil
	}
	return b.bindObjects()
}

// give binds a rank. All CPUs of the host are no binding.
func (b *binder) give(rank int, cpus idset.Set) {
	if !cpus.Equal(b.host.Layout.CPUs()) {
		b.plan.Placements[rank].CPUs = cpus
	}
}

// sortCPUs puts sets of CPUs into the order in which these lie in the machine.
func (b *binder) sortCPUs(sets []idset.Set) {
	place := make(map[int]int, b.l.Len())
	for i := range b.l.Len() {
		place[b.l.CPU(i)] = i
	}
	slices.SortStableFunc(sets, func(x, y idset.Set) int { return place[x.First()] - place[y.First()] })
}

// bindOrdered gives each rank one of the listed CPUs.
func (b *binder) bindOrdered(listed []idset.Set) error {
	if len(b.ranks) > len(listed) && !b.req.Bind.Overload {
		return fmt.Errorf("%s on host %s and %s to bind them to; list more, or add :overload-allowed",
			visible.Count(len(b.ranks), "rank"), b.host.Name, visible.Count(len(listed), "CPU"))
	}
	for i, rank := range b.ranks {
		b.give(rank, listed[i%len(listed)])
	}
	return nil
}

// bindObjects binds in the order of mapping.
func (b *binder) bindObjects() error {
	objects := b.l.Objects(b.to)
	if len(objects) == 0 {
		return fmt.Errorf("host %s has no %s to bind to; use another object, or none", b.host.Name, b.to)
	}
	b.bound = make([]int, len(objects))
	for o, set := range objects {
		for _, t := range b.taken {
			if t.Overlaps(set) {
				b.bound[o]++
			}
		}
	}
	kind, at := b.seats()
	mapped := b.l.Objects(kind)
	ranks := slices.Clone(b.ranks)
	if b.where != nil {
		slices.SortFunc(ranks, func(x, y int) int { return b.where[x].turn - b.where[y].turn })
	}
	for _, rank := range ranks {
		var cpus idset.Set
		var err error
		switch object := at(rank); {
		case len(mapped) == 0 || object < 0:
			cpus, err = b.take(objects, b.l.CPUs(), "the host")
		case b.pe > 1 && b.count(mapped[object]) < b.pe:
			err = b.tooSmall(kind, mapped[object])
		case kind == b.to && b.pe <= 1:
			cpus, err = b.inPlace(objects, object)
		default:
			cpus, err = b.take(objects, mapped[object], fmt.Sprintf("%s %d", kind, object))
		}
		if err != nil {
			return err
		}
		b.give(rank, cpus)
	}
	return nil
}

// tooSmall says that a rank's CPUs (PE=n) do not fit into the object to which it was mapped, and what they fit into.
func (b *binder) tooSmall(kind layout.Kind, object idset.Set) error {
	has := visible.Count(b.count(object), "CPU")
	if all := b.count(b.l.CPUs()); all < b.pe {
		return fmt.Errorf("host %s: a %s has %s and all of the host %d, fewer than the %d for each rank (PE=%d); ask for PE=%d at most",
			b.host.Name, kind, has, all, b.pe, b.pe, all)
	}
	return fmt.Errorf("host %s: a %s has %s, fewer than the %d for each rank (PE=%d); map by slot or by a larger object, as --map-by slot:PE=%d does",
		b.host.Name, kind, has, b.pe, b.pe, b.pe)
}

// seats says to which object of which kind each rank was mapped; -1: to none.
func (b *binder) seats() (kind layout.Kind, at func(rank int) int) {
	if b.free {
		return layout.None, func(int) int { return -1 }
	}
	kind = b.req.Map.Object
	if b.where == nil && kind == layout.None {
		kind = b.implied
	}
	n := len(b.l.Objects(kind))
	if n == 0 && b.implied != layout.None {
		kind = layout.Package
		n = len(b.l.Objects(kind))
	}
	local := make(map[int]int, len(b.ranks))
	for i, rank := range b.ranks {
		local[rank] = i
	}
	switch {
	case n == 0:
		return kind, func(int) int { return -1 }
	case b.where != nil: // the objects of --cpu-set may be fewer
		return kind, func(rank int) int { return b.where[rank].object % n }
	case b.blocks && b.first:
		return kind, b.blockOfProgram(n)
	case b.blocks:
		return kind, func(rank int) int { return block(local[rank], len(b.ranks), n) }
	}
	return kind, func(rank int) int { return local[rank] % n }
}

// blockOfProgram is in which of the blocks each rank is, when each program's ranks on the host are parted by themselves
// (Open MPI 5).
func (b *binder) blockOfProgram(blocks int) func(rank int) int {
	number, size := make(map[int]int, len(b.ranks)), map[int]int{}
	for _, rank := range b.ranks {
		app := b.plan.Placements[rank].App
		number[rank] = size[app]
		size[app]++
	}
	return func(rank int) int { return block(number[rank], size[b.plan.Placements[rank].App], blocks) }
}

// block is which of the blocks the ith of n is in, when the first blocks take one more where n does
// not divide.
func block(i, n, blocks int) int {
	size, larger := n/blocks, n%blocks
	if i < larger*(size+1) {
		return i / (size + 1)
	}
	return larger + (i-larger*(size+1))/max(size, 1)
}

// count is how many CPUs an object has.
func (b *binder) count(cpus idset.Set) int {
	if b.hwt {
		return cpus.Len()
	}
	return b.l.Inside(layout.Core, cpus)
}

// inPlace is the object that a rank was mapped to, or one beside it that has room.
func (b *binder) inPlace(objects []idset.Set, at int) (idset.Set, error) {
	room := func(o int) bool { return b.bound[o] < b.count(objects[o]) }
	if !room(at) && !b.req.Bind.Overload {
		right := at
		for right < len(objects) && !room(right) {
			right++
		}
		left := at
		for left >= 0 && !room(left) {
			left--
		}
		switch {
		case right < len(objects):
			at = right
		case left >= 0:
			at = left
		default:
			return idset.Set{}, b.crowded(at, objects[at])
		}
	}
	b.bound[at]++
	return objects[at], nil
}

// take is the object among those that touch a place with the fewest ranks, and those that follow as
// far as PE needs them.
func (b *binder) take(objects []idset.Set, place idset.Set, name string) (cpus idset.Set, err error) {
	if b.first {
		return b.takeFirst(objects, place, name)
	}
	best := -1
	for o, set := range objects {
		if place.Overlaps(set) && (best < 0 || b.bound[o] < b.bound[best]) {
			best = o
		}
	}
	if best < 0 {
		return cpus, fmt.Errorf("host %s: %s has no %s to bind to; use another object, or none", b.host.Name, name, b.to)
	}
	for have := 0; have < max(b.pe, 1); best++ {
		if best == len(objects) {
			return cpus, b.lacking("")
		}
		n := b.count(objects[best])
		if b.to == layout.HWThread {
			n = 1
		}
		if b.bound[best]++; b.bound[best] > n && !b.req.Bind.Overload {
			return cpus, b.crowded(best, objects[best])
		}
		cpus = cpus.Union(objects[best])
		have += n
	}
	return cpus, nil
}

// crowded says that an object would get more ranks than it has CPUs, and what can be done: with PE=n an object that is larger binds no rank to n CPUs.
func (b *binder) crowded(object int, cpus idset.Set) error {
	if b.pe > 1 {
		return b.lacking("")
	}
	return fmt.Errorf("host %s: %w: %s %d has %s and would get one rank more; ask for fewer ranks, bind to a larger "+
		"object or none, or add :overload-allowed to --bind-to",
		b.host.Name, errCrowded, b.to, object, visible.Count(b.count(cpus), "CPU"))
}

// lacking says that there are no PE=n CPUs for another rank of the host, or in a place of it, and what can be done.
func (b *binder) lacking(place string) error {
	if place != "" {
		place = " in " + place
	}
	return fmt.Errorf("host %s: %w: it has %s, and no %d CPUs left%s for another rank (PE=%d); ask for fewer ranks, or for fewer CPUs for each (PE=), "+
		"or leave them unbound with --bind-to none", b.host.Name, errCrowded, visible.Count(b.count(b.l.CPUs()), "CPU"), b.pe, place, b.pe)
}
