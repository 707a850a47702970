package kvs

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// fences is the table of one host's fences. It has no goroutine, clock or I/O: the engine calls
// it and does what it says. Not safe for concurrent use.
type fences struct {
	size   int
	max    int
	here   []int        // this host's ranks, ascending
	isHere map[int]bool // the same
	all    string       // the set of all ranks
	open   map[string]*fence
	epochs map[string]uint64 // fences of the set begun so far
	named  int               // bytes of the names in epochs
	begun  uint64            // fences of any set
	gone   map[int]string    // why
}

// fence is one set's fence between its first entry and its end.
type fence struct {
	number  uint64 // of all fences here
	set     string // its name to other hosts: the ranks, and "#" with the tag if it has one
	ranks   []int  // ascending; nil: all
	epoch   uint64
	collect bool
	local   []int        // those of this host, ascending
	entered map[int]bool // of local
	quit    map[int]bool // of entered: those that wait no longer, and may come again; nil: none
	allHere bool         // no other host takes part
	left    bool         // all local ranks are in
}

func newFences(size int, local []int, max int) fences {
	t := fences{
		size: size, max: max, here: slices.Sorted(slices.Values(local)), isHere: map[int]bool{},
		all:  rangeName(0, size-1),
		open: map[string]*fence{}, epochs: map[string]uint64{}, gone: map[int]string{},
	}
	for _, r := range local {
		t.isHere[r] = true
	}
	return t
}

// EnterError is a rank that may not enter a fence.
type EnterError struct {
	Rank int
	Set  string
	Why  string
}

func (e *EnterError) Error() string {
	return fmt.Sprintf("rank %d entered a barrier of ranks %s, but %s", e.Rank, e.Set, e.Why)
}

// GoneError is a fence that cannot end because ranks of it are gone.
type GoneError struct {
	Set  string
	Gone []int  // ascending, at least one
	Why  string // of the first
}

func (e *GoneError) Error() string {
	if len(e.Gone) == 1 {
		return fmt.Sprintf("the barrier of ranks %s cannot end: rank %d %s", e.Set, e.Gone[0], e.Why)
	}
	return fmt.Sprintf("the barrier of ranks %s cannot end: ranks %s are gone; rank %d %s", e.Set, setName(e.Gone), e.Gone[0], e.Why)
}

// enter puts rank into its set's fence, opening it if rank is the first. full is true for the
// last local rank: the host's contribution may leave. Fences of one set with different tags are
// different fences.
func (t *fences) enter(rank int, set []int, tag string, collect bool) (f *fence, full bool, err error) {
	name, ranks, err := t.canonical(rank, set, tag)
	if err != nil {
		return nil, false, err
	}
	f = t.open[name]
	if f == nil {
		if f, err = t.begin(name, ranks, collect); err != nil {
			return nil, false, err
		}
	}
	if err := t.goneError(f); err != nil {
		t.end(f)
		return nil, false, err
	}
	switch {
	case f.entered[rank] && !f.quit[rank]:
		return nil, false, &EnterError{rank, name, "it is in it already"}
	case f.collect != collect:
		return nil, false, &EnterError{rank, name, "the ranks do not agree whether it collects data"}
	case f.quit[rank]:
		delete(f.quit, rank)
		return f, false, nil
	}
	f.entered[rank] = true
	f.left = len(f.entered) == len(f.local)
	return f, f.left, nil
}

// giveUp notes that rank, which is in f, waits for it no longer. The others still count on it.
func (f *fence) giveUp(rank int) {
	if f.quit == nil {
		f.quit = map[int]bool{}
	}
	f.quit[rank] = true
}

func (t *fences) begin(name string, ranks []int, collect bool) (*fence, error) {
	if len(t.open) >= t.max {
		return nil, &LimitError{Owner: AnyOwner, Key: name, What: "one more than a total", Unit: "fences in flight", Got: len(t.open) + 1, Max: t.max}
	}
	t.begun++
	f := &fence{number: t.begun, set: name, ranks: ranks, collect: collect, entered: map[int]bool{}}
	if ranks == nil {
		f.local, f.allHere = t.here, len(t.here) == t.size
	} else {
		for _, r := range ranks {
			if t.isHere[r] {
				f.local = append(f.local, r)
			}
		}
		f.allHere = len(f.local) == len(ranks)
	}
	if !f.allHere { // a fence inside the host needs no name to others, and sets may be many
		if t.epochs[name] == 0 {
			t.named += len(name)
		}
		t.epochs[name]++
		f.epoch = t.epochs[name]
	}
	t.open[name] = f
	return f, nil
}

// What the names of fences that leave the host may take up: their epochs are kept for good, since
// all hosts must count alike.
const (
	setMax   = 64 << 10 // bytes of a name
	tagMax   = 256      // bytes of a tag, as the launcher takes
	setsMax  = 1 << 16  // different names
	namesMax = 8 << 20  // bytes of all names
)

// canonical checks the set and gives it the name by which all hosts know it. A set of all ranks
// has no list, so that a world fence costs nothing per rank of the job.
func (t *fences) canonical(rank int, set []int, tag string) (string, []int, error) {
	name, ranks, err := t.members(rank, set)
	if err != nil {
		return "", nil, err
	}
	if tag != "" {
		name += "#" + tag
	}
	limit := func(what, unit string, got, max int) error {
		return &LimitError{Owner: rank, Key: name, What: what, Unit: unit, Got: got, Max: max}
	}
	switch {
	case len(tag) > tagMax:
		return "", nil, limit("tag", "bytes", len(tag), tagMax)
	case len(name) > setMax:
		return "", nil, limit("name of a set", "bytes", len(name), setMax)
	case t.epochs[name] != 0:
	case len(t.epochs) >= setsMax:
		return "", nil, limit("one more than a total", "different sets", len(t.epochs)+1, setsMax)
	case t.named+len(name) > namesMax:
		return "", nil, limit("names of different sets", "bytes", t.named+len(name), namesMax)
	}
	return name, ranks, nil
}

// members checks that rank may be in a fence of set; ranks is nil for all.
func (t *fences) members(rank int, set []int) (name string, ranks []int, err error) {
	if !t.isHere[rank] {
		return "", nil, &EnterError{rank, t.all, "it is not on this host"}
	}
	if set == nil {
		return t.all, nil, nil
	}
	ranks = slices.Compact(slices.Sorted(slices.Values(set)))
	if len(ranks) == 0 || ranks[0] < 0 || ranks[len(ranks)-1] >= t.size {
		return "", nil, &EnterError{rank, setName(ranks), fmt.Sprintf("the job has ranks %s", t.all)}
	}
	if _, ok := slices.BinarySearch(ranks, rank); !ok {
		return "", nil, &EnterError{rank, setName(ranks), "it is not one of them"}
	}
	if len(ranks) == t.size {
		return t.all, nil, nil
	}
	return setName(ranks), ranks, nil
}

// leave marks rank as gone and returns the fences that this ends, not yet ended. Those that have left
// this host are over for other hosts, maybe: upstream knows, and tells of the rank where they are not.
func (t *fences) leave(rank int, why string) (failed []*fence) {
	if _, ok := t.gone[rank]; ok || rank < 0 || rank >= t.size {
		return nil
	}
	t.gone[rank] = why
	for _, f := range t.open {
		if f.has(rank) && !f.left {
			failed = append(failed, f)
		}
	}
	slices.SortFunc(failed, func(a, b *fence) int { return strings.Compare(a.set, b.set) })
	return failed
}

func (t *fences) back(rank int) { delete(t.gone, rank) }

// end closes f; the next entry of its set begins another.
func (t *fences) end(f *fence) {
	if t.open[f.set] == f {
		delete(t.open, f.set)
	}
}

// goneError is nil while all of f's ranks can still come.
func (t *fences) goneError(f *fence) error {
	var ranks []int
	for r := range t.gone {
		if f.has(r) {
			ranks = append(ranks, r)
		}
	}
	if len(ranks) == 0 {
		return nil
	}
	slices.Sort(ranks)
	return &GoneError{Set: f.set, Gone: ranks, Why: t.gone[ranks[0]]}
}

func (f *fence) has(rank int) bool {
	if f.ranks == nil {
		return true
	}
	_, ok := slices.BinarySearch(f.ranks, rank)
	return ok
}

func (f *fence) isLocal(rank int) bool {
	_, ok := slices.BinarySearch(f.local, rank)
	return ok
}

// setName is the canonical form of ascending ranks: "0-3,8".
func setName(ranks []int) string {
	var b strings.Builder
	for i := 0; i < len(ranks); {
		j := i
		for j+1 < len(ranks) && ranks[j+1] == ranks[j]+1 {
			j++
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(rangeName(ranks[i], ranks[j]))
		i = j + 1
	}
	return b.String()
}

func rangeName(first, last int) string {
	if first == last {
		return strconv.Itoa(first)
	}
	return strconv.Itoa(first) + "-" + strconv.Itoa(last)
}
