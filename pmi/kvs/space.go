package kvs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/job"
)

// AnyOwner as the owner of a value is whoever put the key (PMI-1 has no owners).
const AnyOwner = -1

// Job describes one job on one host.
//
// KVSName must be new for every job, not only among those that run: MPICH 5 derives the names of
// its shared memory segments from it, and those of a killed job stay in /dev/shm.
type Job struct {
	Number  int    // in the run
	Base    int    // id of rank 0
	Size    int    // ranks
	Local   []int  // those on this host; ascending in a Space
	KVSName string // the job's name in PMI, at most 32 printable characters without blank, '=' and ';'
	// Preput is what all ranks find from the start, the same on every host. Get finds it for AnyOwner as long as no rank has
	// put the same. Its values must not be modified any more.
	Preput []job.Pair
}

func (j *Job) validate() error {
	if j.Size < 1 || j.Base < 0 || j.Base > idset.MaxID+1-j.Size {
		return fmt.Errorf("a job of %d ranks from id %d", j.Size, j.Base)
	}
	bad := func(r rune) bool { return r <= ' ' || r > '~' || r == '=' || r == ';' || r == '\\' }
	if j.KVSName == "" || len(j.KVSName) > 32 || strings.ContainsFunc(j.KVSName, bad) {
		return fmt.Errorf("%q cannot be a key-value space's name: 1 to 32 printable characters without blank, '=', ';'", j.KVSName)
	}
	seen := map[int]bool{}
	for _, r := range j.Local {
		if r < 0 || r >= j.Size || seen[r] {
			return fmt.Errorf("rank %d of a job of %d ranks is named twice or out of range", r, j.Size)
		}
		seen[r] = true
	}
	return nil
}

// Space is one job's data on one host; it speaks of ranks of the job. Engine.Add makes one.
type Space struct {
	Job
	e    *Engine
	part *part // guarded by e.mu

	ctx    context.Context // of exchanges and fetches; ends with Close
	cancel context.CancelCauseFunc
	work   sync.WaitGroup // exchanges and fetches

	store    store                 // guarded by e.mu
	attrs    attrs                 // guarded by e.mu
	fetches  map[fetchKey]*flight  // guarded by e.mu
	sending  int                   // guarded by e.mu; bytes of contributions that upstream has not answered
	arrivals map[int]chan struct{} // guarded by e.mu; by owner, of those somebody waits for
	closed   error                 // guarded by e.mu; nil: open
}

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

// Here returns what this host has of owner's now, and asks nobody. The bytes must not be modified.
func (s *Space) Here(owner int, key string) (value []byte, found bool) {
	s.e.mu.Lock()
	defer s.e.mu.Unlock()
	return s.store.get(owner, key)
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
		s.attrs.close(err)
		for owner := range maps.Clone(s.arrivals) {
			s.arrived(owner)
		}
		for _, f := range e.fences.remove(s.part) {
			e.end(f, err)
		}
	}
	e.mu.Unlock()
	s.cancel(err)
	s.work.Wait()
}

// ErrClosed is what a closed space returns when Close was given no error.
var ErrClosed = errors.New("the job's key-value space is closed")
