package wire

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A clock's pace changes when it is looked at, and not what it says: nothing counts twice or is left out.
func TestClockKeepsItsTimeAtAnyPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, begun := NewClock(), time.Now()
		var looks atomic.Int32
		go c.Run(t.Context(), func() { looks.Add(1) })
		for _, tt := range []struct {
			step, lasts time.Duration
			looks       int32
		}{{Quick, time.Second, 10}, {Slow, 10 * time.Second, 10}, {Slow, 250 * time.Millisecond, 0}, {Quick, 300 * time.Millisecond, 3}, {Easy, time.Minute, 120}} {
			c.Pace(tt.step)
			looks.Store(0)
			time.Sleep(tt.lasts)
			synctest.Wait()
			if passed := time.Since(begun); c.Now() != passed || looks.Load() != tt.looks {
				t.Errorf("after %v in steps of %v it says %v, and %v have passed; %d looks, want %d", tt.lasts, tt.step, c.Now(), passed, looks.Load(), tt.looks)
			}
		}
	})
}
