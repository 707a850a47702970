package session

import (
	"bytes"
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/identity"
	"github.com/mpiup/mpiup/internal/wire"
)

// stalled is a log that calls at with each record, as a disk that takes its time.
type stalled struct{ at func() }

func (s stalled) Enabled(context.Context, slog.Level) bool  { return true }
func (s stalled) Handle(context.Context, slog.Record) error { s.at(); return nil }
func (s stalled) WithAttrs([]slog.Attr) slog.Handler        { return s }
func (s stalled) WithGroup(string) slog.Handler             { return s }

// An agent whose machine stalls while it looks for its answer to an Open has kept the launcher waiting, and not the other way round.
func TestAgentThatStallsCallsNoLauncherSilent(t *testing.T) {
	var a *Table
	var once atomic.Bool
	late := func() {
		if once.Swap(true) {
			return
		}
		for _, s := range a.all() {
			for range 3 {
				s.tick(a.cfg.Clock.Now() + 2*defaultLease)
			}
		}
	}
	a, _ = tableOf(t, func(c *Config) { c.Log = slog.New(stalled{late}) })
	c := newClient(t, a, '1', "life-1")
	c.peer = &identity.Peer{Role: identity.RoleLauncher, Name: "launcher"}
	if o := c.dial(false); o.GetRefusal() != apiv1.Refusal_REFUSAL_NONE {
		t.Fatal(o)
	}
	for _, s := range a.all() {
		if s.over() {
			t.Error("the launcher is called silent before it had an answer")
		}
	}
	c.hangUp()
	eventually(t, "a closed stream's lease ends", func() bool { return a.Count() == 0 })
}

// The clock of an agent goes slowly while all that it times is the silence of launchers with long leases.
func TestStepsOfASessionsTime(t *testing.T) {
	for _, tt := range []struct {
		name    string
		session *session
		gathers bool
		step    time.Duration
	}{
		{"its launcher gathers hosts", &session{state: opened, streams: 1, lease: defaultLease}, true, wire.Slow},
		{"and has a short lease", &session{state: opened, streams: 1, lease: 2 * time.Second}, true, wire.Easy},
		{"its stream is closed", &session{state: opened, lease: defaultLease}, true, wire.Quick},
		{"what came is to be read first", &session{state: opened, streams: 1, lease: defaultLease, pendingTil: 1}, true, wire.Quick},
		{"its ranks run", &session{state: launched, streams: 1, lease: defaultLease}, false, wire.Easy},
		{"its ranks run, and its lease is short", &session{state: launched, streams: 1, lease: 2 * time.Second}, false, wire.Quick},
		{"it is held", &session{state: held, lease: defaultLease}, false, wire.Quick},
	} {
		if gathers, step := tt.session.gathers(); gathers != tt.gathers || step != tt.step {
			t.Errorf("%s: %v, %v", tt.name, gathers, step)
		}
	}
}

func TestFencedLauncherThatDoesNotReadHoldsNobodyUp(t *testing.T) {
	a := newTable(t)
	old := newClient(t, a, '1', "life-1")
	old.dial(false)
	old.launch(1, 1, "setsid sleep 1000 & sleep 1000")
	pid := old.pid()
	old.freeze()
	young := newClient(t, a, '2', "life-2")
	young.dial(false)
	begun := time.Now()
	young.launch(2, 1, "exit 0")
	young.until(started)
	if took := time.Since(begun); took > drainBound {
		t.Errorf("started after %v", took)
	}
	if alive(pid) {
		t.Error("the fenced rank lives")
	}
	eventually(t, "the fenced session is forgotten", func() bool { return a.Count() == 1 })
	if o := old.dial(true); o.Refusal != apiv1.Refusal_REFUSAL_FENCED {
		t.Errorf("the fenced launcher's resume is answered %v", o)
	}
	again := newClient(t, a, '3', "life-1")
	if o := again.dial(false); o.OwnNumber != 0 || o.HighestNumber != 2 {
		t.Errorf("a fenced incarnation is told %v", o)
	}
	again.launch(3, 1, "exit 0") // with a number above all
	frames := again.until(isClosed)
	if c := frames[len(frames)-1].GetClosed(); c.Refusal != apiv1.Refusal_REFUSAL_FENCED {
		t.Errorf("a fenced incarnation may start: %v", c)
	}
	young.until(outputEnd)
}

// A rank that has written more than its window holds leaves output that nobody will ever take.
func TestOutputOfALostLauncherHoldsNothingUp(t *testing.T) {
	a := newTable(t)
	c := newClient(t, a, '1', "life-1")
	c.dial(false)
	c.launch(1, 1, "yes")
	c.until(func(f *apiv1.Frame) bool { return f.GetOutput() != nil })
	c.hangUp()
	eventually(t, "the session is forgotten", func() bool { return a.Count() == 0 })
}

// freeze puts a stream that nobody reads in place of the present one.
func (c *client) freeze() {
	c.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	mine, theirs, _, endTheirs := wire.Pipe(ctx)
	c.wg.Go(func() { c.table.Attach(ctx, theirs, c.caller()); endTheirs() })
	o := &apiv1.Open{Protocol: apiv1.Protocol, Session: c.open.Session, Secret: bytes.Clone(c.open.Secret),
		Incarnation: c.open.Incarnation, Resume: true, Received: c.link.Received()}
	if err := mine.Send(o.Frame()); err != nil {
		c.t.Fatal(err)
	}
	if _, err := mine.Recv(); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(cancel)
}
