package kvs

import (
	"bytes"
	"context"
)

// attrs are the node attributes of PMI-2: values that ranks of one host share, and may wait for.
// Guarded by the engine's mu.
type attrs struct {
	limits  Limits
	ranks   int // of this host
	values  map[string][]byte
	bytes   int
	waiting map[int]string // rank → key
	left    map[int]bool   // gone
	wake    chan struct{}  // closed and replaced at every change
	closed  error
}

// PutAttr sets a node attribute and wakes who waits for it. value is copied.
func (s *Space) PutAttr(rank int, key string, value []byte) error {
	s.e.mu.Lock()
	defer s.e.mu.Unlock()
	a := &s.attrs
	if a.closed != nil {
		return a.closed
	}
	if err := a.limits.check(rank, key, value); err != nil {
		return err
	}
	old, had := a.values[key]
	if !had && len(a.values) >= a.limits.RankKeys {
		return &LimitError{Owner: rank, Key: key, What: "total", Unit: "node attributes", Got: len(a.values) + 1, Max: a.limits.RankKeys}
	}
	grow := len(value) - len(old)
	if a.bytes+grow > a.limits.RankData {
		return &LimitError{Owner: rank, Key: key, What: "total", Unit: "bytes of node attributes", Got: a.bytes + grow, Max: a.limits.RankData}
	}
	a.bytes += grow
	a.values[key] = bytes.Clone(value)
	a.changed()
	return nil
}

// Attr returns a node attribute. With wait it blocks until a rank of this host has put it. It answers not found only
// when all other ranks of the host are gone or wait themselves.
func (s *Space) Attr(ctx context.Context, rank int, key string, wait bool) (value []byte, found bool, err error) {
	s.e.mu.Lock()
	defer s.e.mu.Unlock()
	a := &s.attrs
	for {
		if a.closed != nil {
			return nil, false, a.closed
		}
		if v, ok := a.values[key]; ok || !wait {
			return v, ok, nil
		}
		a.waiting[rank] = key
		if a.nobodyCanPut() {
			delete(a.waiting, rank)
			a.changed()
			return nil, false, nil
		}
		wake := a.wake
		s.e.mu.Unlock()
		select {
		case <-wake:
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		s.e.mu.Lock()
		delete(a.waiting, rank)
		if err != nil {
			return nil, false, err
		}
	}
}

// nobodyCanPut: every rank of this host waits for what is not there, or is gone.
func (a *attrs) nobodyCanPut() bool {
	n := len(a.left)
	for r, key := range a.waiting {
		if _, there := a.values[key]; !there && !a.left[r] {
			n++
		}
	}
	return n >= a.ranks
}

func (a *attrs) changed() {
	close(a.wake)
	a.wake = make(chan struct{})
}
