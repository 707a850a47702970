package gloo

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"
)

// Update is a change that the job's other hosts are told of.
type Update struct {
	Scope string
	Epoch uint64 // how often the rank that made it had finished the scope before
	Rank  int    // who made it, a rank of the job
	Key   string
	Value []byte
	Done  bool // Rank has finished the scope; Value is empty
}

// Store is what one host knows of a job's values. Without Tell it is one host's alone.
type Store struct {
	// Tell tells the job's other hosts of what a rank here did. It is called in the order in which that came to
	// be known here, so that nobody hears of an end before what led to it; it may not block, nor call back.
	Tell func(Update)

	mu      sync.Mutex
	lives   map[lifeKey]*life    // guarded by mu
	epochs  map[rankScope]uint64 // guarded by mu
	ranks   map[int]bool         // that have put something, guarded by mu
	bytes   int                  // guarded by mu
	told    float64              // bytes told that count still, guarded by mu
	toldAt  time.Time            // when told was last lowered, guarded by mu
	changed chan struct{}        // closed at the next value, nil while nobody waits, guarded by mu
}

type lifeKey struct {
	scope string
	epoch uint64
}

type rankScope struct {
	rank  int
	scope string
}

// life is one epoch of a scope.
type life struct {
	values   map[string][]byte
	finished map[int]bool // by rank: all who put a value
}

// ErrFull says that a value finds no room.
var ErrFull = fmt.Errorf("the rendezvous of Horovod's ranks on this host is full: it holds %d MiB at most", maxBytes>>20)

// ErrName says that a scope or key is empty or too long.
var ErrName = fmt.Errorf("a scope or key is empty or longer than %d bytes", maxName)

// Put keeps a rank's value in its epoch of a scope.
func (s *Store) Put(rank int, scope, key string, value []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := Update{Scope: scope, Epoch: s.epochs[rankScope{rank, scope}], Rank: rank, Key: key, Value: value}
	if err := s.allowed(u); err != nil {
		return err
	}
	if err := s.put(u); err != nil {
		return err
	}
	if s.ranks == nil {
		s.ranks = map[int]bool{}
	}
	s.ranks[rank] = true
	s.tell(u)
	return nil
}

// used says that a rank of this host has put something.
func (s *Store) used(rank int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ranks[rank]
}

// tell passes an update on, unless nobody on other hosts asks for its scope: Horovod names that of a host's own
// ranks local_HOST.
func (s *Store) tell(u Update) {
	if s.tells(u) {
		s.Tell(u)
	}
}

func (s *Store) tells(u Update) bool { return s.Tell != nil && !strings.HasPrefix(u.Scope, "local_") }

// allowed checks an update of a rank here, and counts what it costs to tell: too much in a short time is full. mu is held.
func (s *Store) allowed(u Update) error {
	if err := u.check(); err != nil || !s.tells(u) {
		return err
	}
	now := time.Now()
	if !s.toldAt.IsZero() {
		s.told = max(0, s.told-tellInSecond*now.Sub(s.toldAt).Seconds())
	}
	s.toldAt = now
	if s.told+float64(u.cost()) > tellAtOnce {
		return ErrFull
	}
	s.told += float64(u.cost())
	return nil
}

// Get is a value of the rank's epoch of a scope; it waits for it until ctx ends.
func (s *Store) Get(ctx context.Context, rank int, scope, key string) ([]byte, bool) {
	for {
		s.mu.Lock()
		if l := s.lives[lifeKey{scope, s.epochs[rankScope{rank, scope}]}]; l != nil {
			if value, ok := l.values[key]; ok {
				s.mu.Unlock()
				return value, true
			}
		}
		if s.changed == nil {
			s.changed = make(chan struct{})
		}
		changed := s.changed
		s.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, false
		}
	}
}

// Finish notes that a rank has finished a scope's rendezvous. key is what it calls itself there.
func (s *Store) Finish(rank int, scope, key string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := rankScope{rank, scope}
	u := Update{Scope: scope, Epoch: s.epochs[at], Rank: rank, Key: key, Done: true}
	if err := s.allowed(u); err != nil {
		return err
	}
	if s.epochs == nil {
		s.epochs = map[rankScope]uint64{}
	}
	if _, known := s.epochs[at]; !known {
		if err := s.charge(len(scope) + entryCost); err != nil {
			return err
		}
	}
	s.epochs[at]++
	s.finish(u)
	s.tell(u)
	return nil
}

// Apply takes another host's update.
func (s *Store) Apply(u Update) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !u.Done {
		return s.put(u)
	}
	if err := u.check(); err != nil {
		return err
	}
	s.finish(u)
	return nil
}

func (u Update) check() error {
	if u.Scope == "" || u.Key == "" || len(u.Scope) > maxName || len(u.Key) > maxName {
		return ErrName
	}
	if len(u.Value) > maxValue {
		return ErrFull
	}
	return nil
}

// put keeps a value. mu is held.
func (s *Store) put(u Update) error {
	if err := u.check(); err != nil {
		return err
	}
	k := lifeKey{u.Scope, u.Epoch}
	l := s.lives[k]
	var had []byte
	known := false
	if l != nil {
		had, known = l.values[u.Key]
	}
	cost := len(u.Value) - len(had)
	if !known {
		cost = u.cost()
	}
	if err := s.charge(cost); err != nil {
		return err
	}
	if l == nil {
		l = &life{values: map[string][]byte{}, finished: map[int]bool{}}
		if s.lives == nil {
			s.lives = map[lifeKey]*life{}
		}
		s.lives[k] = l
	}
	l.values[u.Key] = u.Value
	l.finished[u.Rank] = false
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
	return nil
}

func (u Update) cost() int { return len(u.Scope) + len(u.Key) + len(u.Value) + entryCost }

// charge counts bytes, or says that there is no room for them. mu is held.
func (s *Store) charge(n int) error {
	if s.bytes+n > maxBytes {
		return ErrFull
	}
	s.bytes += n
	return nil
}

// finish drops an epoch of a scope once all who put a value there have finished. mu is held.
func (s *Store) finish(u Update) {
	k := lifeKey{u.Scope, u.Epoch}
	l := s.lives[k]
	if l == nil {
		return
	}
	if _, put := l.finished[u.Rank]; !put {
		return
	}
	l.finished[u.Rank] = true
	for _, finished := range l.finished {
		if !finished {
			return
		}
	}
	for key, value := range l.values {
		s.bytes -= Update{Scope: u.Scope, Key: key, Value: value}.cost()
	}
	delete(s.lives, k)
}
