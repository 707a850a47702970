package awake

import (
	"context"
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
