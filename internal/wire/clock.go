package wire

import (
	"context"
	"sync"
	"time"

	"github.com/mpiup/mpiup/internal/awake"
)

// Clock counts time in which this process itself ran. A process that was stopped, starved or
// frozen with its machine sees only a step or two of that time, so it calls nobody dead because
// it slept itself. Readings are as coarse as its steps, but for those of a clock that goes slowly.
type Clock struct {
	wake chan struct{} // its pace has changed, capacity 1

	mu   sync.Mutex
	now  time.Duration // as of the last step, guarded by mu
	last time.Time     // of the last step; zero: it does not run, guarded by mu
	step time.Duration // guarded by mu
}

// Steps of a clock. Where nothing is timed that is short, long ones let a process sleep.
const (
	Quick = awake.Tick
	Easy  = 5 * Quick
	Slow  = 10 * Quick
)

// NewClock makes a Clock that stands at 0 until Run.
func NewClock() *Clock { return NewClockAt(0) }

// NewClockAt makes a Clock that stands at d, as if it had run for so long.
func NewClockAt(d time.Duration) *Clock {
	return &Clock{now: d, step: Quick, wake: make(chan struct{}, 1)}
}

// Now is the time run so far.
func (c *Clock) Now() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.step == Quick || c.last.IsZero() {
		return c.now
	}
	return c.now + awake.Counts(c.last, time.Now(), c.step)
}

// Pace sets the length of steps.
func (c *Clock) Pace(step time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if step == c.step {
		return
	}
	if !c.last.IsZero() {
		c.advance()
	}
	c.step = step
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// advance makes a step. mu is held. Monotonic time stands still while the machine is suspended, and runs on while the
// process is stopped. The bound of what counts is for a stopped process.
func (c *Clock) advance() {
	now := time.Now()
	c.now += awake.Counts(c.last, now, c.step)
	c.last = now
}

// Run drives the Clock until ctx ends, calling each (if not nil) after every step.
func (c *Clock) Run(ctx context.Context, each func()) {
	c.mu.Lock()
	c.last = time.Now()
	t := time.NewTicker(c.step)
	c.mu.Unlock()
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			c.mu.Lock()
			c.last = time.Time{}
			c.mu.Unlock()
			return
		case <-c.wake:
			c.mu.Lock()
			t.Reset(c.step)
			c.mu.Unlock()
			continue
		case <-t.C:
		}
		c.mu.Lock()
		c.advance()
		c.mu.Unlock()
		if each != nil {
			each()
		}
	}
}
