package session

import (
	"bytes"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mpiup/mpiup/agent/policy"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/identity"
)

// callerAs is somebody who comes over the network.
func callerAs(name string, role identity.Role) *identity.Peer {
	return &identity.Peer{Name: name, Role: role, RoleProven: true}
}

// logged is a log without times.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logged) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
}

// audit is the audit trail so far.
func (l *logged) audit() (lines []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		if strings.Contains(line, " what=") || strings.Contains(line, "msg=session ") {
			lines = append(lines, strings.TrimSuffix(line, "\n"))
		}
	}
	return lines
}

func rules(t *testing.T, text string) *policy.Policy {
	t.Helper()
	p, err := policy.Parse("/etc/mpiup/policy", text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Every start, and every one that is refused, has its line: who, from where, what, as which user.
func TestAuditLines(t *testing.T) {
	var log logged
	a := tableWith(t, log.logger(), rules(t, "allow run,spawn launcher"))
	c := newClient(t, a, 'a', "launcher-life")
	c.peer, c.name = callerAs("pi-launcher", identity.RoleLauncher), "pi-launcher"
	c.open.Namespace, c.open.Pod = "team-a", "pi-launcher-x7x2p"
	c.dial(false)
	c.launch(7, 1, "true")
	c.until(outputEnd)
	c.send((&apiv1.Launch{Job: &apiv1.Job{Number: 1, Base: 1, Size: 1, Spawned: true, Hosts: 1, Pmi: apiv1.Pmi_PMI_NONE}, Number: 7, Apps: []*apiv1.App{{Argv: []string{"/bin/true", "a b"}}}, Procs: []*apiv1.Proc{{}}}).Frame())
	c.until(outputEnd)
	for i, l := range []*apiv1.Launch{
		{Job: &apiv1.Job{}, Exec: &apiv1.Exec{}, Apps: []*apiv1.App{{Argv: []string{"nvidia-smi"}}}},
		{Job: &apiv1.Job{}, Exec: &apiv1.Exec{Shell: true}, Apps: []*apiv1.App{{Argv: []string{"cd /data && ls 'x'"}}}},
		{Job: &apiv1.Job{}, Exec: &apiv1.Exec{Shell: true, Terminal: true}, Apps: []*apiv1.App{{Argv: []string{""}}}},
	} {
		d := newClient(t, a, byte('b'+i), "launcher-life")
		d.peer, d.name = c.peer, c.name
		d.open.Namespace, d.open.Pod = c.open.Namespace, c.open.Pod
		d.dial(false)
		l.Number, l.Job.Size, l.Job.Hosts, l.Procs = 8, 1, 1, []*apiv1.Proc{{}}
		d.send(l.Frame())
		d.until(func(f *apiv1.Frame) bool { return f.GetStartFailed() != nil })
	}
	const who = ` identity=pi-launcher role=launcher proven=true from=10.1.2.3:40000 launcher=launcher namespace=team-a pod=pi-launcher-x7x2p`
	uid := " uid=" + strconv.Itoa(os.Getuid())
	want := []string{
		`level=INFO msg=session session=aaaaaaaa incarnation=launcher` + who,
		`level=INFO msg=start what=run session=aaaaaaaa number=7 job=0 processes=1 of=1 command="sh -c true"` + uid + who,
		`level=INFO msg=start what=run session=aaaaaaaa number=7 job=1 processes=1 of=1 command="/bin/true \"a b\""` + uid + who,
		`level=INFO msg=session session=abababab incarnation=launcher` + who,
		`level=WARN msg="start refused" what=exec session=abababab number=8 job=0 processes=1 of=1 command=nvidia-smi` + uid + who + ` rule="no line of /etc/mpiup/policy allows it"`,
		`level=INFO msg=session session=acacacac incarnation=launcher` + who,
		`level=WARN msg="start refused" what=shell session=acacacac number=8 job=0 processes=1 of=1 command="\"cd /data && ls 'x'\""` + uid + who + ` rule="no line of /etc/mpiup/policy allows it"`,
		`level=INFO msg=session session=adadadad incarnation=launcher` + who,
		`level=WARN msg="start refused" what=shell session=adadadad number=8 job=0 processes=1 of=1 command="\"\""` + uid + who + ` rule="no line of /etc/mpiup/policy allows it"`,
	}
	if d := cmp.Diff(want, log.audit()); d != "" {
		t.Error(d)
	}
}

// A start that is refused is as one that failed: the session goes on and ends as others do, and
// nothing of an older launcher has gone for it.
func TestForbiddenLaunchChangesNothing(t *testing.T) {
	var log logged
	a := tableWith(t, log.logger(), rules(t, "allow run launcher\ndeny run agent\nallow exec agent\n"))
	old := newClient(t, a, 'a', "older-life")
	old.peer = callerAs("launcher", identity.RoleLauncher)
	old.dial(false)
	old.launch(1, 1, "read line")
	old.until(started)

	c := newClient(t, a, 'b', "newer-life")
	c.peer = callerAs("launcher", identity.RoleAgent)
	c.dial(false)
	c.launch(2, 2, "true")
	frames := c.until(func(f *apiv1.Frame) bool { return f.GetStartFailed() != nil })
	f := frames[len(frames)-1].GetStartFailed()
	if want := `the agent's policy refuses run to agents (line 2 of /etc/mpiup/policy, "deny run agent") and allows them exec; whoever starts the agent can change that`; f.Text != want || f.Phase != apiv1.StartPhase_START_EXEC {
		t.Errorf("%v", f)
	}
	c.send((&apiv1.Signal{Number: 15}).Frame())
	c.send((&apiv1.Bye{}).Frame())
	for _, f := range c.until(isClosed) {
		if started(f) || exited(f) {
			t.Errorf("a frame %v of a start that was refused", f)
		}
	}
	old.send((&apiv1.Input{Data: []byte("\n"), Eof: true}).Frame())
	if x := exitOf(old.until(exited)); x.Code != 0 || x.StoppedByUs {
		t.Errorf("the older launcher's rank ended with %v", x)
	}
}

func TestKindOf(t *testing.T) {
	for _, tt := range []struct {
		name   string
		launch *apiv1.Launch
		want   policy.Kind
	}{
		{"ranks", &apiv1.Launch{Job: &apiv1.Job{}}, policy.Run},
		{"spawned", &apiv1.Launch{Job: &apiv1.Job{Number: 3, Spawned: true}}, policy.Run},
		{"exec", &apiv1.Launch{Job: &apiv1.Job{}, Exec: &apiv1.Exec{}}, policy.Exec},
		{"exec on a terminal", &apiv1.Launch{Job: &apiv1.Job{}, Exec: &apiv1.Exec{Terminal: true}}, policy.Exec},
		{"shell", &apiv1.Launch{Job: &apiv1.Job{}, Exec: &apiv1.Exec{Shell: true}}, policy.Shell},
	} {
		if got := kindOf(tt.launch); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}
