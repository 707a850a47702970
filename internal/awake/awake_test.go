package awake

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// What leases and silence count when the clock of the machine jumps. Readings of time.Now have monotonic time beside the wall's, which
// does not jump; those of a clock that has none do.
func TestClockThatJumps(t *testing.T) {
	start := time.Date(2026, 11, 23, 8, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		name  string
		steps []time.Duration // from one reading to the next
		want  time.Duration
	}{
		{"as it should", []time.Duration{Tick, Tick, Tick}, 3 * Tick},
		{"a little late", []time.Duration{Tick, 150 * time.Millisecond}, 250 * time.Millisecond},
		{"an hour forward", []time.Duration{Tick, time.Hour, Tick}, 4 * Tick},
		{"a year forward", []time.Duration{365 * 24 * time.Hour}, 2 * Tick},
		{"an hour backward", []time.Duration{Tick, -time.Hour, Tick}, 2 * Tick},
		{"forward and back", []time.Duration{time.Hour, -time.Hour, Tick}, 3 * Tick},
		{"again and again", []time.Duration{time.Hour, -2 * time.Hour, time.Hour, -time.Hour, 0, Tick}, 5 * Tick},
	} {
		t.Run(tt.name, func(t *testing.T) {
			last, got := start, time.Duration(0)
			for _, step := range tt.steps {
				now := last.Add(step)
				d := Counts(last, now, Tick)
				if d < 0 || d > 2*Tick {
					t.Errorf("a step of %v counts %v", step, d)
				}
				got, last = got+d, now
			}
			if got != tt.want {
				t.Errorf("%v has passed, want %v", got, tt.want)
			}
		})
	}
}

func TestWithin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		ctx, cancel := Within(t.Context(), 250*time.Millisecond)
		defer cancel()
		<-ctx.Done()
		if d := time.Since(begun); d != 250*time.Millisecond {
			t.Errorf("took %v", d)
		}
		parent, end := context.WithCancel(t.Context())
		ctx, cancel = Within(parent, time.Hour)
		end()
		<-ctx.Done()
		cancel()
		if d := time.Since(begun); d != 250*time.Millisecond {
			t.Errorf("its parent's end came after %v", d)
		}
	})
}

// What holds a call is left behind when the time is over, and what came in time is taken.
func TestCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun, hangs := time.Now(), make(chan struct{})
		if got, in := Call(time.Second, func() int { return 7 }); got != 7 || !in {
			t.Errorf("in time: %d, %v", got, in)
		}
		if got, in := Call(time.Second, func() int { <-hangs; return 7 }); got != 0 || in || time.Since(begun) != time.Second {
			t.Errorf("late: %d, %v after %v", got, in, time.Since(begun))
		}
		close(hangs)
	})
}

// What does not answer keeps its turn: others are not asked meanwhile, and are again once it has.
func TestInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns, hangs := make(chan struct{}, 1), make(chan struct{})
		var asked atomic.Int32
		within := func(ask func() int) (int, bool) {
			ctx, cancel := Within(t.Context(), time.Second)
			defer cancel()
			return InTurn(ctx, turns, func() int { asked.Add(1); return ask() })
		}
		seven := func() int { return 7 }
		if got, in := within(seven); got != 7 || !in {
			t.Errorf("in time: %d, %v", got, in)
		}
		if got, in := within(func() int { <-hangs; return 7 }); got != 0 || in {
			t.Errorf("late: %d, %v", got, in)
		}
		begun := time.Now()
		if _, in := within(seven); in || asked.Load() != 2 || time.Since(begun) != time.Second {
			t.Errorf("a second one is asked, or not waited for: %v, %d asked, after %v", in, asked.Load(), time.Since(begun))
		}
		close(hangs)
		if got, in := within(seven); got != 7 || !in {
			t.Errorf("after the answer: %d, %v", got, in)
		}
		over, cancel := context.WithCancel(t.Context())
		cancel()
		if _, in := InTurn(over, turns, seven); in || asked.Load() != 3 {
			t.Errorf("asked when the time was over: %d", asked.Load())
		}
	})
}

// Who asks why a wait has ended is told whether its time was over.
func TestCauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		over, end := Within(t.Context(), Tick)
		defer end()
		own := errors.New("x")
		named, stop := WithinCause(t.Context(), Tick, own)
		defer stop()
		left, cancel := Within(t.Context(), time.Hour)
		cancel()
		<-over.Done()
		<-named.Done()
		if context.Cause(over) != context.DeadlineExceeded || context.Cause(named) != own || context.Cause(left) != context.Canceled {
			t.Errorf("%v, %v, %v", context.Cause(over), context.Cause(named), context.Cause(left))
		}
		if _, has := over.Deadline(); has {
			t.Error("a deadline shows, which gRPC would send to others")
		}
	})
}

// bounded notes the deadlines that it is given.
type bounded struct{ read, write []time.Time }

func (b *bounded) SetReadDeadline(at time.Time) error  { b.read = append(b.read, at); return nil }
func (b *bounded) SetWriteDeadline(at time.Time) error { b.write = append(b.write, at); return nil }

func TestUntil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bounded{}
		lift, written := Until(b.SetReadDeadline, Tick), Until(b.SetWriteDeadline, time.Hour)
		time.Sleep(2 * Tick) // virtual
		if err := errors.Join(lift(), written()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Hour) // virtual
		if len(b.read) != 2 || !b.read[0].Equal(time.Unix(1, 0)) || !b.read[1].IsZero() || len(b.write) != 1 || !b.write[0].IsZero() {
			t.Errorf("deadlines %v of reads, %v of writes", b.read, b.write)
		}
	})
}
