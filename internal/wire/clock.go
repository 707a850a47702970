package wire

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Clock counts time in which this process itself ran. A process that was stopped, starved or
// frozen with its machine sees only a step or two of that time, so it calls nobody dead because
// it slept itself. Readings are as coarse as its steps.
type Clock struct{ now atomic.Int64 }

// tick is the length of a step.
const tick = 100 * time.Millisecond

// NewClock makes a Clock that stands at 0 until Run.
func NewClock() *Clock { return &Clock{} }

// NewClockAt makes a Clock that stands at d, as if it had run for so long.
func NewClockAt(d time.Duration) *Clock {
	c := &Clock{}
	c.now.Store(int64(d))
	return c
}

// Now is the time run so far.
func (c *Clock) Now() time.Duration { return time.Duration(c.now.Load()) }

// Run drives the Clock until ctx ends, calling each (if not nil) after every step. A step
// counts for at most twice its length, however late it comes.
func (c *Clock) Run(ctx context.Context, each func()) {
	t := time.NewTicker(tick)
	defer t.Stop()
	last := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		// Monotonic time stands still while the machine is suspended, and runs on while the
		// process is stopped. The bound is for a stopped process.
		now := time.Now()
		c.now.Add(int64(counts(last, now)))
		last = now
		if each != nil {
			each()
		}
	}
}

// Within is ctx for at most d of the time in which this process itself ran, as a Clock counts it. A wait for an answer that it ends
// was a wait: a process that was stopped or starved blames nobody for that. The end is a cancellation, with no deadline to be seen.
func Within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	var mu sync.Mutex // guards the rest
	left, last := d, time.Now()
	var t *time.Timer
	mu.Lock()
	defer mu.Unlock()
	t = time.AfterFunc(min(left, tick), func() {
		mu.Lock()
		defer mu.Unlock()
		now := time.Now()
		left, last = left-counts(last, now), now
		switch {
		case ctx.Err() != nil:
		case left <= 0:
			cancel()
		default:
			t.Reset(min(left, tick))
		}
	})
	return ctx, func() { t.Stop(); cancel() }
}

// counts is how much of the time between two readings counts. Readings without monotonic time may jump either way: forward they count
// for two steps, backward for nothing.
func counts(last, now time.Time) time.Duration {
	return min(max(now.Sub(last), 0), 2*tick)
}
