package kvs

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/job"
)

// fences is the table of one host's fences. It has no goroutine, clock or I/O: the engine calls
// it and does what it says. It names processes by their ids in the run. Not safe for concurrent use.
type fences struct {
	max   int // in flight, of one job
	parts job.Table[*part]
	open  map[string]*fence
	begun uint64 // fences of any set
}

// part is one job in the table. A fence over several jobs counts for the youngest of them, the one with the highest
// ids. When that is over nobody can enter the fence again, and the engine lets go of it.
type part struct {
	job.Span
	here   []int             // ids of this host, ascending
	all    string            // the set of all its ids
	gone   map[int]string    // why, by id
	open   int               // fences in flight
	epochs map[string]uint64 // fences begun so far, by set
	named  int               // bytes of the names in epochs
	alone  []*part           // itself
}

// fence is one set's fence between its first entry and its end.
type fence struct {
	number  uint64    // of all fences here
	set     string    // its name to other hosts: the ids, and "#" with the tag if it has one
	ids     idset.Set // empty: all of its one job
	parts   []*part   // of its jobs, ascending
	epoch   uint64
	collect bool
	local   []int        // ids of this host, ascending
	entered map[int]bool // of local
	quit    map[int]bool // of entered: those that wait no longer, and may come again; nil: none
	allHere bool         // no other host takes part
	left    bool         // all of local are in

	over  chan struct{} // closed by the engine; those inside wait for it
	ended bool          // it is closed
	err   error         // set before
}

func newFences(max int) fences { return fences{max: max, open: map[string]*fence{}} }

// add takes a job of which this host has the ranks of local, ascending; nil if another has its ids.
func (t *fences) add(base, size int, local []int) *part {
	span := job.Span{Base: base, Size: size}
	if !t.parts.Free(span) {
		return nil
	}
	p := &part{Span: span, here: make([]int, len(local)), all: span.IDs().String(),
		gone: map[int]string{}, epochs: map[string]uint64{}}
	p.alone = []*part{p}
	for i, r := range local {
		p.here[i] = base + r
	}
	t.parts.Add(p)
	return p
}

// remove forgets a job and returns the fences that hold processes of it, not yet ended.
func (t *fences) remove(p *part) (failed []*fence) {
	t.parts.Remove(p)
	return t.those(func(f *fence) bool { return slices.Contains(f.parts, p) })
}

// those are the fences in flight that is holds for, by name.
func (t *fences) those(is func(*fence) bool) (list []*fence) {
	for _, f := range t.open {
		if is(f) {
			list = append(list, f)
		}
	}
	slices.SortFunc(list, func(a, b *fence) int { return strings.Compare(a.set, b.set) })
	return list
}

// EnterError is a process that may not enter a fence.
type EnterError struct {
	ID  int
	Set string
	Why string
}

func (e *EnterError) Error() string {
	return fmt.Sprintf("rank %d entered a barrier of ranks %s, but %s", e.ID, e.Set, e.Why)
}

// GoneError is a fence that cannot end because processes of it are gone.
type GoneError struct {
	Set  string
	Gone []int  // ids, ascending, at least one
	Why  string // of the first
}

func (e *GoneError) Error() string {
	if len(e.Gone) == 1 {
		return fmt.Sprintf("the barrier of ranks %s cannot end: rank %d %s", e.Set, e.Gone[0], e.Why)
	}
	return fmt.Sprintf("the barrier of ranks %s cannot end: ranks %s are gone; rank %d %s", e.Set, idset.Of(e.Gone...), e.Gone[0], e.Why)
}

// enter puts id into its set's fence, opening it if it is the first. full is true for the
// last of this host: the host's contribution may leave. Fences of one set with different tags are
// different fences.
func (t *fences) enter(id int, set idset.Set, tag string, collect bool) (f *fence, full bool, err error) {
	name, ids, parts, err := t.members(id, set)
	if err != nil {
		return nil, false, err
	}
	if tag != "" {
		name += "#" + tag
	}
	collect = collect && len(parts) == 1
	f = t.open[name]
	if f == nil {
		f = &fence{set: name, ids: ids, parts: parts, collect: collect, over: make(chan struct{})}
		if err := t.begin(f, id, len(tag)); err != nil {
			return nil, false, err
		}
	}
	if err := t.goneError(f); err != nil {
		t.end(f)
		return nil, false, err
	}
	switch {
	case f.entered[id] && !f.quit[id]:
		return nil, false, &EnterError{id, f.set, "it is in it already"}
	case f.collect != collect:
		return nil, false, &EnterError{id, f.set, "the ranks do not agree whether it collects data"}
	case f.quit[id]:
		delete(f.quit, id)
		return f, false, nil
	}
	f.entered[id] = true
	f.left = len(f.entered) == len(f.local)
	return f, f.left, nil
}

// giveUp notes that id, which is in f, waits for it no longer. The others still count on it.
func (f *fence) giveUp(id int) {
	if f.quit == nil {
		f.quit = map[int]bool{}
	}
	f.quit[id] = true
}

// begin opens a fence that by enters, within the bounds of its youngest job; tag is the length of its tag.
func (t *fences) begin(f *fence, by, tag int) error {
	p := f.youngest()
	limit := func(owner int, what, unit string, got, most int) error {
		return &LimitError{Owner: owner, Key: f.set, What: what, Unit: unit, Got: got, Max: most}
	}
	switch {
	case tag > tagMax:
		return limit(by, "tag", "bytes", tag, tagMax)
	case len(f.set) > setMax:
		return limit(by, "name of a set", "bytes", len(f.set), setMax)
	case p.open >= t.max:
		return limit(AnyOwner, "total", "fences in flight", p.open+1, t.max)
	case p.epochs[f.set] != 0:
	case len(p.epochs) >= setsMax:
		return limit(by, "total", "different sets", len(p.epochs)+1, setsMax)
	case p.named+len(f.set) > namesMax:
		return limit(by, "names of different sets", "bytes", p.named+len(f.set), namesMax)
	}
	p.open++
	t.begun++
	f.number = t.begun
	if f.ids.Empty() {
		f.local, f.allHere = p.here, len(p.here) == p.Size
	} else {
		for _, p := range f.parts {
			for _, id := range p.here {
				if f.ids.Contains(id) {
					f.local = append(f.local, id)
				}
			}
		}
		f.allHere = len(f.local) == f.ids.Len()
	}
	if !f.allHere { // a fence inside the host needs no name to others, and sets may be many
		if p.epochs[f.set] == 0 {
			p.named += len(f.set)
		}
		p.epochs[f.set]++
		f.epoch = p.epochs[f.set]
	}
	f.entered = make(map[int]bool, len(f.local))
	t.open[f.set] = f
	return nil
}

// What the names of a job's fences that leave the host may take up. The engine keeps their epochs while the job
// lasts, since all hosts must count alike.
const (
	setMax   = 64 << 10 // bytes of a name
	tagMax   = 256      // bytes of a tag, as the launcher takes
	setsMax  = 1 << 16  // different names
	namesMax = 8 << 20  // bytes of all names
)

// members checks that id may be in a fence of set and finds the jobs; ids is empty for all of one job, so that a world
// fence costs nothing per rank.
func (t *fences) members(id int, set idset.Set) (name string, ids idset.Set, parts []*part, err error) {
	own := t.parts.Of(id)
	if own == nil || !isIn(own.here, id) {
		name = set.String()
		if name == "" && own != nil {
			name = own.all
		}
		return "", ids, nil, &EnterError{id, name, "it is not on this host"}
	}
	if set.Empty() {
		return own.all, ids, own.alone, nil
	}
	if !set.Contains(id) {
		return "", ids, nil, &EnterError{id, set.String(), "it is not one of them"}
	}
	n, end := 0, 0
	for m := range set.All() {
		if m >= end {
			p := t.parts.Of(m)
			if p == nil {
				return "", ids, nil, &GoneError{Set: set.String(), Gone: []int{m}, Why: "belongs to no job that runs"}
			}
			parts, end = append(parts, p), p.End()
		}
		n++
	}
	if len(parts) == 1 && n == own.Size {
		return own.all, ids, own.alone, nil
	}
	return set.String(), set, parts, nil
}

// leave marks id, of the job p, as gone and returns the fences that this ends, not yet ended. Those that have left
// this host are over for other hosts, maybe: upstream knows, and tells of the process where they are not.
func (t *fences) leave(p *part, id int, why string) (failed []*fence) {
	if _, ok := p.gone[id]; ok || !p.Has(id) {
		return nil
	}
	p.gone[id] = why
	return t.those(func(f *fence) bool { return f.has(id) && !f.left })
}

// end closes f; the next entry of its set begins another.
func (t *fences) end(f *fence) {
	if t.open[f.set] == f {
		delete(t.open, f.set)
		f.youngest().open--
	}
}

// goneError is nil while all of f can still come.
func (t *fences) goneError(f *fence) error {
	var ids []int
	for _, p := range f.parts {
		for id := range p.gone {
			if f.has(id) {
				ids = append(ids, id)
			}
		}
	}
	if len(ids) == 0 {
		return nil
	}
	slices.Sort(ids)
	return &GoneError{Set: f.set, Gone: ids, Why: t.parts.Of(ids[0]).gone[ids[0]]}
}

// youngest is the last of f's jobs, for which it counts.
func (f *fence) youngest() *part { return f.parts[len(f.parts)-1] }

func (f *fence) has(id int) bool {
	if f.ids.Empty() {
		return f.parts[0].Has(id)
	}
	return f.ids.Contains(id)
}

func (f *fence) isLocal(id int) bool { return isIn(f.local, id) }

// isIn is for ids that ascend.
func isIn(ids []int, id int) bool {
	_, ok := slices.BinarySearch(ids, id)
	return ok
}
