package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
)

func notice(text string) *apiv1.Frame {
	return (&apiv1.Notice{Text: text}).Frame()
}

// collector remembers the notices delivered to it.
type collector struct {
	mu   sync.Mutex
	got  []string
	want int
	done chan struct{}
}

func collect(want int) *collector { return &collector{want: want, done: make(chan struct{})} }

func (c *collector) deliver(f *apiv1.Frame) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.got = append(c.got, f.GetNotice().GetText())
	if len(c.got) == c.want {
		close(c.done)
	}
	return nil
}

// cutter breaks a stream after n frames were received through it.
type cutter struct {
	Stream
	n   int
	cut func()
}

func (c *cutter) Recv() (*apiv1.Frame, error) {
	if c.n == 0 {
		c.cut()
		return nil, io.ErrUnexpectedEOF
	}
	c.n--
	return c.Stream.Recv()
}

func TestNothingLostOrDoubledOverBrokenStreams(t *testing.T) {
	const frames = 2000
	rng := rand.New(rand.NewPCG(1, 2))
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	clock := NewClock()
	a, b := NewLink(clock), NewLink(clock)
	atA, atB := collect(frames), collect(frames)
	var senders sync.WaitGroup
	for _, l := range []*Link{a, b} {
		senders.Add(1)
		go func() {
			defer senders.Done()
			for i := range frames {
				if err := l.Send(notice(fmt.Sprint(i))); err != nil {
					t.Error(err)
				}
			}
		}()
	}
	var streams sync.WaitGroup
	both := make(chan struct{})
	go func() { <-atA.done; <-atB.done; close(both) }()
	cuts := 0
connections:
	for {
		sctx, end := context.WithCancel(ctx)
		sa, sb, endA, endB := Pipe(sctx)
		cut := func() { endA(); endB() }
		ca := &cutter{sa, rng.IntN(300), cut}
		cb := &cutter{sb, rng.IntN(300), cut}
		gotA, gotB := a.Received(), b.Received()
		broken := make(chan struct{}, 2)
		streams.Add(2)
		go func() { defer streams.Done(); a.Run(sctx, ca, gotB, atA.deliver); broken <- struct{}{} }()
		go func() { defer streams.Done(); b.Run(sctx, cb, gotA, atB.deliver); broken <- struct{}{} }()
		select {
		case <-broken:
			cuts++
			end()
			streams.Wait()
			a.Wait()
			b.Wait()
		case <-both:
			end()
			break connections
		case <-ctx.Done():
			t.Fatal("did not finish")
		}
	}
	senders.Wait()
	streams.Wait()
	a.Wait()
	b.Wait()
	if cuts < 3 {
		t.Errorf("only %d cuts happened", cuts)
	}
	for _, c := range []*collector{atA, atB} {
		for i, s := range c.got {
			if s != fmt.Sprint(i) {
				t.Fatalf("frame %d is %q", i, s)
			}
		}
	}
}

func TestHeartbeatsKeepALinkHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		clock := NewClock()
		a, b := NewLink(clock), NewLink(clock)
		sa, sb, _, endB := Pipe(ctx)
		var wg sync.WaitGroup
		wg.Go(func() { clock.Run(ctx, nil) })
		wg.Go(func() { a.Run(ctx, sa, 0, collect(-1).deliver) })
		wg.Go(func() { b.Run(ctx, sb, 0, collect(-1).deliver) })
		<-time.After(time.Minute)
		if s := a.Silent(); s > 3*time.Second {
			t.Errorf("silent for %v with a living peer", s)
		}
		endB()
		<-time.After(10 * time.Second)
		if s := a.Silent(); s < 8*time.Second {
			t.Errorf("silent for only %v after the peer went", s)
		}
		cancel()
		wg.Wait()
		a.Wait()
		b.Wait()
	})
}

func TestClockDoesNotCountSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		clock := NewClock()
		var wg sync.WaitGroup
		frozen := false
		wg.Go(func() {
			clock.Run(ctx, func() {
				if clock.Now() >= time.Second && !frozen {
					frozen = true
					<-time.After(time.Hour) // the process is stopped
				}
			})
		})
		<-time.After(time.Hour + 2*time.Second)
		if got := clock.Now(); got < time.Second || got > 3*time.Second {
			t.Errorf("the clock says %v after 2 s of running and an hour of sleep", got)
		}
		cancel()
		wg.Wait()
	})
}

func TestLinkRefusesNonsense(t *testing.T) {
	beat := func(seq, ack uint64) *apiv1.Frame {
		f := notice("x")
		f.Seq, f.Ack = seq, ack
		return f
	}
	for name, f := range map[string]*apiv1.Frame{
		"a gap":                  beat(2, 0),
		"an ack of nothing sent": beat(1, 5),
		"an unknown body":        {Seq: 1},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			l := NewLink(NewClock())
			mine, theirs, endMine, _ := Pipe(ctx)
			if err := theirs.Send(f); err != nil {
				t.Fatal(err)
			}
			err := l.Run(ctx, mine, 0, collect(-1).deliver)
			if err == nil || errors.Is(err, io.EOF) {
				t.Errorf("accepted: %v", err)
			}
			endMine()
			l.Wait()
		})
	}
	l := NewLink(NewClock())
	if err := l.Run(t.Context(), nil, 3, nil); err == nil {
		t.Error("accepted a peer that received more than was sent")
	}
}

func TestQueueIsBounded(t *testing.T) {
	l := NewLink(NewClock())
	l.maxQueued = 1000
	var err error
	for i := 0; err == nil && i < 100; i++ {
		err = l.Send(notice("0123456789012345678901234567890123456789"))
	}
	if !errors.Is(err, ErrFull) {
		t.Errorf("got %v", err)
	}
}

// A frame that the other side would refuse, and the stream with it, is refused here; the link goes on.
// Who sends what others make it send waits for the other side to take it.
func TestEase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLink(NewClock())
		for range 3 {
			if err := l.Send((&apiv1.Event{Data: make([]byte, 1000)}).Frame()); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := l.Ease(ctx, 2000); err == nil {
			t.Error("three frames are no more than two")
		}
		if err := l.Ease(t.Context(), 4000); err != nil {
			t.Error(err)
		}
		eased := make(chan error, 1)
		go func() { eased <- l.Ease(t.Context(), 2500) }()
		synctest.Wait()
		l.mu.Lock()
		l.forget(1)
		l.mu.Unlock()
		if err := <-eased; err != nil {
			t.Error(err)
		}
	})
}

func TestTooLargeAFrame(t *testing.T) {
	l := NewLink(NewClock())
	data := make([]byte, apiv1.MaxFrame)
	if err := l.Send((&apiv1.FenceEnter{Data: data}).Frame()); !errors.Is(err, ErrTooLarge) {
		t.Errorf("%v", err)
	}
	if err := l.Send(notice("small")); err != nil || l.Queued() != 1 {
		t.Errorf("%v, %d frames", err, l.Queued())
	}
}
