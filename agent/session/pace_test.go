package session

import (
	"slices"
	"testing"
	"time"
)

func TestHasteLastsAWhileAfterTheLastBegin(t *testing.T) {
	var said []bool
	p := pace{hasten: func(on bool) { said = append(said, on) }}
	p.pass(0, 0, false)
	p.begins(time.Second)
	p.begins(5 * time.Second)
	p.pass(14*time.Second, 1, false)
	if want := []bool{true}; !slices.Equal(said, want) {
		t.Fatalf("before its end %v, want %v", said, want)
	}
	p.pass(15*time.Second, 1, false)
	p.pass(16*time.Second, 1, false)
	p.begins(20 * time.Second)
	if want := []bool{true, false, true}; !slices.Equal(said, want) {
		t.Fatalf("after its end and another begin %v, want %v", said, want)
	}
}

func TestIdle(t *testing.T) {
	i := pace{idleExit: 10 * time.Second}
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
		if got := i.pass(step.at*time.Second, step.sessions, false); got != step.over {
			t.Errorf("at %d s with %d sessions: %v", step.at, step.sessions, got)
		}
	}
	var never pace
	never.launched()
	if never.pass(time.Hour, 0, false) {
		t.Error("an agent without --idle-exit ends")
	}
}

// An agent rests once after its last session, however short that was, and not between those of a script.
func TestLull(t *testing.T) {
	rests := 0
	l := pace{rest: func() { rests++ }}
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
		if l.pass(step.at*time.Millisecond, step.sessions, false); rests != step.rests {
			t.Errorf("at %d ms with %d sessions: rested %d times, not %d", step.at, step.sessions, rests, step.rests)
		}
	}
	var nobody pace
	nobody.begins(0)
	nobody.ended(0)
	nobody.pass(time.Minute, 0, false)
}
