package kvs

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
)

// Awaiter is what an Upstream may have besides: Await is Fetch, but the owner's host answers when
// the owner has put the key (LocalAwait), found being false when it never will.
type Awaiter interface {
	Await(ctx context.Context, owner int, key, not string) (value []byte, found bool, err error)
}

// Digest is what Await calls a value that is not waited for; it has 32 bytes.
func Digest(value []byte) string {
	sum := sha256.Sum256(value)
	return string(sum[:])
}

// Here returns what this host has of owner's now, and asks nobody. The bytes must not be modified.
func (e *Engine) Here(owner int, key string) (value []byte, found bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.store.get(owner, key)
}

// Await asks owner's host for a key, whether or not an older value is here, and keeps the answer.
// With wait it blocks until owner has put the key, and another value than that of the digest not
// ("": any), where Upstream is an Awaiter; it answers not found when owner is gone. For owners on
// this host it is LocalAwait, or Here without wait.
func (e *Engine) Await(ctx context.Context, owner int, key string, wait bool, not string) (value []byte, found bool, err error) {
	e.mu.Lock()
	switch {
	case e.closed != nil:
		defer e.mu.Unlock()
		return nil, false, e.closed
	case owner < 0 || owner >= e.cfg.Size || len(key) > e.cfg.Limits.Key:
		e.mu.Unlock()
		return nil, false, nil
	case !e.store.isLocal(owner) && e.cfg.Upstream != nil:
		if _, ok := e.cfg.Upstream.(Awaiter); !ok || !wait {
			wait, not = false, ""
		}
		return e.fetch(ctx, fetchKey{owner, key, wait, not, true}) // unlocks
	}
	e.mu.Unlock()
	if wait {
		return e.LocalAwait(ctx, owner, key, not)
	}
	value, found = e.Here(owner, key)
	return value, found, nil
}

// LocalAwait returns what a rank of this host has put, and blocks until it has, and another value
// than that of the digest not ("": any); found is false when the rank is gone. It answers another
// host's Await.
func (e *Engine) LocalAwait(ctx context.Context, owner int, key, not string) (value []byte, found bool, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.store.isLocal(owner) {
		return nil, false, fmt.Errorf("key %.64q of rank %d was asked for here, and the rank is not on this host", key, owner)
	}
	if len(key) > e.cfg.Limits.Key {
		return nil, false, errors.New("a key longer than any that could be put")
	}
	for {
		if e.closed != nil {
			return nil, false, e.closed
		}
		if v, ok := e.store.get(owner, key); ok && (not == "" || Digest(v) != not) {
			return v, true, nil
		}
		if _, gone := e.fences.gone[owner]; gone {
			return nil, false, nil
		}
		c := e.arrivals[owner]
		if c == nil {
			c = make(chan struct{})
			e.arrivals[owner] = c
		}
		e.mu.Unlock()
		select {
		case <-c:
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		e.mu.Lock()
		if err != nil {
			return nil, false, err
		}
	}
}

// arrived wakes who waits for owner to put something, or to be gone. mu is held.
func (e *Engine) arrived(owner int) {
	if c := e.arrivals[owner]; c != nil {
		close(c)
		delete(e.arrivals, owner)
	}
}

// keep stores what was fetched, unless something newer came in a fence meanwhile. It is not
// AnyOwner's latest: only a fence decides that for all hosts. mu is held.
func (e *Engine) keep(k fetchKey, value []byte, clock uint64) error {
	if e.store.clock != clock {
		return nil
	}
	return e.store.set(k.owner, k.key, value)
}
