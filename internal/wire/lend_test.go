package wire

import (
	"context"
	"testing"
	"testing/synctest"
)

// Memory comes back once the other side has the frame, but not that of a frame which a broken
// stream may still hold.
func TestLentMemoryComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		clock := NewClock()
		a, b := NewLink(clock), NewLink(clock)
		back := map[string]bool{}
		lend := func(text string) {
			if err := a.Lend(notice(text), func() { back[text] = true }); err != nil {
				t.Fatal(err)
			}
		}
		lend("before")
		first, end := context.WithCancel(ctx)
		sa, _, endA, _ := Pipe(first)
		go a.Run(first, sa, 0, collect(-1).deliver)
		synctest.Wait() // it was sent, and nobody read it
		end()
		endA()
		a.Wait()

		second, end := context.WithCancel(ctx)
		sa, sb, _, _ := Pipe(second)
		go a.Run(second, sa, b.Received(), collect(-1).deliver)
		go b.Run(second, sb, a.Received(), collect(-1).deliver)
		synctest.Wait()
		lend("after")
		if back["after"] {
			t.Error("memory came back before the frame was acknowledged")
		}
		synctest.Wait()
		for range ackFrames { // until b acknowledges
			if err := a.Send(notice("more")); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		if !back["after"] {
			t.Error("memory of an acknowledged frame did not come back")
		}
		if back["before"] {
			t.Error("memory came back that a broken stream may still read")
		}
		end()
		a.Wait()
		b.Wait()
	})
}
