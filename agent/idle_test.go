package agent

import (
	"testing"
	"time"
)

func TestIdle(t *testing.T) {
	i := idle{after: 10 * time.Second}
	for _, step := range []struct {
		at       time.Duration
		launched bool
		sessions int
		over     bool
	}{
		{1, false, 0, false},
		{60, false, 0, false}, // the first job is waited for
		{61, true, 1, false},
		{90, false, 1, false}, // a long one
		{95, false, 0, false},
		{99, false, 0, false},
		{99, true, 1, false}, // another
		{108, false, 0, false},
		{109, false, 0, true},
	} {
		if step.launched {
			i.launched()
		}
		if got := i.over(step.at*time.Second, step.sessions); got != step.over {
			t.Errorf("at %d s with %d sessions: %v", step.at, step.sessions, got)
		}
	}
	var never idle
	never.launched()
	if never.over(time.Hour, 0) {
		t.Error("an agent without --idle-exit ends")
	}
}

// An agent rests once after its last session, however short that was, and not between those of a script.
func TestLull(t *testing.T) {
	rests := 0
	l := lull{tell: func() { rests++ }}
	for _, step := range []struct {
		at       time.Duration // ms
		ended    bool
		sessions int
		rests    int // so far
	}{
		{9000, false, 0, 0}, // nothing has been
		{10000, false, 1, 0},
		{20000, false, 1, 0},
		{20100, true, 0, 0},
		{21900, false, 0, 0},
		{22000, true, 0, 0}, // another, between two looks
		{23900, false, 0, 0},
		{24000, false, 0, 1},
		{90000, false, 0, 1},
		{90100, true, 1, 1}, // one has ended, another goes on
		{99000, false, 1, 1},
		{99100, true, 0, 1},
		{101100, false, 0, 2},
	} {
		if step.ended {
			l.ended(step.at * time.Millisecond)
		}
		if l.pass(step.at*time.Millisecond, step.sessions); rests != step.rests {
			t.Errorf("at %d ms with %d sessions: rested %d times, not %d", step.at, step.sessions, rests, step.rests)
		}
	}
	var nobody lull
	nobody.ended(0)
	nobody.pass(time.Minute, 0)
}
