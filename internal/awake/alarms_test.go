package awake

import (
	"testing"
	"testing/synctest"
	"time"
)

// A process that was stopped has not waited for anybody meanwhile. What the user has set ran on.
func TestAlarmsOfAProcessThatWasStopped(t *testing.T) {
	a := NewAlarms(2, 1)
	defer a.Stop()
	const bound = 3 * time.Second
	a.Set(0, bound)
	a.Set(1, bound)
	now := a.last.Add(time.Hour)
	a.Count(now)
	if !a.Rings(1) || a.Rings(0) || a.Rings(1) {
		t.Error("the timers of a process that was stopped are not told apart")
	}
	steps := 0
	for ; steps < 100 && !a.Rings(0); steps++ {
		now = now.Add(Tick)
		a.Count(now)
	}
	if most := int(bound / Tick); steps < most-3 || steps > most {
		t.Errorf("there were %d steps more, of %d", steps, most)
	}
}

// Timers ring at their time, each once, and not when they are unset.
func TestAlarmsRing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, begun := NewAlarms(3, 2), time.Now()
		defer a.Stop()
		for i, d := range []time.Duration{250 * time.Millisecond, 300 * time.Millisecond, 5 * time.Second} {
			a.Set(i, d)
		}
		a.Unset(1)
		rang := map[int]time.Duration{}
		for len(rang) < 2 {
			a.Count(<-a.C())
			for i := range 3 {
				if a.Rings(i) {
					rang[i] = time.Since(begun)
				}
			}
			a.Arm()
		}
		if len(rang) != 2 || rang[0] != 250*time.Millisecond || rang[2] != 5*time.Second {
			t.Errorf("they rang at %v", rang)
		}
	})
}
