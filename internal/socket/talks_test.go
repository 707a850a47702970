package socket

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// What was said is waited for, and a connection that another process holds open, too, for no longer than that.
func TestSettle(t *testing.T) {
	ours, theirs := pair(t)
	raw, err := ours.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := theirs.WriteString("bye"); err != nil {
		t.Fatal(err)
	}
	quietConn, itsEnd := pair(t)
	synctest.Test(t, func(t *testing.T) {
		var talks Talks[int]
		settles := func(whose int, bound time.Duration) time.Duration {
			begun := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), bound) // virtual
			defer cancel()
			talks.Settle(ctx, whose)
			return time.Since(begun)
		}
		if d := settles(7, time.Hour); d != 0 {
			t.Errorf("without a connection it took %v", d)
		}
		talk := talks.Begin(7, &heard{raw: raw})
		if d := settles(8, time.Hour); d != 0 {
			t.Errorf("another's was waited for, %v", d)
		}
		if d := settles(7, time.Minute); d != time.Minute {
			t.Errorf("what lies unread was waited for for %v only", d)
		}
		time.AfterFunc(10*time.Second, talk.End)
		if d := settles(7, time.Minute); d != 10*time.Second {
			t.Errorf("it settled %v after its end began, which took 10s", d)
		}
		if d := settles(7, time.Hour); d != 0 {
			t.Errorf("after its end it took %v", d)
		}
		raw, err := quietConn.SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		talk = talks.Begin(7, &heard{raw: raw})
		defer talk.End()
		if d := settles(7, time.Hour); d != quiet {
			t.Errorf("one that stays open was waited for for %v", d)
		}
		_ = itsEnd.Close()
		if d := settles(7, time.Minute); d != time.Minute {
			t.Errorf("the end of one that was closed was waited for for %v only", d)
		}
		talk.Hold(true)
		if d := settles(7, time.Hour); d != quiet {
			t.Errorf("one whose reader is held up was waited for for %v", d)
		}
	})
}
