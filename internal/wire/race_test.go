package wire

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A stream may be replaced while it lives and carries, and what the ends told each other of
// what they received may be old by the time the new one runs.
func TestNothingLostOrDoubledOverReplacedStreams(t *testing.T) {
	const frames, replacements = 3000, 60
	ctx, cancel := context.WithCancel(context.Background())
	clock := NewClock()
	a, b := NewLink(clock), NewLink(clock)
	atA, atB := collect(frames), collect(frames)
	bound := time.After(2 * time.Minute)
	var wg sync.WaitGroup
	for _, l := range []*Link{a, b} {
		wg.Go(func() {
			for i := range frames {
				if err := l.Send(notice(fmt.Sprint(i))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for n := range replacements {
		gotA := a.Received()
		sa, sb, endA, endB := Pipe(ctx)
		gotB := b.Received()
		wg.Go(func() { b.Run(ctx, sb, gotA, atB.deliver); endB() })
		wg.Go(func() { a.Run(ctx, sa, gotB, atA.deliver); endA() })
		// A Run that begins after its successor would take the newer stream's place at one end
		// only, and both would end.
		until(t, bound, "both ends run the new stream", func() bool { return a.runs() > n && b.runs() > n })
		from := a.Received()
		until(t, bound, "the new stream carries", func() bool { return a.Received() >= min(from+20, frames) })
	}
	for _, c := range []*collector{atA, atB} {
		select {
		case <-c.done:
		case <-bound:
			t.Fatalf("%d frames of %d at a, %d at b", a.Received(), frames, b.Received())
		}
	}
	cancel()
	wg.Wait()
	a.Wait()
	b.Wait()
	for _, c := range []*collector{atA, atB} {
		for i, s := range c.got {
			if s != fmt.Sprint(i) {
				t.Fatalf("frame %d is %q", i, s)
			}
		}
	}
}

// runs is how many streams the link has run.
func (l *Link) runs() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.run
}

// until waits for something that other goroutines bring about.
func until(t *testing.T, bound <-chan time.Time, what string, holds func() bool) {
	t.Helper()
	for !holds() {
		select {
		case <-time.After(100 * time.Microsecond):
		case <-bound:
			t.Fatalf("not in time: %s", what)
		}
	}
}

// What is sent while there is no stream, or while the stream's pump waits, is carried without
// waiting for a heartbeat.
func TestNoFrameWaitsForAHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		clock := NewClock()
		a, b := NewLink(clock), NewLink(clock)
		a.heartbeat, b.heartbeat = time.Hour, time.Hour
		var wg sync.WaitGroup
		at := collect(-1)
		for n := range 20 {
			_ = a.Send(notice(fmt.Sprint(2 * n)))
			sa, sb, _, _ := Pipe(ctx)
			got := b.Received()
			wg.Go(func() { b.Run(ctx, sb, 0, at.deliver) })
			wg.Go(func() { a.Run(ctx, sa, got, at.deliver) })
			synctest.Wait()
			_ = a.Send(notice(fmt.Sprint(2*n + 1)))
			synctest.Wait()
			if len(at.got) != 2*n+2 {
				t.Fatalf("%d frames arrived, not %d", len(at.got), 2*n+2)
			}
		}
		cancel()
		wg.Wait()
		a.Wait()
		b.Wait()
	})
}
