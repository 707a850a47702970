package badinput

import (
	"context"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mpiup/mpiup/internal/api/rpc"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/identity"
	"github.com/mpiup/mpiup/test/lab"
	"google.golang.org/grpc"
)

// Hosts of which the same is true are one line, for each way in which they cannot be reached, of whatever command.
func TestHostsThatFailAlike(t *testing.T) {
	t.Parallel()
	otherKey := filepath.Join(t.TempDir(), "key")
	if err := keygen(otherKey); err != nil {
		t.Fatal(err)
	}
	strangers := make([]string, 3)
	for i := range strangers {
		strangers[i] = startAgent(t, []string{"MPIUP_KEY=" + otherKey}, "--http", "off").Addr
	}
	refused := strings.Split(lab.Address(), ".")
	refused[3] = "[200-219]" // which no agent of these tests gets
	range20 := strings.Join(refused, ".")
	for _, tt := range []struct{ hosts, says, commands string }{
		{range20, "20 hosts, " + range20 + ", at port 16748: connection refused", "run ps peers shutdown"},
		{strings.Join(strangers, ","), "3 hosts, ", "run"},
		{"w-[1-20].invalid", " hosts, w-[1-", "run"}, // a DNS server may be too busy for some of them
	} {
		for command := range strings.FieldsSeq(tt.commands) {
			args := []string{command, "--wait", "1", "--host", tt.hosts}
			if command == "run" {
				args = append(args, "true")
			}
			r := mpiup(t, nil, args...)
			if text := r.Stdout + r.Stderr; !strings.Contains(text, tt.says) || command != "peers" && strings.Count(text, "\n") > 8 {
				t.Errorf("%q:\n%s", args, text)
			}
		}
	}
}

// TestHosts are hosts that are not what the user thinks: one clear line each, the host named,
// and the exit code of the most telling.
func TestHosts(t *testing.T) {
	ours := startAgent(t, nil, "--http", "off")
	scoped := startAgent(t, nil, "--http", "off", "--job", "theirs")
	otherKey := filepath.Join(t.TempDir(), "key")
	if err := keygen(otherKey); err != nil {
		t.Fatal(err)
	}
	stranger := startAgent(t, []string{"MPIUP_KEY=" + otherKey}, "--http", "off")
	silent := listen(t, func(c net.Conn) { c.Read(make([]byte, 1<<16)); c.Read(make([]byte, 1<<16)) })
	for _, tt := range []struct {
		name string
		host string
		args string
		code int
		says []string
	}{
		{"nobody listens", lab.Address(), "", 243, []string{"connection refused"}},
		{"it hangs up", listen(t, func(net.Conn) {}), "", 243, nil},
		{"it says nothing", silent, "", 243, []string{"says nothing"}},
		{"an HTTP server", listen(t, func(c net.Conn) { c.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n")) }), "", 244, []string{"HTTP server"}},
		{"an SSH server", listen(t, func(c net.Conn) { c.Write([]byte("SSH-2.0-OpenSSH_9.9\r\n")) }), "", 244, []string{"SSH server"}},
		{"no such name", "no-such-host.invalid", "", 242, []string{"no such name"}},
		{"secret of another job", stranger.Addr, "", 244, []string{"secret of another job"}},
		{"another scope", scoped.Addr, "--job ours", 244, []string{`"theirs"`, `"ours"`, "MPIUP_JOB"}},
		{"another protocol", oldAgent(t), "", 245, []string{"protocol 99", "v0.0.9", "one version"}},
		{"one of two", ours.Addr + "," + lab.Address(), "", 243, []string{"connection refused"}},
		{"a refusal beats silence", silent + "," + stranger.Addr, "", 244, []string{"secret of another job"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			args := append([]string{"run", "--wait", "3", "--host", tt.host}, strings.Fields(tt.args)...)
			e := mpiup(t, nil, append(args, "true")...)
			hosts := strings.Split(tt.host, ",")
			e.check(t, tt.code, append(tt.says, "host "+hosts[len(hosts)-1], "--wait")...)
			if e.Took > 30*time.Second {
				t.Errorf("3 s of waiting took %v", e.Took)
			}
		})
	}
}

// TestOneAgentTwoNames: an agent is one host, whatever it is called.
func TestOneAgentTwoNames(t *testing.T) {
	a := startAgent(t, nil, "--http", "off")
	mapped := "[::ffff:" + a.Addr + "]"
	e := mpiup(t, nil, "run", "--wait", "2", "--host", a.Addr+":1,"+mapped+":1", "true")
	e.check(t, 241, a.Addr, "fewer agents than names")
}

// oldAgent speaks protocol 99.
func oldAgent(t *testing.T) (addr string) {
	t.Helper()
	id, err := identity.Load(identity.Options{KeyFile: key, Role: identity.RoleAgent, Name: "old"})
	if err != nil {
		t.Fatal(err)
	}
	addr = lab.Address()
	l, err := net.Listen("tcp", net.JoinHostPort(addr, port))
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer(grpc.Creds(identity.Transport()))
	rpc.RegisterAgentServer(s, protocol99{})
	done := make(chan struct{})
	go func() { defer close(done); s.Serve(handshaking{l, id}) }()
	t.Cleanup(func() { s.Stop(); <-done })
	return addr
}

type protocol99 struct{ rpc.UnimplementedAgentServer }

func (protocol99) Attach(s grpc.BidiStreamingServer[apiv1.Frame, apiv1.Frame]) error {
	if _, err := s.Recv(); err != nil {
		return err
	}
	return s.Send((&apiv1.Opened{
		Refusal: apiv1.Refusal_REFUSAL_PROTOCOL, Protocol: 99, Version: "v0.0.9", Text: "too new"}).Frame())
}

// handshaking is a listener of connections whose TLS handshake is done.
type handshaking struct {
	net.Listener
	id *identity.Identity
}

func (h handshaking) Accept() (net.Conn, error) {
	for {
		raw, err := h.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if c, err := h.id.Accept(context.Background(), raw, h.id.ServerConfig("h2")); err == nil {
			return c, nil
		}
	}
}

// TestVersionsMix: builds of one protocol work together, and that is said once.
func TestVersionsMix(t *testing.T) {
	other := filepath.Join(t.TempDir(), "mpiup")
	if err := lab.Build(other, "./cmd/mpiup", "-ldflags", "-X main.version=v9.9.9"); err != nil {
		t.Fatal(err)
	}
	a := startAgent(t, nil, "--http", "off")
	was := bin
	bin = other
	t.Cleanup(func() { bin = was })
	e := mpiup(t, nil, "run", "--host", a.Addr+":1", "true")
	e.check(t, 0, "v9.9.9", "one build")
	if n := strings.Count(e.Stderr, "v9.9.9"); n != 1 {
		t.Errorf("said %d times:\n%s", n, e.Stderr)
	}
}

// TestManyRanks: going over the CPUs is said once, and is no error.
func TestManyRanks(t *testing.T) {
	a := startAgent(t, nil, "--http", "off")
	e := mpiup(t, nil, "run", "--host", a.Addr+":300", "-n", "300", "true")
	e.check(t, 0, "more ranks than usable CPUs")
	if n := strings.Count(e.Stderr, "more ranks"); n != 1 {
		t.Errorf("said %d times:\n%s", n, e.Stderr)
	}
}
