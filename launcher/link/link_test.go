package link

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/socket"
	"github.com/mpiup/mpiup/internal/wire"
	"github.com/mpiup/mpiup/launcher/run/model"
)

// fakeAgent is the other end of one session, over pipes that a test breaks.
type fakeAgent struct {
	t    *testing.T
	link *wire.Link
	wg   sync.WaitGroup

	mu       sync.Mutex
	inc      string // guarded by mu
	fail     error  // what an attempt gets, guarded by mu
	hang     bool   // attempts get no answer, guarded by mu
	broke    *Cause // of a stream that breaks; nil: what the stream says, guarded by mu
	attempts int    // guarded by mu
	cut      func() // closes the current stream, guarded by mu
	reset    func() // does so even where it is mute, guarded by mu
	mute     chan struct{}
	got      []uint64      // signal numbers received, guarded by mu
	peer     socket.Peer   // what the kernel tells of it, guarded by mu
	late     time.Duration // that an attempt takes, guarded by mu
}

// muted is a stream whose bytes are held back from when mute is closed: no data, no end.
type muted struct {
	wire.Stream
	ctx  context.Context
	mute <-chan struct{}
	end  <-chan struct{} // closed by a reset, which is not held back
}

func (m muted) Recv() (*apiv1.Frame, error) {
	f, err := m.Stream.Recv()
	select {
	case <-m.mute:
		select {
		case <-m.ctx.Done():
			return nil, m.ctx.Err()
		case <-m.end:
			return nil, errors.New("connection reset by peer")
		}
	default:
		return f, err
	}
}

func (a *fakeAgent) attach(ctx, life context.Context, addr netip.AddrPort, open *apiv1.Open) (*Session, error) {
	a.mu.Lock()
	a.attempts++
	hang, fail, inc, late := a.hang, a.fail, a.inc, a.late
	a.mu.Unlock()
	if hang {
		<-ctx.Done()
		return nil, Causef(StageConnect, "no answer")
	}
	if fail != nil {
		return nil, fail
	}
	sctx, cancel := context.WithCancel(life)
	mine, theirs, endMine, endTheirs := wire.Pipe(sctx)
	mute, end := make(chan struct{}), make(chan struct{})
	a.mu.Lock()
	a.cut, a.mute = endTheirs, mute
	a.reset = func() { close(end); endTheirs() }
	a.mu.Unlock()
	received := a.link.Received()
	a.wg.Go(func() {
		defer endTheirs()
		_ = a.link.Run(sctx, theirs, open.Received, func(f *apiv1.Frame) error {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.got = append(a.got, uint64(f.GetSignal().GetNumber()))
			return nil
		})
	})
	select { // it has taken over, and its answer may come late
	case <-time.After(late):
	case <-ctx.Done():
		endMine()
		cancel()
		return nil, Causef(StageConnect, "no answer in time")
	}
	return &Session{
		Stream: muted{mine, sctx, mute, end}, Addr: addr, Open: open,
		Opened: &apiv1.Opened{Received: received, Host: &apiv1.HelloReply{Incarnation: inc}},
		Close:  func() { endMine(); cancel() },
		Explain: func(err error) *Cause {
			a.mu.Lock()
			defer a.mu.Unlock()
			if a.broke != nil {
				return a.broke
			}
			return AsCause(err)
		},
		Peer: func() socket.Peer { a.mu.Lock(); defer a.mu.Unlock(); return a.peer },
	}, nil
}

func (a *fakeAgent) set(f func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f()
}

func (a *fakeAgent) signals() []uint64 { a.mu.Lock(); defer a.mu.Unlock(); return a.got }

func (a *fakeAgent) tried() int { a.mu.Lock(); defer a.mu.Unlock(); return a.attempts }

// withHost runs f beside a host connection to a fake agent; lost is what the connection ends
// with after f.
func withHost(t *testing.T, f func(a *fakeAgent, h *Conn, got func() []uint64)) (lost *model.Lost) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		clock := wire.NewClock()
		var wg sync.WaitGroup
		a := &fakeAgent{t: t, inc: "one", link: wire.NewLink(clock)}
		var mu sync.Mutex
		var got []uint64
		h := New(Config{Name: "w0", Attach: a.attach, Timeout: 30 * time.Second, Clock: clock,
			Deliver: func(f *apiv1.Frame) error {
				mu.Lock()
				defer mu.Unlock()
				got = append(got, uint64(f.GetStarted().GetRank()))
				return nil
			}})
		h.First, _ = a.attach(ctx, ctx, netip.AddrPort{}, &apiv1.Open{Session: "s"})
		wg.Go(func() {
			clock.Run(ctx, h.Tick)
		})
		done := make(chan *model.Lost, 1)
		wg.Go(func() { done <- h.Run(ctx) })
		f(a, h, func() []uint64 { mu.Lock(); defer mu.Unlock(); return got })
		synctest.Wait()
		select {
		case lost = <-done:
		default:
			cancel()
			lost = <-done
		}
		cancel()
		wg.Wait()
		a.link.Wait()
		a.wg.Wait()
	})
	return lost
}

func started(n int) *apiv1.Frame {
	return (&apiv1.Started{Rank: uint32(n), Pid: int32(10 + n)}).Frame()
}

func TestBrokenStreamIsResumed(t *testing.T) {
	err := withHost(t, func(a *fakeAgent, h *Conn, got func() []uint64) {
		const n = 200
		for i := range n {
			_ = a.link.Send(started(i))
			h.Send((&apiv1.Signal{Number: int32(i)}).Frame())
			if i%20 == 10 {
				a.set(func() { a.cut() })
			}
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Second)
		for name, list := range map[string][]uint64{"launcher": got(), "agent": a.signals()} {
			if len(list) != n {
				t.Fatalf("%s got %d frames, want %d", name, len(list), n)
			}
			for i, v := range list {
				if v != uint64(i) {
					t.Fatalf("%s: frame %d is number %d", name, i, v)
				}
			}
		}
	})
	if err != nil {
		t.Errorf("lost: %v", err)
	}
}

func TestHostIsGivenUp(t *testing.T) {
	refused := &Cause{Stage: StageConnect, Refused: true, Err: errors.New("connection refused")}
	stranger := &Cause{Stage: StageConnect, Stranger: true, Err: errors.New("does not know this session")}
	fenced := Causef(StageFenced, "a newer launcher")
	unfit := &Cause{Stage: StageConnect, Unfit: true, Err: errors.New("field Notice.text: no UTF-8")}
	for _, tt := range []struct {
		name   string
		breaks func(a *fakeAgent)
		after  time.Duration // at the latest
		early  time.Duration // not before
		says   string
		fenced bool
	}{
		{name: "closed and refused", breaks: func(a *fakeAgent) { a.fail = refused; a.cut() }, after: 10 * time.Millisecond, says: "gone"},
		{name: "closed and unknown", breaks: func(a *fakeAgent) { a.fail = stranger; a.cut() }, after: 10 * time.Millisecond, says: "restarted"},
		{name: "closed and another incarnation", breaks: func(a *fakeAgent) { a.inc = "two"; a.cut() }, after: 10 * time.Millisecond, says: "another incarnation"},
		{name: "closed and fenced", breaks: func(a *fakeAgent) { a.fail = fenced; a.cut() }, after: 10 * time.Millisecond, says: "newer launcher", fenced: true},
		{name: "closed over a frame that nobody can carry", breaks: func(a *fakeAgent) { a.broke = unfit; a.cut() }, after: time.Millisecond, says: "field Notice.text"},
		{name: "closed, and the next connection too", breaks: func(a *fakeAgent) { a.fail = unfit; a.cut() }, after: 10 * time.Millisecond, says: "field Notice.text"},
		{name: "closed and out of reach", breaks: func(a *fakeAgent) { a.fail = Causef(StageConnect, "no route"); a.cut() },
			early: 29 * time.Second, after: 32 * time.Second, says: "no route"},
		{name: "silent", breaks: func(a *fakeAgent) { a.hang = true; close(a.mute) }, early: 29 * time.Second, after: 32 * time.Second, says: "nothing was heard from it for 30s"},
		{name: "silent, and its kernel answers", breaks: func(a *fakeAgent) { a.hang, a.peer.All = true, true; close(a.mute) },
			early: 29 * time.Second, after: 32 * time.Second, says: "for 30s (--node-timeout), though its kernel, or a proxy before it, acknowledges what is sent there: its agent is stopped, or starved of CPU"},
		{name: "silent, and its kernel has not answered for long", breaks: func(a *fakeAgent) {
			a.hang, a.peer.All, a.peer.Since = true, true, 16*time.Second
			close(a.mute)
		}, early: 29 * time.Second, after: 32 * time.Second, says: "for 30s (--node-timeout)"},
		{name: "silent, and what it said is never read", breaks: func(a *fakeAgent) { a.hang, a.peer.Unread = true, 1; close(a.mute) },
			early: 39 * time.Second, after: 42 * time.Second, says: "for 30s (--node-timeout)"},
		{name: "silent, and fenced", breaks: func(a *fakeAgent) { a.fail = fenced; close(a.mute) }, early: 9 * time.Second, after: 12 * time.Second, says: "newer launcher", fenced: true},
		{name: "silent, and another incarnation answers", breaks: func(a *fakeAgent) { a.fail = stranger; close(a.mute) }, early: 9 * time.Second, after: 12 * time.Second, says: "restarted"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			lost := withHost(t, func(a *fakeAgent, h *Conn, _ func() []uint64) {
				time.Sleep(time.Second)
				a.set(func() { tt.breaks(a) })
				if tt.early > 0 {
					time.Sleep(tt.early)
					if h.link.Silent() == 0 {
						t.Error("given up too early")
					}
				}
				time.Sleep(tt.after - tt.early)
			})
			if lost == nil {
				t.Fatal("it is not lost")
			}
			if !strings.Contains(lost.Why, tt.says) || lost.Fenced != tt.fenced {
				t.Errorf("%q (fenced %v) does not say %q", lost.Why, lost.Fenced, tt.says)
			}
			if lost.Since > 2*time.Second {
				t.Errorf("heard last at %v, but it broke at 1s", lost.Since)
			}
		})
	}
}

func TestStalledPathIsReplaced(t *testing.T) {
	err := withHost(t, func(a *fakeAgent, h *Conn, got func() []uint64) {
		_ = a.link.Send(started(0))
		time.Sleep(time.Second)
		a.set(func() { close(a.mute) })
		_ = a.link.Send(started(1)) // is held back
		time.Sleep(2 * time.Minute)
		if l := got(); len(l) != 2 || l[1] != 1 {
			t.Errorf("got %v", l)
		}
		if n := a.tried(); n != 2 {
			t.Errorf("%d connections, want 2", n)
		}
	})
	if err != nil {
		t.Errorf("lost: %v", err)
	}
}

func TestShortOutageIsNoLoss(t *testing.T) {
	err := withHost(t, func(a *fakeAgent, h *Conn, got func() []uint64) {
		a.set(func() { a.fail = Causef(StageConnect, "no route"); a.cut() })
		time.Sleep(10 * time.Second)
		a.set(func() { a.fail = nil })
		_ = a.link.Send(started(7))
		time.Sleep(time.Second)
		if l := got(); len(l) != 1 {
			t.Errorf("got %v", l)
		}
	})
	if err != nil {
		t.Errorf("lost: %v", err)
	}
}

func TestBreakingAgainAndAgainEnds(t *testing.T) {
	err := withHost(t, func(a *fakeAgent, h *Conn, got func() []uint64) {
		for range 30 * maxFruitless {
			a.set(func() { a.cut() })
			time.Sleep(10 * time.Millisecond)
		}
	})
	if err == nil || !strings.Contains(err.Why, "without a frame") {
		t.Errorf("ended with %v", err)
	}
}

func TestBreakingNowAndThenIsNoLoss(t *testing.T) {
	err := withHost(t, func(a *fakeAgent, h *Conn, got func() []uint64) {
		for range 3 * maxFruitless { // as by a gateway that forgets connections; the ranks are silent
			time.Sleep(time.Minute)
			a.set(func() { a.cut() })
		}
		time.Sleep(time.Second)
	})
	if err != nil {
		t.Errorf("lost: %v", err)
	}
}

func TestBrokenStreamDoesNotWaitForASecondThatHangs(t *testing.T) {
	err := withHost(t, func(a *fakeAgent, h *Conn, got func() []uint64) {
		time.Sleep(time.Second)
		a.set(func() { a.hang = true; close(a.mute) })
		time.Sleep(11 * time.Second) // the second connection is under way
		if n := a.tried(); n != 2 {
			t.Fatalf("%d connections, want 2", n)
		}
		a.set(func() { a.hang = false; a.reset() })
		_ = a.link.Send(started(7))
		time.Sleep(500 * time.Millisecond) // an agent keeps ranks for 1 s
		if l := got(); len(l) != 1 {
			t.Errorf("got %v", l)
		}
	})
	if err != nil {
		t.Errorf("lost: %v", err)
	}
}

// An agent that gets little CPU takes a second connection up late, drops the first for it, and its answer takes its time: it is awaited,
// and no third connection made.
func TestSecondConnectionOfAStarvedAgent(t *testing.T) {
	err := withHost(t, func(a *fakeAgent, h *Conn, got func() []uint64) {
		explain := h.First.Explain
		h.First.Explain = func(err error) *Cause {
			c := explain(err)
			c.Replaced = true
			return c
		}
		time.Sleep(time.Second)
		var reset func()
		a.set(func() { a.late, reset = 15*time.Second, a.reset; close(a.mute) })
		time.Sleep(11 * time.Second)
		reset() // as an agent ends a stream that another has replaced
		time.Sleep(20 * time.Second)
		_ = a.link.Send(started(7))
		time.Sleep(time.Second)
		if l := got(); len(l) != 1 || a.tried() != 2 {
			t.Errorf("got %v over %d connections", l, a.tried())
		}
	})
	if err != nil {
		t.Errorf("lost: %v", err)
	}
}

func TestClosedSessionIsNoLoss(t *testing.T) {
	err := withHost(t, func(a *fakeAgent, h *Conn, _ func() []uint64) {
		h.Finish()
		a.set(func() { a.cut() })
		time.Sleep(time.Second)
		if a.tried() != 1 {
			t.Error("redialled")
		}
	})
	if err != nil {
		t.Errorf("ended with %v", err)
	}
}

// A session that is resumed while the run ends is closed as every other one is.
func TestSessionsAreClosedAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		opened, open := 0, 0
		attach := func(context.Context, context.Context, netip.AddrPort, *apiv1.Open) (*Session, error) {
			stream := make(told, 1)
			if opened++; opened == 1 {
				stream <- errors.New("reset")
			} else {
				end()
			}
			open++
			return &Session{Stream: stream, Open: &apiv1.Open{}, Opened: &apiv1.Opened{Host: &apiv1.HelloReply{Incarnation: "one"}},
				Close: func() { open--; close(stream) }, Explain: AsCause}, nil
		}
		first, err := attach(ctx, ctx, netip.AddrPort{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		h := New(Config{Name: "w0", First: first, Attach: attach, Timeout: time.Second, Clock: wire.NewClock()})
		if lost := h.Run(ctx); lost != nil || opened != 2 || open != 0 {
			t.Errorf("of %d sessions %d are open (%v)", opened, open, lost)
		}
	})
}
