package session

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mpiup/mpiup/agent/host"
	"github.com/mpiup/mpiup/agent/member"
	"github.com/mpiup/mpiup/agent/metrics"
	"github.com/mpiup/mpiup/agent/mpilib"
	"github.com/mpiup/mpiup/agent/outfit"
	"github.com/mpiup/mpiup/agent/policy"
	"github.com/mpiup/mpiup/agent/ranks"
	"github.com/mpiup/mpiup/agent/reap"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/identity"
	"github.com/mpiup/mpiup/internal/wire"
	"github.com/mpiup/mpiup/test/lab"
	"github.com/mpiup/mpiup/topology/discover"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testBound is far beyond what anything here takes.
const testBound = 30 * time.Second

// newTable is sessions in this process, which end with the test.
func newTable(t *testing.T) *Table {
	t.Helper()
	table, _ := tableOf(t, nil)
	return table
}

// tableWith is newTable with a log and a policy.
func tableWith(t *testing.T, log *slog.Logger, rules *policy.Policy) *Table {
	t.Helper()
	table, _ := tableOf(t, func(c *Config) { c.Log, c.Policy = log, rules })
	return table
}

// tableOf is newTable with a Config that change has changed, and what ends it as an agent that ends does.
func tableOf(t *testing.T, change func(*Config)) (table *Table, end func(why error)) {
	t.Helper()
	log, env := slog.New(slog.DiscardHandler), []string{"PATH=/usr/bin:/bin", "HOST_VAR=1"}
	ending, stop := context.WithCancelCause(context.Background())
	super := reap.New(reap.Config{Log: log, Subreaper: true})
	c := Config{Version: "test", Log: log, Clock: wire.NewClock(), Grace: 5 * time.Second, Ending: ending,
		Hello:  func() *apiv1.HelloReply { return &apiv1.HelloReply{Name: "w0", Slots: 2} },
		Gossip: func() *member.Gossip { return nil }, Settle: func(net.Addr) {}, Left: func(net.Addr) bool { return false }, Unread: func(bool) bool { return false },
		Config: ranks.Config{Name: "w0", Env: env, Dir: "/", Embedded: true, Inventory: discover.Inventory{CPUs: 2}, Super: super,
			Host: host.New(host.Config{Env: env, Log: log}), Libs: mpilib.NewMemory(os.DirFS("/")), Metrics: metrics.New(metrics.Config{})}}
	if change != nil {
		change(&c)
	}
	table = New(c)
	ctx, cancel := context.WithCancel(context.Background())
	var clock sync.WaitGroup
	clock.Go(func() { c.Clock.Run(ctx, func() { table.Tick() }) })
	done := make(chan error, 1)
	go func() { done <- super.Run(ctx) }()
	t.Cleanup(func() {
		stop(errors.New("the test ends"))
		late := time.AfterFunc(testBound, func() { panic("the sessions do not end") })
		defer late.Stop()
		table.Wait()
		cancel()
		clock.Wait()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return table, stop
}

// parsed is a launch that nothing is wrong with.
func parsed(m *apiv1.Launch) *outfit.Launch {
	l, err := outfit.Parse(m)
	if err != nil {
		panic(err)
	}
	return l
}

// client plays a launcher process.
type client struct {
	t      *testing.T
	table  *Table
	name   string
	peer   *identity.Peer // whom the network names; nil: this process
	open   *apiv1.Open
	clock  *wire.Clock
	link   *wire.Link
	wg     sync.WaitGroup
	frames chan *apiv1.Frame

	mu  sync.Mutex
	cut context.CancelFunc // ends the current stream, guarded by mu
}

func newClient(t *testing.T, a *Table, session byte, incarnation string) *client {
	t.Helper()
	clock := wire.NewClock()
	c := &client{t: t, table: a, name: "launcher", clock: clock,
		link:   wire.NewLink(clock),
		frames: make(chan *apiv1.Frame, 1<<16),
		open: &apiv1.Open{Protocol: apiv1.Protocol, Version: "test", Session: strings.Repeat(string([]byte{'a', session}), 16),
			Secret: bytes.Repeat([]byte{session}, 16), Incarnation: incarnation, Sandbox: "pod of " + incarnation,
			LeaseMs: 60_000, Launcher: "launcher"}}
	t.Cleanup(func() { c.hangUp(); c.wg.Wait(); c.link.Wait() })
	return c
}

// dial opens or resumes the session and returns the answer.
func (c *client) dial(resume bool) *apiv1.Opened {
	c.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	mine, theirs, endMine, endTheirs := wire.Pipe(ctx)
	c.wg.Go(func() { c.table.Attach(ctx, theirs, c.caller()); endTheirs() })
	o := &apiv1.Open{Protocol: c.open.Protocol, Version: c.open.Version, Session: c.open.Session, Secret: c.open.Secret,
		Incarnation: c.open.Incarnation, LeaseMs: c.open.LeaseMs, Launcher: c.open.Launcher, Sandbox: c.open.Sandbox, Namespace: c.open.Namespace, Pod: c.open.Pod,
		OnLoss: c.open.OnLoss, HoldMs: c.open.HoldMs, Adopt: c.open.Adopt, Command: c.open.Command,
		Resume: resume, Received: c.link.Received()}
	if err := mine.Send(o.Frame()); err != nil {
		c.t.Fatal(err)
	}
	f, err := mine.Recv()
	if err != nil {
		c.t.Fatal(err)
	}
	opened := f.GetOpened()
	if opened.GetRefusal() != apiv1.Refusal_REFUSAL_NONE {
		cancel()
		return opened
	}
	c.mu.Lock()
	c.cut = func() { endMine(); cancel() }
	c.mu.Unlock()
	c.wg.Go(func() {
		c.link.Run(ctx, mine, opened.Received, func(f *apiv1.Frame) error { c.frames <- f; return nil })
	})
	return opened
}

func (c *client) caller() Caller {
	return Caller{Name: c.name, Peer: c.peer, From: &net.TCPAddr{IP: net.IPv4(10, 1, 2, 3), Port: 40000}}
}

func (c *client) hangUp() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cut != nil {
		c.cut()
	}
}

func (c *client) launch(number uint64, n int, script string) {
	c.t.Helper()
	l := &apiv1.Launch{Job: &apiv1.Job{Id: "job", Size: uint32(n), Universe: uint32(n), Hosts: 1, Window: 64 << 10, GraceMs: 2000}, Number: number, Apps: []*apiv1.App{{Argv: []string{"sh", "-c", script}, Env: []string{"USER_VAR=2"}}}}
	for r := range n {
		l.Procs = append(l.Procs, &apiv1.Proc{Rank: uint32(r), LocalRank: uint32(r)})
	}
	l.Stdin = []uint32{0}
	c.send(l.Frame())
}

func (c *client) send(f *apiv1.Frame) {
	c.t.Helper()
	if err := c.link.Send(f); err != nil {
		c.t.Fatal(err)
	}
}

// until collects frames until one satisfies done, granting credit for output as it comes.
func (c *client) until(done func(*apiv1.Frame) bool) (seen []*apiv1.Frame) {
	c.t.Helper()
	bound := time.After(testBound)
	for {
		select {
		case f := <-c.frames:
			seen = append(seen, f)
			if o := f.GetOutput(); o != nil {
				c.send((&apiv1.Credit{Rank: o.Rank, Bytes: uint32(len(o.Data))}).Frame())
			}
			if done(f) {
				return seen
			}
		case <-bound:
			c.t.Fatalf("waited in vain; seen %v", seen)
		}
	}
}

// pid waits for the start of the next process, which is told after what its program speaks.
func (c *client) pid() int32 {
	c.t.Helper()
	seen := c.until(started)
	return seen[len(seen)-1].GetStarted().Pid
}

func started(f *apiv1.Frame) bool   { return f.GetStarted() != nil }
func exited(f *apiv1.Frame) bool    { return f.GetExited() != nil }
func outputEnd(f *apiv1.Frame) bool { return f.GetOutputEnd() != nil }
func isClosed(f *apiv1.Frame) bool  { return f.GetClosed() != nil }

func stdout(frames []*apiv1.Frame) string {
	var b strings.Builder
	for _, f := range frames {
		if o := f.GetOutput(); o != nil && o.Stream == apiv1.Stream_STDOUT {
			b.Write(o.Data)
		}
	}
	return b.String()
}

func exitOf(frames []*apiv1.Frame) *apiv1.Exited {
	for _, f := range frames {
		if x := f.GetExited(); x != nil {
			return x
		}
	}
	return nil
}

// alive tells whether a process exists and is not a zombie.
func alive(pid int32) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(int(pid)) + "/stat")
	if err != nil {
		return false
	}
	i := bytes.LastIndexByte(b, ')')
	return i > 0 && b[i+2] != 'Z'
}

// eventually waits for what the agent or a rank does.
var eventually = lab.Eventually

func TestProcessLifecycle(t *testing.T) {
	c := newClient(t, newTable(t), '1', "life-1")
	if o := c.dial(false); o.Host.Name != "w0" || o.Host.Slots != 2 || o.OwnNumber != 0 {
		t.Errorf("opened: %v", o)
	}
	c.launch(1, 1, `echo "$MPIUP_RANK/$MPIUP_SIZE $HOST_VAR$USER_VAR $PMI_FD"; read line; echo "got $line"; exit 7`)
	c.until(started)
	c.send((&apiv1.Input{Data: []byte("hello\n")}).Frame())
	seen := c.until(outputEnd)
	if got := stdout(seen); got != "0/1 12 3\ngot hello\n" {
		t.Errorf("output %q", got)
	}
	if x := exitOf(seen); x == nil || x.Code != 7 || x.StoppedByUs || x.Pmi != apiv1.PmiState_PMI_NEVER {
		t.Errorf("exit %v", x)
	}
	c.send((&apiv1.Bye{}).Frame())
	c.until(isClosed)
	c.hangUp()
	eventually(t, "the session is forgotten", func() bool { return c.table.Count() == 0 })
}

func TestBrokenConnectionIsResumedWithoutLoss(t *testing.T) {
	c := newClient(t, newTable(t), '1', "life-1")
	c.dial(false)
	const lines = 20000
	c.launch(1, 1, `i=0; while [ $i -lt 20000 ]; do echo $i; i=$((i+1)); done`)
	var seen []*apiv1.Frame
	cuts := 0
	for {
		n := 0
		part := c.until(func(f *apiv1.Frame) bool { n++; return outputEnd(f) || n == 5 })
		seen = append(seen, part...)
		if outputEnd(seen[len(seen)-1]) {
			break
		}
		c.hangUp()
		if o := c.dial(true); o.Refusal != apiv1.Refusal_REFUSAL_NONE {
			t.Fatalf("resume refused: %v", o)
		}
		cuts++
	}
	got := strings.Fields(stdout(seen))
	if len(got) != lines {
		t.Fatalf("%d lines after %d cuts", len(got), cuts)
	}
	for i, l := range got {
		if l != strconv.Itoa(i) {
			t.Fatalf("line %d is %q", i, l)
		}
	}
	if cuts == 0 {
		t.Error("nothing was cut")
	}
}

func TestLostLauncher(t *testing.T) {
	for _, tt := range []struct {
		name   string
		lease  uint64 // ms
		lose   func(*client)
		within time.Duration
		least  time.Duration
	}{
		{"closed", 60_000, func(c *client) { c.hangUp() }, 15 * time.Second, closedLease},
		{"silent", 1_500, func(c *client) { c.mute() }, 15 * time.Second, 1500 * time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newClient(t, newTable(t), '1', "life-1")
			c.open.LeaseMs = tt.lease
			c.dial(false)
			// A rank, and a grandchild in a session of its own.
			c.launch(1, 1, `setsid sleep 1000 & echo $!; sleep 1000`)
			seen := c.until(func(f *apiv1.Frame) bool { return f.GetOutput() != nil })
			var rank int32
			for _, f := range seen {
				if s := f.GetStarted(); s != nil {
					rank = s.Pid
				}
			}
			begun := time.Now()
			tt.lose(c)
			eventually(t, "the rank ends", func() bool { return !alive(rank) })
			if took := time.Since(begun); took < tt.least || took > tt.within {
				t.Errorf("ended after %v", took)
			}
			eventually(t, "the session is forgotten", func() bool { return c.table.Count() == 0 })
			if o := c.dial(true); o.Refusal != apiv1.Refusal_REFUSAL_UNKNOWN_SESSION {
				t.Errorf("resume of a lost session: %v", o)
			}
		})
	}
}

// mute makes the launcher's side say nothing more, while the stream stays open.
func (c *client) mute() {
	ctx, cancel := context.WithCancel(context.Background())
	mine, theirs, _, endTheirs := wire.Pipe(ctx)
	c.wg.Go(func() { c.table.Attach(ctx, theirs, c.caller()); endTheirs() })
	mine.Send((&apiv1.Open{Protocol: apiv1.Protocol, Session: c.open.Session,
		Secret: c.open.Secret, Incarnation: c.open.Incarnation, Resume: true, Received: c.link.Received()}).Frame())
	if _, err := mine.Recv(); err != nil {
		c.t.Fatal(err)
	}
	if err := mine.Send((&apiv1.Heartbeat{}).Frame()); err != nil { // so that it takes the place of the stream before
		c.t.Fatal(err)
	}
	c.wg.Go(func() { // it still reads
		for {
			if _, err := mine.Recv(); err != nil {
				return
			}
		}
	})
	c.t.Cleanup(cancel)
}

func TestNewerIncarnationFencesOlder(t *testing.T) {
	a := newTable(t)
	old := newClient(t, a, '1', "life-1")
	old.dial(false)
	old.launch(1, 1, `trap "" TERM; sleep 1000`)
	pid := old.pid()

	side := newClient(t, a, '2', "life-1") // the same container: side by side
	if o := side.dial(false); o.OwnNumber != 1 {
		t.Errorf("the same incarnation is told %v", o)
	}
	side.launch(1, 1, "exit 0")
	side.until(outputEnd)
	if !alive(pid) {
		t.Fatal("a session of the same incarnation ended its neighbour")
	}

	retry := newClient(t, a, '3', "life-2")
	o := retry.dial(false)
	if o.HighestNumber != 1 || o.OwnNumber != 0 {
		t.Errorf("the retried launcher is told %v", o)
	}
	retry.launch(2, 1, "exit 0")
	retry.until(started)
	if alive(pid) {
		t.Error("the new incarnation's rank started beside the old one's")
	}
	closed := old.until(isClosed)
	if text := closed[len(closed)-1].GetClosed().Text; !strings.Contains(text, "newer incarnation") {
		t.Errorf("the old launcher is told %q", text)
	}
	retry.until(outputEnd)

	late := newClient(t, a, '4', "life-1") // the fenced one comes again
	late.dial(false)
	late.launch(1, 1, "exit 0")
	frames := late.until(isClosed)
	if c := frames[len(frames)-1].GetClosed(); c.Refusal != apiv1.Refusal_REFUSAL_FENCED {
		t.Errorf("a fenced launcher may start: %v", c)
	}
}

func TestStopEscalates(t *testing.T) {
	c := newClient(t, newTable(t), '1', "life-1")
	c.dial(false)
	c.launch(1, 2, `trap "" TERM; echo ready; kill -STOP $$; while :; do sleep 1; done`)
	for range 2 {
		c.until(func(f *apiv1.Frame) bool { return f.GetOutput() != nil })
	}
	c.send((&apiv1.Stop{Why: "test", Now: true}).Frame())
	for range 2 {
		seen := c.until(exited)
		if x := exitOf(seen); x.Signal != int32(syscall.SIGKILL) || !x.StoppedByUs {
			t.Errorf("exit %v", x)
		}
	}
}

// A rank that somebody kills lets its peers abort, and the job stop, before it has ended itself: the
// stop has not killed it as long as it has sent no SIGKILL.
func TestKillDuringAStopIsNotOurs(t *testing.T) {
	c := newClient(t, newTable(t), '1', "life-1")
	c.dial(false)
	c.launch(1, 1, `trap "kill -KILL $$" TERM; echo ready; while :; do sleep 0.01; done`)
	c.until(func(f *apiv1.Frame) bool { return f.GetOutput() != nil })
	c.send((&apiv1.Stop{Why: "test"}).Frame())
	if x := exitOf(c.until(exited)); x.Signal != int32(syscall.SIGKILL) || x.StoppedByUs {
		t.Errorf("exit %v", x)
	}
}

func TestStartFailures(t *testing.T) {
	for _, tt := range []struct {
		name  string
		argv  []string
		wdir  string
		phase apiv1.StartPhase
		text  string
	}{
		{"not found", []string{"no-such-program"}, "", apiv1.StartPhase_START_EXEC, "no-such-program"},
		{"not executable", []string{"/etc/passwd"}, "", apiv1.StartPhase_START_EXEC, "/etc/passwd"},
		{"directory", []string{"true"}, "/no/such/dir", apiv1.StartPhase_START_DIR, "/no/such/dir"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newClient(t, newTable(t), '1', "life-1")
			c.dial(false)
			c.send((&apiv1.Launch{Job: &apiv1.Job{Size: 1}, Number: 1, Procs: []*apiv1.Proc{{}}, Apps: []*apiv1.App{{Argv: tt.argv, Wdir: tt.wdir, WdirExplicit: tt.wdir != ""}}}).Frame())
			seen := c.until(func(f *apiv1.Frame) bool { return f.GetStartFailed() != nil })
			f := seen[len(seen)-1].GetStartFailed()
			if f.Phase != tt.phase || !strings.Contains(f.Text, tt.text) {
				t.Errorf("got %v", f)
			}
		})
	}
}

func TestHostileLaunchersAreRefused(t *testing.T) {
	a := newTable(t)
	c := newClient(t, a, '1', "life-1")
	c.dial(false)
	thief := newClient(t, a, '1', "life-1")
	thief.open.Secret = bytes.Repeat([]byte{'x'}, 16)
	if o := thief.dial(true); o.Refusal != apiv1.Refusal_REFUSAL_SECRET {
		t.Errorf("another process's session was resumed: %v", o)
	}
	other := newClient(t, a, '1', "life-1")
	other.name = "other"
	if o := other.dial(true); o.Refusal != apiv1.Refusal_REFUSAL_SECRET {
		t.Errorf("another identity's session was resumed: %v", o)
	}
	old := newClient(t, a, '2', "life-1")
	old.open.Protocol = 99
	if o := old.dial(false); o.Refusal != apiv1.Refusal_REFUSAL_PROTOCOL || !strings.Contains(o.Text, "99") {
		t.Errorf("another protocol: %v", o)
	}
	bad := newClient(t, a, '3', "life-1")
	bad.open.Session = "../../etc"
	if o := bad.dial(false); o.Refusal == apiv1.Refusal_REFUSAL_NONE {
		t.Error("a malformed session id was taken")
	}
}

func TestLaunchIsChecked(t *testing.T) {
	app := []*apiv1.App{{Argv: []string{"true"}}}
	for name, l := range map[string]*apiv1.Launch{
		"no job":           {Apps: app, Procs: []*apiv1.Proc{{}}},
		"no command":       {Job: &apiv1.Job{Size: 1}, Exec: &apiv1.Exec{}},
		"more than a job":  {Job: &apiv1.Job{Size: 1}, Apps: app, Procs: []*apiv1.Proc{{}, {Rank: 1}}},
		"rank twice":       {Job: &apiv1.Job{Size: 2}, Apps: app, Procs: []*apiv1.Proc{{}, {}}},
		"rank too high":    {Job: &apiv1.Job{Size: 2}, Apps: app, Procs: []*apiv1.Proc{{Rank: 2}}},
		"no such program":  {Job: &apiv1.Job{Size: 1}, Apps: app, Procs: []*apiv1.Proc{{App: 1}}},
		"nameless program": {Job: &apiv1.Job{Size: 1}, Apps: []*apiv1.App{{}}, Procs: []*apiv1.Proc{{}}},
		"huge job":         {Job: &apiv1.Job{Size: 1 << 31}, Apps: app, Procs: []*apiv1.Proc{{}}},
		"shared terminal":  {Job: &apiv1.Job{Size: 2}, Exec: &apiv1.Exec{Terminal: true}, Apps: app, Procs: []*apiv1.Proc{{}, {Rank: 1}}},
		"no number":        {Job: &apiv1.Job{Size: 1}, Apps: app, Procs: []*apiv1.Proc{{}}},
		"endless number":   {Job: &apiv1.Job{Size: 1}, Number: 1<<64 - 1, Apps: app, Procs: []*apiv1.Proc{{}}},
	} {
		if l.Number == 0 && name != "no number" {
			l.Number = 1
		}
		if _, err := checkLaunch(l); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

func TestFramesBeforeLaunchEndTheStream(t *testing.T) {
	a := newTable(t)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s, _ := a.admit(&apiv1.Open{Protocol: apiv1.Protocol, Session: strings.Repeat("ab", 16), Secret: make([]byte, 16)}, Caller{Name: "l"})
	mine, theirs, endMine, _ := wire.Pipe(ctx)
	mine.Send(&apiv1.Frame{Seq: 1, Body: &apiv1.Frame_Signal{Signal: &apiv1.Signal{Number: 9}}})
	err := s.carry(ctx, theirs, 0)
	if err == nil || errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	endMine()
	s.end("test")
}

func TestAgentEndTellsLaunchersAndStopsRanks(t *testing.T) {
	a, end := tableOf(t, nil)
	c := newClient(t, a, '1', "life-1")
	c.dial(false)
	c.launch(1, 1, `trap "exit 9" TERM; sleep 1000 & wait`)
	pid := c.pid()
	end(errors.New("preempted"))
	seen := c.until(isClosed)
	if !slices.ContainsFunc(seen, func(f *apiv1.Frame) bool { return f.GetEnding() != nil }) {
		t.Error("the launcher was not told why")
	}
	if x := exitOf(seen); x == nil || !x.StoppedByUs {
		t.Errorf("exit %v", x)
	}
	if alive(pid) {
		t.Error("the rank lives")
	}
	late := newClient(t, a, '2', "life-1")
	if o := late.dial(false); o.Refusal != apiv1.Refusal_REFUSAL_ENDING {
		t.Errorf("an ending agent takes a session: %v", o)
	}
}
