package kvs

import (
	"context"
	"fmt"
)

// fetchKey is one question to other hosts.
type fetchKey struct {
	owner int
	key   string
	wait  bool   // see Awaiter
	not   string // with wait
	keep  bool   // the answer goes into the store
}

// flight is a fetch under way; ranks that ask the same meanwhile wait for its answer.
type flight struct {
	over  chan struct{}
	value []byte
	found bool
	err   error
}

// fetch asks the other hosts for k. It is entered with mu held and returns without it. The
// fetch belongs to the engine, not to the rank that asked first: it ends with Close.
func (e *Engine) fetch(ctx context.Context, k fetchKey) ([]byte, bool, error) {
	f := e.fetches[k]
	if f == nil {
		f = &flight{over: make(chan struct{})}
		e.fetches[k] = f
		clock := e.store.clock
		e.work.Go(func() {
			if k.wait {
				f.value, f.found, f.err = e.cfg.Upstream.(Awaiter).Await(e.ctx, k.owner, k.key, k.not)
			} else {
				f.value, f.found, f.err = e.cfg.Upstream.Fetch(e.ctx, k.owner, k.key)
			}
			e.mu.Lock()
			delete(e.fetches, k)
			closed := e.closed
			e.mu.Unlock()
			switch {
			case closed != nil:
				f.err = closed
			case f.err != nil:
				f.err = fmt.Errorf("key %q of other hosts: %w", k.key, f.err)
			case f.found && len(f.value) > e.cfg.Limits.Value:
				f.err = &LimitError{Owner: k.owner, Key: k.key, What: "value", Unit: "bytes", Got: len(f.value), Max: e.cfg.Limits.Value}
			case f.found && k.keep:
				e.mu.Lock()
				f.err = e.keep(k, f.value, clock)
				e.mu.Unlock()
			}
			close(f.over)
		})
	}
	e.mu.Unlock()
	select {
	case <-f.over:
		return f.value, f.found && f.err == nil, f.err
	case <-ctx.Done():
		return nil, false, context.Cause(ctx)
	}
}
