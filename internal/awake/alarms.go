package awake

import "time"

// Alarms are timers by number, of which the first that is due wakes whoever waits at C. One goroutine has them.
type Alarms struct {
	due   []time.Time // zero: it does not run
	plain []bool      // runs by the wall's clock
	next  *time.Timer
	last  time.Time // when it was counted
}

// NewAlarms makes n timers, of which plain ones run by the wall's clock: what a user has set, and looks now and then. Stop ends them.
func NewAlarms(n int, plain ...int) *Alarms {
	a := &Alarms{due: make([]time.Time, n), plain: make([]bool, n), next: time.NewTimer(time.Hour)}
	for _, i := range plain {
		a.plain[i] = true
	}
	return a
}

// C is where a wake-up comes: Count, then each that Rings, then Arm.
func (a *Alarms) C() <-chan time.Time { return a.next.C }

// Stop ends the wake-ups.
func (a *Alarms) Stop() { a.next.Stop() }

// Set lets timer i ring after d, whatever it had before.
func (a *Alarms) Set(i int, d time.Duration) {
	now := time.Now()
	a.Count(now)
	a.due[i] = now.Add(d)
	a.Arm()
}

// Unset ends timer i.
func (a *Alarms) Unset(i int) { a.due[i] = time.Time{} }

// Count puts off what is not plain by the time in which this process did not run.
func (a *Alarms) Count(now time.Time) {
	missed := now.Sub(a.last) - Counts(a.last, now, Tick)
	for i, due := range a.due {
		if missed > 0 && !due.IsZero() && !a.plain[i] {
			a.due[i] = due.Add(missed)
		}
	}
	a.last = now
}

// Arm sees to the next wake-up.
func (a *Alarms) Arm() {
	var first time.Time
	for i, due := range a.due {
		if step := a.last.Add(Tick); !due.IsZero() && !a.plain[i] && step.Before(due) {
			due = step
		}
		if first.IsZero() || !due.IsZero() && due.Before(first) {
			first = due
		}
	}
	if !first.IsZero() {
		a.next.Reset(time.Until(first))
	}
}

// Rings says that timer i is due as of the last Count, which it is no longer then.
func (a *Alarms) Rings(i int) bool {
	if a.due[i].IsZero() || a.last.Before(a.due[i]) {
		return false
	}
	a.due[i] = time.Time{}
	return true
}
