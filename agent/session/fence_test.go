package session

import (
	"context"
	"strings"
	"testing"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/wire"
)

// beside makes a client of another incarnation in the same pod as another one's.
func (c *client) beside(session byte, incarnation string) *client {
	o := newClient(c.t, c.table, session, incarnation)
	o.open.Sandbox = c.open.Sandbox
	return o
}

const sleeper = `trap "" TERM; sleep 1000`

// A sidecar, a debug container or a shell under unshare beside a launcher that lives: both run, also after
// that, and neither bars the other.
func TestSiblingsLiveSideBySide(t *testing.T) {
	main := newClient(t, newTable(t), '1', "life-1")
	main.dial(false)
	main.launch(1, 1, sleeper)
	pid := main.pid()
	side := main.beside('2', "life-2")
	if o := side.dial(false); o.HighestNumber != 1 || o.OwnNumber != 0 {
		t.Errorf("the sibling is told %v", o)
	}
	begun := time.Now()
	side.launch(2, 1, "echo beside")
	side.until(started)
	t.Logf("it waited %v", time.Since(begun))
	side.until(outputEnd)
	if !alive(pid) {
		t.Fatal("a sibling's run ended the launcher's rank")
	}
	again := main.beside('3', "life-1")
	if o := again.dial(false); o.OwnNumber != 1 || o.HighestNumber != 2 {
		t.Errorf("the launcher is told %v", o)
	}
	again.launch(1, 1, "echo again")
	if got := stdout(again.until(outputEnd)); got != "again\n" {
		t.Errorf("the launcher's next run says %q", got)
	}
	if !alive(pid) {
		t.Error("the rank ended")
	}
}

// exec is a Launch of one command.
func (c *client) exec(number uint64, script string) {
	c.t.Helper()
	c.send((&apiv1.Launch{Job: &apiv1.Job{Id: "job", Size: 1, Universe: 1, Hosts: 1, Window: 64 << 10}, Number: number, Exec: &apiv1.Exec{}, Apps: []*apiv1.App{{Argv: []string{"sh", "-c", script}}}, Procs: []*apiv1.Proc{{}}}).Frame())
}

// A command never fences, from wherever it comes.
func TestExecNeverFences(t *testing.T) {
	a := newTable(t)
	main := newClient(t, a, '1', "life-1")
	main.dial(false)
	main.launch(1, 1, sleeper)
	pid := main.pid()
	for i, tt := range []struct{ name, sandbox string }{
		{"in the same pod", main.open.Sandbox}, {"in another pod of the name", "elsewhere"}, {"in a pod that is not told", ""},
	} {
		c := newClient(t, a, byte('2'+i), "life-"+tt.name)
		c.open.Sandbox = tt.sandbox
		c.dial(false)
		c.exec(uint64(2+i), "echo here")
		if got := stdout(c.until(outputEnd)); got != "here\n" {
			t.Errorf("%s: %q", tt.name, got)
		}
	}
	if !alive(pid) {
		t.Error("a command ended the launcher's rank")
	}
	again := newClient(t, a, '9', "life-1")
	again.dial(false)
	again.launch(1, 1, "echo again")
	if got := stdout(again.until(outputEnd)); got != "again\n" {
		t.Errorf("after commands, the launcher's next run says %q", got)
	}
}

// A container that was restarted: what the dead one left is over before anything starts, by its closed stream or its
// lease, and the dead one is told by name if it comes after all.
func TestRestartedContainerClearsAway(t *testing.T) {
	for _, tt := range []struct {
		name  string
		lease uint64
		lose  func(*client)
	}{
		{"closed", 60_000, func(c *client) { c.hangUp() }},
		{"silent", 1_500, func(c *client) { c.mute() }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			old := newClient(t, newTable(t), '1', "life-1")
			old.open.LeaseMs = tt.lease
			old.dial(false)
			old.launch(1, 1, sleeper)
			pid := old.pid()
			tt.lose(old)
			young := old.beside('2', "life-2")
			young.dial(false)
			young.launch(2, 1, "exit 0")
			young.until(started)
			if alive(pid) {
				t.Error("it started beside what the dead one left")
			}
			young.until(outputEnd)
			why := old.dial(true).Refusal
			if why == apiv1.Refusal_REFUSAL_NONE { // the session still waits to say so
				seen := old.until(isClosed)
				why = seen[len(seen)-1].GetClosed().Refusal
			}
			if why != apiv1.Refusal_REFUSAL_FENCED {
				t.Errorf("the dead one's resume is answered %v", why)
			}
			late := old.beside('3', "life-1")
			late.dial(false)
			late.launch(3, 1, "exit 0")
			seen := late.until(isClosed)
			if c := seen[len(seen)-1].GetClosed(); c.Refusal != apiv1.Refusal_REFUSAL_FENCED || !strings.Contains(c.Text, "life-2") {
				t.Errorf("the dead one's next run ends with %v", c)
			}
		})
	}
}

// A launcher whose connection breaks and comes back while another waits is a sibling.
func TestResumingIsASignOfLife(t *testing.T) {
	old := newClient(t, newTable(t), '1', "life-1")
	old.dial(false)
	old.launch(1, 1, sleeper)
	pid := old.pid()
	old.hangUp()
	young := old.beside('2', "life-2")
	young.dial(false)
	young.launch(2, 1, "exit 0")
	if o := old.dial(true); o.Refusal != apiv1.Refusal_REFUSAL_NONE {
		t.Fatalf("the resume is answered %v", o)
	}
	young.until(outputEnd)
	if !alive(pid) {
		t.Error("a launcher that came back was fenced")
	}
}

// Two Jobs whose launchers show one certificate: other pods with other names, both alive.
func TestJobsWithOneCertificate(t *testing.T) {
	a := newTable(t)
	var jobs []*client
	for i, host := range []string{"job-a-x", "job-b-y"} {
		c := newClient(t, a, byte('1'+i), "life of "+host)
		c.open.Launcher = host
		c.dial(false)
		c.launch(uint64(i+1), 1, "read line; echo $line")
		c.until(started)
		jobs = append(jobs, c)
	}
	for _, c := range jobs {
		c.send((&apiv1.Input{Data: []byte("done\n")}).Frame())
		if got := stdout(c.until(outputEnd)); got != "done\n" {
			t.Errorf("%s: %q", c.open.Launcher, got)
		}
	}
}

// heartless opens a session and says nothing more.
func (c *client) heartless() {
	c.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	mine, theirs, _, endTheirs := wire.Pipe(ctx)
	c.wg.Go(func() { c.table.Attach(ctx, theirs, c.caller()); endTheirs() })
	c.t.Cleanup(cancel)
	if err := mine.Send(c.open.Frame()); err != nil {
		c.t.Fatal(err)
	}
}

// A session that has started nothing, however silent, holds nobody up.
func TestWhoOnlyLooksHoldsNobodyUp(t *testing.T) {
	looks := newClient(t, newTable(t), '1', "life-1")
	looks.heartless()
	c := looks.beside('2', "life-2")
	c.dial(false)
	begun := time.Now()
	c.launch(2, 1, "exit 0")
	c.until(outputEnd)
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
}
