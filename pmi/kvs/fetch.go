package kvs

import (
	"context"
	"fmt"
)

// fetchKey is one question to other hosts.
type fetchKey struct {
	owner int
	key   string
	wait  bool // see Question
	not   string
	keep  bool // the answer goes into the store
}

// flight is a fetch under way; ranks that ask the same meanwhile wait for its answer.
type flight struct {
	over  chan struct{}
	value []byte
	found bool
	err   error
}

// fetch asks the other hosts for k. It is entered with mu held and returns without it. The
// fetch belongs to the space, not to the rank that asked first: it ends with Close.
func (s *Space) fetch(ctx context.Context, k fetchKey) ([]byte, bool, error) {
	f := s.fetches[k]
	if f == nil {
		f = &flight{over: make(chan struct{})}
		s.fetches[k] = f
		clock := s.store.clock
		s.work.Go(func() {
			q := Question{Job: s.Number, Owner: k.owner, Key: k.key, Wait: k.wait, Not: k.not}
			if k.owner != AnyOwner {
				q.Owner += s.Base
			}
			f.value, f.found, f.err = s.e.cfg.Upstream.Fetch(s.ctx, q)
			s.e.mu.Lock()
			delete(s.fetches, k)
			closed := s.closed
			s.e.mu.Unlock()
			switch {
			case closed != nil:
				f.err = closed
			case f.err != nil:
				f.err = fmt.Errorf("key %q of other hosts: %w", k.key, f.err)
			case f.found && len(f.value) > s.e.cfg.Limits.Value:
				f.err = &LimitError{Owner: k.owner, Key: k.key, What: "value", Unit: "bytes", Got: len(f.value), Max: s.e.cfg.Limits.Value}
			case f.found && k.keep:
				s.e.mu.Lock()
				f.err = s.keep(k, f.value, clock)
				s.e.mu.Unlock()
			}
			close(f.over)
		})
	}
	s.e.mu.Unlock()
	select {
	case <-f.over:
		return f.value, f.found && f.err == nil, f.err
	case <-ctx.Done():
		return nil, false, context.Cause(ctx)
	}
}
