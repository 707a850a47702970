package kvs

import (
	"context"
	"errors"
	"maps"
	"strings"
)

// Names is where the run's published names are kept.
func (s *Space) Names() Names { return s.e.cfg.Names }

// Put stores a value of a rank of this host, replacing what that rank had under key. value is
// copied. An error is a *LimitError, or the space is closed.
func (s *Space) Put(owner int, key string, value []byte) error {
	s.e.mu.Lock()
	defer s.e.mu.Unlock()
	if s.closed != nil {
		return s.closed
	}
	if err := s.store.put(owner, key, value); err != nil {
		return err
	}
	s.arrived(owner)
	return nil
}

// Get returns owner's value (AnyOwner: the one put or merged last) without waiting for one to be put. It fetches what
// is not here once, unless it cannot be elsewhere: a rank of this host would have put it here, and keys that begin
// with "PMI_" are no rank's. Ranks that miss the same key at one time share one fetch. The bytes must not be
// modified.
func (s *Space) Get(ctx context.Context, owner int, key string) (value []byte, found bool, err error) {
	s.e.mu.Lock()
	if s.closed != nil {
		defer s.e.mu.Unlock()
		return nil, false, s.closed
	}
	if v, ok := s.store.get(owner, key); ok {
		s.e.mu.Unlock()
		return v, true, nil
	}
	if len(s.Local) == s.Size || s.store.isLocal(owner) || strings.HasPrefix(key, "PMI_") ||
		owner != AnyOwner && (owner < 0 || owner >= s.Size) || len(key) > s.e.cfg.Limits.Key {
		s.e.mu.Unlock()
		return nil, false, nil
	}
	return s.fetch(ctx, fetchKey{owner: owner, key: key}) // unlocks
}

// LocalGet answers another host's Fetch: only what ranks of this host have put.
func (s *Space) LocalGet(owner int, key string) (value []byte, found bool) {
	s.e.mu.Lock()
	defer s.e.mu.Unlock()
	return s.store.localGet(owner, key)
}

// Close makes everything of the job that blocks, and every later call, return err (nil: ErrClosed), and
// waits for its exchanges to end. Fences over it and other jobs fail too. Only the first call's err counts.
func (s *Space) Close(err error) {
	if err == nil {
		err = ErrClosed
	}
	e := s.e
	e.mu.Lock()
	if s.closed == nil {
		s.closed = err
		s.attrs.closed = err
		s.attrs.changed()
		for owner := range maps.Clone(s.arrivals) {
			s.arrived(owner)
		}
		for _, f := range e.fences.remove(s.part) {
			e.end(f, err)
		}
		delete(e.spaces, s.part)
	}
	e.mu.Unlock()
	s.cancel(err)
	s.work.Wait()
}

// ErrClosed is what a closed space returns when Close was given no error.
var ErrClosed = errors.New("the job's key-value space is closed")
