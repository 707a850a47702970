// Package awake bounds waits for somebody else by the time in which this process itself ran.
//
//	wall clock   ──────────────────────────────────▶
//	this process runs │ stopped, starved │ runs
//	counts       ─────┤ two steps        ├──── ... d: the wait is over
//
// A process that was stopped, starved or frozen with its machine has kept others waiting, and not they it: what they sent meanwhile
// lies there unread. So it calls nobody silent for that.
//
// Concurrency: everything may be used from any goroutine. What is started ends with the returned function or with the time.
//
// It does not keep a running count: internal/wire.Clock does, by Counts.
package awake

import (
	"context"
	"sync"
	"time"
)

// Tick is the usual length of a step.
const Tick = 100 * time.Millisecond

// Counts is how much of the time between two readings counts: at most twice a step's length, however late the second comes. Readings
// without monotonic time may jump either way: backward they count for nothing.
func Counts(last, now time.Time, step time.Duration) time.Duration {
	return min(max(now.Sub(last), 0), 2*step)
}

// After calls f once d has counted, unless stop is called first. stop waits for an f that runs, which therefore must not call it.
func After(d time.Duration, f func()) (stop func()) {
	stop, _ = after(d, f)
	return stop
}

// after is After, with how much of d is left.
func after(d time.Duration, f func()) (stop func(), rest func() time.Duration) {
	var mu sync.Mutex // guards the rest
	left, last, over := d, time.Now(), false
	var t *time.Timer
	mu.Lock()
	defer mu.Unlock()
	t = time.AfterFunc(min(left, Tick), func() {
		mu.Lock()
		defer mu.Unlock()
		now := time.Now()
		left, last = left-Counts(last, now, Tick), now
		switch {
		case over:
		case left <= 0:
			f()
		default:
			t.Reset(min(left, Tick))
		}
	})
	stop = func() {
		mu.Lock()
		defer mu.Unlock()
		over = true
		t.Stop()
	}
	rest = func() time.Duration {
		mu.Lock()
		defer mu.Unlock()
		return max(left-Counts(last, time.Now(), Tick), 0)
	}
	return stop, rest
}

// Within is ctx for at most d. The end is a cancellation, with no deadline to be seen; its cause is context.DeadlineExceeded.
func Within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return WithinCause(ctx, d, context.DeadlineExceeded)
}

// WithinCause is Within with a cause of its own.
func WithinCause(ctx context.Context, d time.Duration, cause error) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop, rest := after(d, func() { cancel(cause) })
	return context.WithValue(ctx, restKey{}, rest), func() { stop(); cancel(nil) }
}

type restKey struct{}

// Left is how much is left of the time that Within gave ctx last; false: it gave none.
func Left(ctx context.Context) (left time.Duration, bounded bool) {
	rest, bounded := ctx.Value(restKey{}).(func() time.Duration)
	if !bounded {
		return 0, false
	}
	return rest(), true
}

// Call is what ask returns, or false where it does not within the time that counts. Then ask's goroutine goes on until it does: it is for
// what a file system or a device may hold.
func Call[T any](d time.Duration, ask func() T) (got T, answered bool) {
	reply, late := make(chan T, 1), make(chan struct{})
	go func() { reply <- ask() }()
	defer After(d, func() { close(late) })()
	select {
	case got = <-reply:
		return got, true
	case <-late:
	}
	select { // both may have come at once
	case got = <-reply:
		return got, true
	default:
		return got, false
	}
}

// InTurn is Call, until ctx ends, of what is asked again and again: no more than turns holds ask at once, and others wait for their turn. So what never
// answers costs so many goroutines, and not one more each time. That of a call that was given up keeps its turn.
func InTurn[T any](ctx context.Context, turns chan struct{}, ask func() T) (got T, answered bool) {
	if ctx.Err() != nil {
		return got, false
	}
	select {
	case turns <- struct{}{}:
	case <-ctx.Done():
		return got, false
	}

	reply := make(chan T, 1)
	go func() {
		defer func() { <-turns }()
		reply <- ask()
	}()
	select {
	case got = <-reply:
		return got, true
	case <-ctx.Done():
	}
	select { // both may have come at once
	case got = <-reply:
		return got, true
	default:
		return got, false
	}
}

// Until sets a deadline of a connection's or a file's that has passed once d has counted: its reads or writes, or both, end with
// os.ErrDeadlineExceeded. set is its SetDeadline, SetReadDeadline or SetWriteDeadline. lift takes that back, and fails where it is over.
func Until(set func(time.Time) error, d time.Duration) (lift func() error) {
	stop := After(d, func() { _ = set(time.Unix(1, 0)) })
	return func() error { stop(); return set(time.Time{}) }
}
