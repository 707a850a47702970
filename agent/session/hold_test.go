package session

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"syscall"
	"testing"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/identity"
)

// withSecret is a launcher that has the job's secret and a name that it made up.
func withSecret(name string) *identity.Peer {
	return &identity.Peer{Name: name, Role: identity.RoleLauncher}
}

// journal is what a launcher with a command leaves.
func journal(command byte) *apiv1.Hold {
	return &apiv1.Hold{Journal: []byte("j"), Proof: []byte("p"), Command: bytes.Repeat([]byte{command}, 32), Text: "run " + string(command)}
}

// holds is a launcher whose ranks are to outlive it, with one that runs.
func holds(t *testing.T, a *Table, hold time.Duration, script string) *client {
	t.Helper()
	c := newClient(t, a, '1', "life-1")
	c.peer, c.name = withSecret("l0"), "l0"
	c.open.OnLoss, c.open.HoldMs = apiv1.Loss_LOSS_HOLD, uint64(hold.Milliseconds())
	c.dial(false)
	c.launch(1, 1, script)
	c.until(started)
	c.send(journal('a').Frame())
	eventually(t, "the agent has the journal", func() bool {
		s := a.all()[0]
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.offer != nil
	})
	return c
}

// another is a launcher of that name, which has opened a session of its own.
func another(t *testing.T, a *Table, session byte, peer *identity.Peer, wish apiv1.Loss) (*client, *apiv1.Opened) {
	t.Helper()
	c := newClient(t, a, session, fmt.Sprintf("life-%c", session))
	c.peer, c.name, c.open.Launcher, c.open.OnLoss, c.open.HoldMs = peer, peer.Name, "host of "+peer.Name, wish, 60_000
	if peer.Role == identity.RoleAgent {
		c.name = "agent " + peer.Name
	}
	return c, c.dial(false)
}

// adopts asks for the session of a launcher that is lost.
func (c *client) adopts(of *client, command byte) *apiv1.Opened {
	c.t.Helper()
	c.hangUp()
	c.wg.Wait()
	c.open.Session, c.open.Adopt, c.open.Command = of.open.Session, true, bytes.Repeat([]byte{command}, 32)
	return c.dial(false)
}

func heldNow(a *Table) int {
	n := 0
	for _, s := range a.all() {
		if s.waits() {
			n++
		}
	}
	return n
}

func TestAnotherLauncherTakesOver(t *testing.T) {
	a := newTable(t)
	first := holds(t, a, time.Minute, "echo one; kill -STOP $$; echo two; exit 5")
	first.hangUp() // no credit was given: what it was sent may not have been written
	eventually(t, "the ranks are held", func() bool { return heldNow(a) == 1 })
	if u := a.Uses(); len(u) != 1 || u[0].HeldS == 0 {
		t.Errorf("uses %v", u)
	}
	second, opened := another(t, a, '2', withSecret("l1"), apiv1.Loss_LOSS_HOLD)
	if len(opened.Held) != 1 || opened.Held[0].Hold.Text != "run a" || opened.Held[0].Launcher != "launcher" || opened.Held[0].LeftMs == 0 {
		t.Fatalf("held: %v", opened.Held)
	}
	if o := second.adopts(first, 'a'); o.Refusal != apiv1.Refusal_REFUSAL_NONE {
		t.Fatalf("refused: %v", o)
	}
	seen := second.until(started)
	if r := seen[0].GetResumed(); r == nil || len(r.Dropped) > 0 {
		t.Errorf("first it is told %v", seen[0])
	}
	if err := syscall.Kill(int(seen[len(seen)-1].GetStarted().Pid), syscall.SIGCONT); err != nil {
		t.Error(err)
	}
	seen = append(seen, second.until(outputEnd)...)
	if text := stdout(seen); text != "one\ntwo\n" {
		t.Errorf("output %q", text)
	}
	if x := exitOf(seen); x.Code != 5 {
		t.Errorf("ended with %v", x)
	}
	if o := first.dial(true); o.Refusal != apiv1.Refusal_REFUSAL_SUCCEEDED {
		t.Errorf("the launcher before is told %v", o)
	}
	second.send((&apiv1.Bye{}).Frame())
	second.until(isClosed)
}

func TestWhoMayTakeOver(t *testing.T) {
	proven := func(name string) *identity.Peer {
		return &identity.Peer{Name: name, Role: identity.RoleLauncher, RoleProven: true}
	}
	for _, tt := range []struct {
		name    string
		peer    *identity.Peer
		wish    apiv1.Loss
		command byte
		told    bool
		refusal apiv1.Refusal
		text    string
	}{
		{"another pod of the job", withSecret("l9"), apiv1.Loss_LOSS_HOLD, 'a', true, apiv1.Refusal_REFUSAL_NONE, ""},
		{"another command", withSecret("l0"), apiv1.Loss_LOSS_HOLD, 'b', true, apiv1.Refusal_REFUSAL_SECRET, "host w0 holds it for the command run a"},
		{"a certificate with another name", proven("l9"), apiv1.Loss_LOSS_HOLD, 'a', false, apiv1.Refusal_REFUSAL_SECRET, "only a launcher that proves to be l0"},
		{"an agent", &identity.Peer{Name: "w7", Role: identity.RoleAgent}, apiv1.Loss_LOSS_HOLD, 'a', false, apiv1.Refusal_REFUSAL_SECRET, "only a launcher"},
		{"who does not hold", withSecret("l0"), apiv1.Loss_LOSS_UNSAID, 'a', true, apiv1.Refusal_REFUSAL_SECRET, "holds it"},
		{"another pod that does not hold", withSecret("l9"), apiv1.Loss_LOSS_UNSAID, 'a', false, apiv1.Refusal_REFUSAL_SECRET, "holds it"},
		{"no run", withSecret("l0"), apiv1.Loss_LOSS_NOTHING, 'a', false, apiv1.Refusal_REFUSAL_SECRET, "holds it"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a := newTable(t)
			first := holds(t, a, time.Minute, "exec sleep 60")
			first.hangUp()
			eventually(t, "the ranks are held", func() bool { return heldNow(a) == 1 })
			second, opened := another(t, a, '2', tt.peer, tt.wish)
			if told := len(opened.Held) == 1; told != tt.told {
				t.Errorf("told of it: %v", opened.Held)
			}
			o := second.adopts(first, tt.command)
			if o.Refusal != tt.refusal || !strings.Contains(o.Text, tt.text) {
				t.Errorf("it is told %v %q", o.Refusal, o.Text)
			}
			if want := map[bool]int{true: 0, false: 1}[tt.refusal == apiv1.Refusal_REFUSAL_NONE]; heldNow(a) != want {
				t.Errorf("%d sessions are held", heldNow(a))
			}
		})
	}
}

// While a launcher is heard nobody takes its run over, and who comes is not told of it.
func TestLivingLauncherKeepsItsRun(t *testing.T) {
	a := newTable(t)
	first := holds(t, a, time.Minute, "exec sleep 60")
	second, opened := another(t, a, '2', withSecret("l1"), apiv1.Loss_LOSS_HOLD)
	if len(opened.Held) > 0 {
		t.Errorf("told of %v", opened.Held)
	}
	if o := second.adopts(first, 'a'); o.Refusal != apiv1.Refusal_REFUSAL_ALIVE || !strings.Contains(o.Text, "has not given launcher launcher up") {
		t.Errorf("it is told %v %q", o.Refusal, o.Text)
	}
	third, _ := another(t, a, '3', withSecret("l0"), apiv1.Loss_LOSS_HOLD)
	third.open.Launcher = first.open.Launcher // a pod that is made anew has the name when the one before is gone
	if o := third.adopts(first, 'a'); o.Refusal != apiv1.Refusal_REFUSAL_NONE {
		t.Errorf("the pod of that name is told %v %q", o.Refusal, o.Text)
	}
	third.until(started)
}

// A launcher that was cut off for longer than a closed connection lasts goes on, unless another has taken over.
func TestLauncherComesBack(t *testing.T) {
	a := newTable(t)
	c := holds(t, a, time.Minute, "while :; do echo tick; sleep 0.05; done")
	c.hangUp()
	eventually(t, "the ranks are held", func() bool { return heldNow(a) == 1 })
	if o := c.dial(true); o.Refusal != apiv1.Refusal_REFUSAL_NONE {
		t.Fatalf("refused: %v", o)
	}
	eventually(t, "the session goes on", func() bool { return heldNow(a) == 0 })
	for range 10 {
		c.until(func(f *apiv1.Frame) bool { return f.GetOutput() != nil })
	}
}

// Of launchers that come for one run, the first has it; the others are told which, and so is one that comes later.
func TestOnlyOneTakesOver(t *testing.T) {
	a := newTable(t)
	first := holds(t, a, time.Minute, "exec sleep 60")
	first.hangUp()
	eventually(t, "the ranks are held", func() bool { return heldNow(a) == 1 })
	second, _ := another(t, a, '2', withSecret("l1"), apiv1.Loss_LOSS_HOLD)
	third, opened := another(t, a, '3', withSecret("l2"), apiv1.Loss_LOSS_HOLD)
	if len(opened.Held) != 1 || opened.Held[0].Taken {
		t.Errorf("told of %v", opened.Held)
	}
	if o := second.adopts(first, 'a'); o.Refusal != apiv1.Refusal_REFUSAL_NONE {
		t.Fatalf("refused: %v", o)
	}
	second.until(started)
	if o := third.adopts(first, 'a'); o.Refusal != apiv1.Refusal_REFUSAL_SUCCEEDED || o.Text != "launcher host of l1 has it on host w0" {
		t.Errorf("the one that came second is told %v %q", o.Refusal, o.Text)
	}
	for _, tt := range []struct {
		name    string
		command byte
		told    bool
	}{{"the same command", 'a', true}, {"another", 'b', false}} {
		late := newClient(t, a, 'c'+tt.command-'a', "life-late-"+string(tt.command))
		late.peer, late.name, late.open.OnLoss, late.open.Command = withSecret("l3"), "l3", apiv1.Loss_LOSS_HOLD, bytes.Repeat([]byte{tt.command}, 32)
		if opened := late.dial(false); (len(opened.Held) == 1 && opened.Held[0].Taken) != tt.told {
			t.Errorf("%s: told of %v", tt.name, opened.Held)
		}
	}
	eventually(t, "the agent knows that it has begun", func() bool { return second.session().link.Acknowledged() })
	if o := second.adopts(first, 'a'); o.Refusal != apiv1.Refusal_REFUSAL_SECRET || !strings.Contains(o.Text, "this request is an old one") {
		t.Errorf("a request of before is told %v %q", o.Refusal, o.Text)
	}
}

// Ranks that are told to end are no one's to take over, by whatever pod; nor does an agent that ends hand any over, or one launcher
// more that its successor has fenced.
func TestWhatIsNotTakenOver(t *testing.T) {
	for _, tt := range []struct {
		name    string
		before  func(t *testing.T, first *client, end func(error))
		comes   string // its incarnation
		refusal apiv1.Refusal
		text    string
	}{
		{"ranks that end", func(_ *testing.T, first *client, _ func(error)) {
			first.send((&apiv1.Signal{Number: int32(syscall.SIGTERM), Once: true}).Frame())
		}, "life-2", apiv1.Refusal_REFUSAL_TOLD, "launcher launcher told the ranks of host w0 to end"},
		{"ranks that are stopped", func(_ *testing.T, first *client, _ func(error)) { first.send((&apiv1.Stop{Why: "x"}).Frame()) },
			"life-2", apiv1.Refusal_REFUSAL_TOLD, "told the ranks of host w0 to end"},
		{"an agent that ends", func(_ *testing.T, _ *client, end func(error)) { end(errors.New("got SIGTERM")) },
			"life-2", apiv1.Refusal_REFUSAL_ENDING, "the agent on host w0 is ending: got SIGTERM"},
		{"by a fenced launcher", func(_ *testing.T, first *client, _ func(error)) {
			first.session().table.lives.Met("l0", Life{Incarnation: "life-0"}, 1)
			first.session().table.lives.Fence("l0", "life-0", "life-1")
		}, "life-0", apiv1.Refusal_REFUSAL_FENCED, "has taken over host w0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a, end := tableOf(t, nil)
			first := holds(t, a, time.Minute, "trap '' TERM; while :; do sleep 0.1; done")
			first.open.Launcher, first.open.Sandbox = "l0", "a"
			tt.before(t, first, end)
			eventually(t, "the agent has it", func() bool { return first.link.Queued() == 0 })
			second := newClient(t, a, '2', tt.comes)
			second.peer, second.name, second.open.OnLoss = withSecret("l0"), "l0", apiv1.Loss_LOSS_HOLD
			second.open.Session, second.open.Adopt, second.open.Command = first.open.Session, true, bytes.Repeat([]byte{'a'}, 32)
			if o := second.dial(false); o.Refusal != tt.refusal || !strings.Contains(o.Text, tt.text) {
				t.Errorf("it is told %v %q", o.Refusal, o.Text)
			}
		})
	}
}

func TestHoldRunsOut(t *testing.T) {
	var log strings.Builder
	a := tableWith(t, slog.New(slog.NewTextHandler(&log, nil)), nil)
	c := holds(t, a, time.Second, "exec sleep 60")
	c.hangUp()
	eventually(t, "the ranks are held", func() bool { return heldNow(a) == 1 })
	eventually(t, "the session is over", func() bool { return a.Count() == 0 })
	second, opened := another(t, a, '2', withSecret("l1"), apiv1.Loss_LOSS_HOLD)
	if len(opened.Held) > 0 {
		t.Errorf("told of %v", opened.Held)
	}
	if o := second.adopts(c, 'a'); o.Refusal != apiv1.Refusal_REFUSAL_UNKNOWN_SESSION {
		t.Errorf("it is told %v", o)
	}
	second.hangUp()
	eventually(t, "nobody is there", func() bool { return a.Count() == 0 })
	if !strings.Contains(log.String(), "no other launcher came") {
		t.Errorf("the log says\n%s", &log)
	}
}

// Ranks that were told to end are not handed over, nor are those of a run that its launcher took back.
func TestNotHandedOver(t *testing.T) {
	for name, last := range map[string]*apiv1.Frame{
		"told to end":   (&apiv1.Signal{Number: int32(syscall.SIGTERM), Once: true}).Frame(),
		"interrupted":   (&apiv1.Signal{Number: int32(syscall.SIGINT)}).Frame(),
		"taken back":    (&apiv1.Hold{Withdrawn: "a rank has spawned a job"}).Frame(),
		"being stopped": (&apiv1.Stop{Why: "x"}).Frame(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newTable(t)
			c := holds(t, a, time.Minute, "trap '' TERM INT; while :; do sleep 1; done")
			c.send(last)
			eventually(t, "the agent has it", func() bool { return c.link.Queued() == 0 })
			c.hangUp()
			eventually(t, "the session ends", func() bool { return len(a.all()) == 0 || a.all()[0].over() })
		})
	}
}

// A user who says so ends what waits for another launcher; without a word ranks wait for it.
func TestFenceEndsWhatIsHeld(t *testing.T) {
	a := newTable(t)
	c := holds(t, a, time.Minute, "exec sleep 60")
	c.hangUp()
	eventually(t, "the ranks are held", func() bool { return heldNow(a) == 1 })
	second, opened := another(t, a, '2', withSecret("l1"), apiv1.Loss_LOSS_FENCE)
	if len(opened.Held) > 0 {
		t.Errorf("told of %v", opened.Held)
	}
	second.launch(2, 1, "exit 3")
	if x := exitOf(second.until(exited)); x.Code != 3 {
		t.Errorf("ended with %v", x)
	}
	if heldNow(a) > 0 {
		t.Error("both run")
	}
}

// What launchers leave is bounded.
func TestJournalIsBounded(t *testing.T) {
	for name, h := range map[string]*apiv1.Hold{
		"nothing":   {Command: make([]byte, 32)},
		"too large": {Journal: make([]byte, maxJournal+1), Command: make([]byte, 32)},
		"a proof":   {Journal: []byte("j"), Proof: make([]byte, identity.MaxProof+1), Command: make([]byte, 32)},
		"a command": {Journal: []byte("j"), Command: make([]byte, 31)},
		"a text":    {Journal: []byte("j"), Command: make([]byte, 32), Text: strings.Repeat("x", 1<<13)},
		"a reason":  {Withdrawn: strings.Repeat("x", 1<<13)},
	} {
		if checkHold(h) == nil {
			t.Errorf("%s is taken", name)
		}
	}
	if err := checkHold(journal('a')); err != nil {
		t.Error(err)
	}
}
