package kvs

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
)

// Digest is what Await calls a value that is not waited for; it has 32 bytes.
func Digest(value []byte) string {
	sum := sha256.Sum256(value)
	return string(sum[:])
}

// Here returns what this host has of owner's now, and asks nobody. The bytes must not be modified.
func (s *Space) Here(owner int, key string) (value []byte, found bool) {
	s.e.mu.Lock()
	defer s.e.mu.Unlock()
	return s.store.get(owner, key)
}

// Await asks owner's host for a key, whether or not an older value is here, and keeps the answer.
// With wait it blocks until owner has put the key, and another value than that of the digest not
// ("": any); it answers not found when owner is gone. For owners on
// this host it is LocalAwait, or Here without wait.
func (s *Space) Await(ctx context.Context, owner int, key string, wait bool, not string) (value []byte, found bool, err error) {
	s.e.mu.Lock()
	switch {
	case s.closed != nil:
		defer s.e.mu.Unlock()
		return nil, false, s.closed
	case owner < 0 || owner >= s.Size || len(key) > s.e.cfg.Limits.Key:
		s.e.mu.Unlock()
		return nil, false, nil
	case !s.store.isLocal(owner):
		if !wait {
			not = ""
		}
		return s.fetch(ctx, fetchKey{owner, key, wait, not, true}) // unlocks
	}
	s.e.mu.Unlock()
	if wait {
		return s.LocalAwait(ctx, owner, key, not)
	}
	value, found = s.Here(owner, key)
	return value, found, nil
}

// LocalAwait returns what a rank of this host has put, and blocks until it has, and another value
// than that of the digest not ("": any); found is false when the rank is gone. It answers another
// host's Await.
func (s *Space) LocalAwait(ctx context.Context, owner int, key, not string) (value []byte, found bool, err error) {
	s.e.mu.Lock()
	defer s.e.mu.Unlock()
	if !s.store.isLocal(owner) {
		return nil, false, fmt.Errorf("key %.64q of rank %d was asked for here, and the rank is not on this host", key, owner)
	}
	if len(key) > s.e.cfg.Limits.Key {
		return nil, false, errors.New("a key longer than any that could be put")
	}
	for {
		if s.closed != nil {
			return nil, false, s.closed
		}
		if v, ok := s.store.get(owner, key); ok && (not == "" || Digest(v) != not) {
			return v, true, nil
		}
		if _, gone := s.part.gone[s.Base+owner]; gone {
			return nil, false, nil
		}
		c := s.arrivals[owner]
		if c == nil {
			c = make(chan struct{})
			s.arrivals[owner] = c
		}
		s.e.mu.Unlock()
		select {
		case <-c:
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		s.e.mu.Lock()
		if err != nil {
			return nil, false, err
		}
	}
}

// keep stores what was fetched, unless something newer came in a fence meanwhile. It is not
// AnyOwner's latest: only a fence decides that for all hosts. How many puts it comes after is not known: a fence
// that the owner's host entered before may still bring what it replaced. mu is held.
func (s *Space) keep(k fetchKey, value []byte, clock uint64) error {
	if s.store.clock != clock {
		return nil
	}
	return s.store.set(k.owner, k.key, value, 0)
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

// arrived wakes who waits for owner to put something, or to be gone. mu is held.
func (s *Space) arrived(owner int) {
	if c := s.arrivals[owner]; c != nil {
		close(c)
		delete(s.arrivals, owner)
	}
}
