package reap

import "sync"

// freshLooks shares looks at the same thing among those who want one at the same time. A look that is under way may have
// passed by what happened just now: whoever asks meanwhile gets the next one, which begins after the question.
type freshLooks[T any] struct {
	mu      sync.Mutex
	running *freshLook[T] // guarded by mu; the last one that has begun
	next    *freshLook[T] // guarded by mu; begins when running is over; nil: nobody wants one
}

type freshLook[T any] struct {
	over chan struct{}
	seen T // not changed once over is closed
}

// do is what a look sees that begins now or later. All calls bring the same look.
func (f *freshLooks[T]) do(look func() T) T {
	f.mu.Lock()
	if l := f.next; l != nil {
		f.mu.Unlock()
		<-l.over
		return l.seen
	}
	l := &freshLook[T]{over: make(chan struct{})}
	before := f.running
	f.next = l
	f.mu.Unlock()

	if before != nil {
		<-before.over
	}
	f.mu.Lock()
	f.running, f.next = l, nil
	f.mu.Unlock()

	l.seen = look()
	close(l.over)
	return l.seen
}
