package reach

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/mpiup/mpiup/internal/api/codec"
	"github.com/mpiup/mpiup/internal/api/rpc"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/identity"
	"github.com/mpiup/mpiup/launcher/link"
)

// listening is an agent's front door: TLS, gRPC, Attach answered with opened.
type listening struct {
	rpc.UnimplementedAgentServer
	opened *apiv1.Opened
}

func (l *listening) Attach(s grpc.BidiStreamingServer[apiv1.Frame, apiv1.Frame]) error {
	if _, err := s.Recv(); err != nil {
		return err
	}
	if err := s.Send(l.opened.Frame()); err != nil {
		return err
	}
	<-s.Context().Done()
	return nil
}

// A frame that nobody can carry is no connection that broke, whether this launcher or the agent found it.
func TestUnfitFrameIsExplained(t *testing.T) {
	conn := &Conn{}
	for name, err := range map[string]error{
		"ours":             &codec.Unfit{Sent: true, Err: errors.New("why")},
		"theirs":           fmt.Errorf("stream: %w", &codec.Unfit{Err: errors.New("why")}),
		"the agent's word": status.Error(codes.DataLoss, "why"),
	} {
		if c := conn.explain(err); !c.Unfit || !strings.Contains(c.Error(), "why") {
			t.Errorf("%s: %+v", name, c)
		}
	}
	if c := conn.explain(status.Error(codes.Unavailable, "broke")); c.Unfit {
		t.Errorf("a broken connection: %+v", c)
	}
}

// acceptor hands gRPC handshaken connections.
type acceptor struct {
	net.Listener
	id *identity.Identity
}

func (a acceptor) Accept() (net.Conn, error) {
	for {
		raw, err := a.Listener.Accept()
		if err != nil {
			return nil, err
		}
		conn, err := a.id.Accept(context.Background(), raw, a.id.ServerConfig("h2"))
		if err == nil {
			return conn, nil
		}
	}
}

func loadIdentity(t testing.TB, key string, role identity.Role) *identity.Identity {
	t.Helper()
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte(key), 0o600); err != nil {
		t.Fatal(err)
	}
	id, err := identity.Load(identity.Options{KeyFile: file, Scope: "test", Role: role, Name: "h", Env: func(string) string { return "" }, Root: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

const (
	ourKey   = "our secret of more than sixteen bytes"
	otherKey = "another job's secret, quite different"
)

// serveAgent listens on loopback until the test ends.
func serveAgent(t testing.TB, key string, opened *apiv1.Opened) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer(grpc.Creds(identity.Transport()))
	rpc.RegisterAgentServer(s, &listening{opened: opened})
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(acceptor{l, loadIdentity(t, key, identity.RoleAgent)}) }()
	t.Cleanup(func() { s.Stop(); <-done })
	return l.Addr().(*net.TCPAddr).AddrPort()
}

// unheard is an address that is bound, so that no other test gets it, and where nobody listens.
func unheard(t *testing.T) netip.AddrPort {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	sa, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	in := sa.(*unix.SockaddrInet4)
	return netip.AddrPortFrom(netip.AddrFrom4(in.Addr), uint16(in.Port))
}

func TestAttach(t *testing.T) {
	fine := &apiv1.Opened{Host: &apiv1.HelloReply{Incarnation: "x"}}
	nobody := unheard(t)
	for _, tt := range []struct {
		name  string
		addr  netip.AddrPort
		stage link.Stage
		says  string // "": it succeeds
		check func(*link.Cause) bool
	}{
		{name: "agent of this job", addr: serveAgent(t, ourKey, fine)},
		{name: "nobody", addr: nobody, stage: link.StageConnect, says: "refused", check: func(c *link.Cause) bool { return c.Refused }},
		{name: "agent of another job", addr: serveAgent(t, otherKey, fine), stage: link.StageTLS, says: "another job"},
		{name: "old protocol", addr: serveAgent(t, ourKey, &apiv1.Opened{Refusal: apiv1.Refusal_REFUSAL_PROTOCOL, Protocol: 9, Version: "v9"}),
			stage: link.StageVersion, says: "protocol 9 (mpiup v9)"},
		{name: "fenced", addr: serveAgent(t, ourKey, &apiv1.Opened{Refusal: apiv1.Refusal_REFUSAL_FENCED}), stage: link.StageFenced, says: "newer launcher"},
		{name: "unknown session", addr: serveAgent(t, ourKey, &apiv1.Opened{Refusal: apiv1.Refusal_REFUSAL_UNKNOWN_SESSION}), stage: link.StageConnect,
			says: "does not know this session", check: func(c *link.Cause) bool { return c.Stranger }},
		{name: "shutting down", addr: serveAgent(t, ourKey, &apiv1.Opened{Refusal: apiv1.Refusal_REFUSAL_ENDING}), stage: link.StageConnect, says: "shutting down"},
		{name: "no incarnation", addr: serveAgent(t, ourKey, &apiv1.Opened{}), stage: link.StageConnect, says: "incarnation"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			r := &Reach{}
			r.Fill()
			s, err := NewDialer(loadIdentity(t, ourKey, identity.RoleLauncher), 1).Attach(ctx, ctx, tt.addr, NewOpener(r).Open())
			if tt.says == "" {
				if err != nil {
					t.Fatal(err)
				}
				s.Close()
				return
			}
			if err == nil {
				s.Close()
				t.Fatal("it succeeded")
			}
			c := link.AsCause(err)
			if c.Stage != tt.stage || !strings.Contains(c.Error(), tt.says) || tt.check != nil && !tt.check(c) {
				t.Errorf("stage %d, %q; want stage %d, %q", c.Stage, c, tt.stage, tt.says)
			}
			if n := strings.Count(c.Error(), tt.addr.String()); n != 1 {
				t.Errorf("%q names the address %d times", c, n)
			}
		})
	}
}

func BenchmarkAttach(b *testing.B) {
	addr := serveAgent(b, ourKey, &apiv1.Opened{Host: &apiv1.HelloReply{Incarnation: "x"}})
	d := NewDialer(loadIdentity(b, ourKey, identity.RoleLauncher), 16)
	r := &Reach{}
	r.Fill()
	o := NewOpener(r)
	b.ReportAllocs()
	for b.Loop() {
		s, err := d.Attach(context.Background(), context.Background(), addr, o.Open())
		if err != nil {
			b.Fatal(err)
		}
		s.Close()
	}
}

// Attempts at a host that is not there end by their time and by the kernel's word in turns: both say the same of it.
func TestHostThatIsNotThere(t *testing.T) {
	addr := netip.MustParseAddrPort("192.0.2.1:16748")
	if a, b := label((&Dialer{}).connCause(addr, syscall.EHOSTUNREACH)), label((&Dialer{}).silentAt(addr)); a != b {
		t.Errorf("%q and %q", a, b)
	}
}

// The line of waiting says no other thing of a host than the last lines: "no connection" is for where there was none.
func TestLabelsOfHostsThatAnswer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond) // it accepts by the kernel's hand
	defer cancel()
	_, err = NewDialer(loadIdentity(t, ourKey, identity.RoleLauncher), 1).connect(ctx, l.Addr().(*net.TCPAddr).AddrPort())
	c := link.AsCause(err)
	if got := label(c); !strings.HasPrefix(got, "connected, and nothing said in time on port ") || !strings.Contains(c.Error(), "says nothing") {
		t.Errorf("of %v the line says %q", c, got)
	}
	for _, c := range []*link.Cause{{Stage: link.StageConnect, Ending: true}, {Stage: link.StageConnect, Alive: true}, {Stage: link.StageConnect, Mute: true}} {
		if got := label(c); strings.Contains(got, "no connection") {
			t.Errorf("of %+v the line says %q", c, got)
		}
	}
}
