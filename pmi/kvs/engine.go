package kvs

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/mpiup/mpiup/internal/idset"
)

// New returns an engine that has no jobs yet. It starts nothing.
func New(cfg Run) *Engine {
	cfg.Limits = cmp.Or(cfg.Limits, DefaultLimits())
	if cfg.Names == nil {
		cfg.Names = NewNames(cfg.Limits)
	}
	return &Engine{cfg: cfg, fences: newFences(cfg.Limits.Fences), spaces: map[*part]*Space{}}
}

// Add makes the space of a job, which starts nothing until a fence leaves the host. It fails on a job that no
// launcher would send.
func (e *Engine) Add(j Job) (*Space, error) {
	if err := j.validate(); err != nil {
		return nil, err
	}
	if e.cfg.Upstream == nil && len(j.Local) != j.Size {
		return nil, fmt.Errorf("%d of %d ranks are here and there is no way to the others", len(j.Local), j.Size)
	}
	j.Local = slices.Sorted(slices.Values(j.Local))
	s := &Space{
		Job: j, e: e,
		store: newStore(j.Base, j.Size, j.Local, e.cfg.Limits),
		attrs: attrs{limits: e.cfg.Limits, ranks: len(j.Local), values: map[string][]byte{},
			waiting: map[int]string{}, left: map[int]bool{}, wake: make(chan struct{})},
		fetches:  map[fetchKey]*flight{},
		arrivals: map[int]chan struct{}{},
	}
	if err := s.store.give(j.Preput); err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if s.part = e.fences.add(j.Base, j.Size, j.Local); s.part == nil {
		return nil, fmt.Errorf("job %d: ids %d to %d belong to another job too", j.Number, j.Base, j.Base+j.Size-1)
	}
	e.spaces[s.part] = s
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	return s, nil
}

// Names is where published names are kept.
func (e *Engine) Names() Names { return e.cfg.Names }

// OnGone has f called whenever a process is gone (RankGone): others keep state of it that the engine does not know. f
// runs in the caller of RankGone, holds no lock of the engine and must not block.
func (e *Engine) OnGone(f func(id int, why string)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.onGone = append(e.onGone, f)
}

// Fence enters a rank of the space into the fence of set, and blocks until every process of it is in and, if
// collect, their data is here. set is ids of the run; the empty one is all ranks of the space. Fences of one set with
// different tags, of at most 256 bytes, are apart and may be under way at one time; a rank that is in a fence cannot
// enter it again, and its threads take Turns. All of a set must agree on collect. Fences over several jobs collect
// nothing: what is asked for is fetched.
//
// It fails with *GoneError when a process of the set will never come, with *EnterError when rank cannot enter,
// with ctx's error (the rank stays in, the others go on; it may come again, and waits for the same fence then),
// or with what Upstream or Close said.
func (s *Space) Fence(ctx context.Context, rank int, set idset.Set, tag string, collect bool) error {
	e, id := s.e, s.Base+rank
	e.mu.Lock()
	if s.closed != nil {
		defer e.mu.Unlock()
		return s.closed
	}
	f, full, err := e.fences.enter(id, set, tag, collect)
	if err != nil {
		e.mu.Unlock()
		return err
	}
	if full {
		e.leave(f)
	}
	e.mu.Unlock()

	select {
	case <-f.over:
		return f.err
	case <-ctx.Done():
		e.mu.Lock()
		f.giveUp(id)
		e.mu.Unlock()
		return context.Cause(ctx)
	}
}

// leave sends f's contribution on its way, now that all of this host are in. mu is held.
func (e *Engine) leave(f *fence) {
	if f.allHere {
		e.end(f, nil)
		return
	}
	s := e.spaces[f.youngest()] // the only one, if the fence collects
	var mine share
	set := toAll
	if !f.ids.Empty() {
		set, _, _ = strings.Cut(f.set, "#")
	}
	if f.collect {
		mine = s.store.share(f.local, set, s.sending)
		s.sending += len(mine.data)
	}
	s.work.Go(func() {
		others, err := e.cfg.Upstream.Exchange(s.ctx, f.set, f.epoch, f.collect, mine.data)
		if err == nil {
			err = mine.refused
		}
		if err == nil {
			err = s.check(f, others)
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		s.sending -= len(mine.data)
		if err == nil && f.collect {
			s.store.arrived(set, mine)
		}
		if f.ended {
			return // Close
		}
		if err == nil && f.collect {
			err = s.store.merge(mine.keys, others)
		}
		if err != nil {
			err = fmt.Errorf("fence %d of ranks %s: %w", f.epoch, f.set, err)
		}
		e.end(f, err)
	})
}

// check refuses contributions that no correct agent sends, before any of them is merged.
func (s *Space) check(f *fence, others [][]byte) error {
	for _, data := range others {
		err := forEach(data, func(owner int, key string, v value) error {
			if owner >= s.Size || !f.has(s.Base+owner) || f.isLocal(s.Base+owner) {
				return fmt.Errorf("another host contributed for rank %d, which is not its own", owner)
			}
			return s.e.cfg.Limits.check(owner, key, v.data)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// end wakes those inside f. mu is held.
func (e *Engine) end(f *fence, err error) {
	e.fences.end(f)
	f.ended, f.err = true, err
	close(f.over)
}

// RankGone says that rank will not enter another fence, because its process ended or it left PMI for good. Fences
// that hold it fail: those that wait for processes of this host now, others later. Waiting for what only it could
// have put fails too. The first why stays. rank may be on another host.
func (s *Space) RankGone(rank int, why string) {
	e, id := s.e, s.Base+rank
	e.mu.Lock()
	for _, f := range e.fences.leave(s.part, id, why) {
		e.end(f, e.fences.goneError(f))
	}
	if s.store.isLocal(rank) {
		s.attrs.left[rank] = true
		s.attrs.changed()
		s.arrived(rank)
	}
	told := e.onGone
	e.mu.Unlock()
	for _, f := range told {
		f(id, why)
	}
}

// RankBack takes RankGone back: the rank has initialized PMI again, over a new connection.
func (s *Space) RankBack(rank int) {
	s.e.mu.Lock()
	defer s.e.mu.Unlock()
	delete(s.part.gone, s.Base+rank)
	delete(s.attrs.left, rank)
}

// IsGone says whether a rank is gone now.
func (s *Space) IsGone(rank int) bool {
	s.e.mu.Lock()
	defer s.e.mu.Unlock()
	_, gone := s.part.gone[s.Base+rank]
	return gone
}
