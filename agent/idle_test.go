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
