package pmix

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/pmi/kvs"
)

// spans are this host's barriers over processes of several jobs, which no job's engine has. They
// go like its fences: this host enters Config.Span once, when its last process of the set is in.
//
//	             first process here       last one here           Span answers
//	(none) ─────────────▶ gathering ──────────▶ exchanging ──────────────▶ over
//	                          └──── a process of the set is gone ────▶ over, *kvs.GoneError
type spans struct {
	up kvs.Upstream

	mu     sync.Mutex
	open   map[string]*span  // guarded by mu; by name
	epochs map[string]epochs // guarded by mu; by name
}

// epochs counts the barriers of a set that left this host.
type epochs struct {
	set idset.Set
	n   uint64
}

// span is one barrier. Guarded by spans.mu but for over, and err once that is closed.
type span struct {
	set     idset.Set
	name    string
	local   int // processes of it on this host
	entered map[int]bool
	over    chan struct{}
	err     error
}

const (
	maxSpans    = 256
	maxSpanSets = 4096
	maxSpanName = 64 << 10 // bytes of a set's text, as in kvs
)

func newSpans(up kvs.Upstream) spans {
	return spans{up: up, open: map[string]*span{}, epochs: map[string]epochs{}}
}

// enterSpan puts id into the barrier of all, whose name is their set's and its tag, and waits for its end. It fails as kvs.Engine.Fence does.
func (s *Server) enterSpan(ctx context.Context, id int, name string, all party) error {
	t := &s.spans
	b, full, err := t.enter(id, name, all)
	if err != nil {
		return err
	}
	if full && !s.start(func() { t.exchange(s.ctx, b) }) {
		t.end(b, errors.New("the PMIx server has ended"))
	}
	select {
	case <-b.over:
		return b.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// enter says whether the barrier is full: all of it that is here is in it.
func (t *spans) enter(id int, name string, all party) (b *span, full bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	gone := all.gone() // with mu held: who leaves after this is told to gone
	b = t.open[name]
	if b == nil {
		if len(t.open) >= maxSpans || t.epochs[name].n == 0 && len(t.epochs) >= maxSpanSets || len(name) > maxSpanName {
			return nil, false, &kvs.LimitError{Owner: kvs.AnyOwner, Key: name, What: "one more than a total",
				Unit: "barriers over several jobs", Got: len(t.open) + 1, Max: maxSpans}
		}
		b = &span{set: all.set(), name: name, local: all.here(), entered: map[int]bool{}, over: make(chan struct{})}
		t.open[name] = b
	}
	if gone != nil {
		t.endLocked(b, gone)
		return b, false, nil
	}
	again := b.entered[id] // it gave up, and the others count on it
	b.entered[id] = true
	return b, !again && len(b.entered) == b.local, nil
}

// exchange takes a full barrier to the other hosts.
func (t *spans) exchange(ctx context.Context, b *span) {
	if b.local == b.set.Len() {
		t.end(b, nil)
		return
	}
	if t.up == nil {
		t.end(b, fmt.Errorf("processes %s are on several hosts, and there is no way to the others", b.name))
		return
	}
	t.mu.Lock()
	epoch := t.epochs[b.name].n + 1
	t.epochs[b.name] = epochs{b.set, epoch}
	t.mu.Unlock()
	_, err := t.up.Exchange(ctx, b.name, epoch, false, nil)
	if err != nil {
		err = fmt.Errorf("barrier %d of processes %s: %w", epoch, b.name, err)
	}
	t.end(b, err)
}

// gone fails the barriers that hold id.
func (t *spans) gone(id int, why string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, b := range t.open {
		if b.set.Contains(id) {
			t.endLocked(b, &kvs.GoneError{Set: b.name, Gone: []int{id}, Why: why})
		}
	}
}

func (t *spans) end(b *span, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.endLocked(b, err)
}

// endLocked wakes b's processes, once.
func (t *spans) endLocked(b *span, err error) {
	if t.open[b.name] != b {
		return
	}
	delete(t.open, b.name)
	b.err = err
	close(b.over)
}

// here counts the party's processes on this host.
func (p party) here() (n int) {
	for _, m := range p {
		for _, r := range m.ns.hereRanks() {
			if _, in := slices.BinarySearch(m.ranks, r); in || m.ranks == nil {
				n++
			}
		}
	}
	return n
}

// gone is the error of a barrier whose processes cannot all come; nil if they can.
func (p party) gone() error {
	var ids []int
	why := ""
	for _, m := range p {
		left := m.ns.Engine.Gone()
		for r := range left {
			if p.has(m.ns, r) {
				ids = append(ids, m.ns.Base+r)
			}
		}
		slices.Sort(ids)
		if why == "" && len(ids) > 0 {
			why = left[ids[0]-m.ns.Base]
		}
	}
	if len(ids) == 0 {
		return nil
	}
	return &kvs.GoneError{Set: p.set().String(), Gone: ids, Why: why}
}
