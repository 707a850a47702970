package kvs

import (
	"context"
	"sync"
)

// Turns lets one of those with the same key go on at a time. Ranks whose threads are in several barriers of one set
// take turns. All ranks of the set enter as many barriers, so the order decides which entries belong together. The
// zero value is ready for use, from any goroutine.
type Turns[K comparable] struct {
	mu     sync.Mutex
	queues map[K]chan struct{} // guarded by mu; closed when the turn is over
}

// Take waits until nobody else has k's turn. release ends it, and must be called once. The error
// is ctx's cause.
func (t *Turns[K]) Take(ctx context.Context, k K) (release func(), err error) {
	for {
		t.mu.Lock()
		busy := t.queues[k]
		if busy == nil {
			over := make(chan struct{})
			if t.queues == nil {
				t.queues = map[K]chan struct{}{}
			}
			t.queues[k] = over
			t.mu.Unlock()
			return func() {
				t.mu.Lock()
				delete(t.queues, k)
				t.mu.Unlock()
				close(over)
			}, nil
		}
		t.mu.Unlock()
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}
