package launcher

import (
	"context"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/identity"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
)

// listening is an agent's front door: TLS, gRPC, Attach answered with opened.
type listening struct {
	apiv1.UnimplementedAgentServer
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
	s := grpc.NewServer(grpc.Creds(identity.ServerTransport()))
	apiv1.RegisterAgentServer(s, &listening{opened: opened})
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
		stage stage
		says  string // "": it succeeds
		check func(*cause) bool
	}{
		{name: "agent of this job", addr: serveAgent(t, ourKey, fine)},
		{name: "nobody", addr: nobody, stage: stageConnect, says: "refused", check: func(c *cause) bool { return c.refused }},
		{name: "agent of another job", addr: serveAgent(t, otherKey, fine), stage: stageTLS, says: "another job"},
		{name: "old protocol", addr: serveAgent(t, ourKey, &apiv1.Opened{Refusal: apiv1.Refusal_REFUSAL_PROTOCOL, Protocol: 9, Version: "v9"}),
			stage: stageVersion, says: "protocol 9 (mpiup v9)"},
		{name: "fenced", addr: serveAgent(t, ourKey, &apiv1.Opened{Refusal: apiv1.Refusal_REFUSAL_FENCED}), stage: stageFenced, says: "newer launcher"},
		{name: "unknown session", addr: serveAgent(t, ourKey, &apiv1.Opened{Refusal: apiv1.Refusal_REFUSAL_UNKNOWN_SESSION}), stage: stageConnect,
			says: "does not know this session", check: func(c *cause) bool { return c.stranger }},
		{name: "shutting down", addr: serveAgent(t, ourKey, &apiv1.Opened{Refusal: apiv1.Refusal_REFUSAL_ENDING}), stage: stageConnect, says: "shutting down"},
		{name: "no incarnation", addr: serveAgent(t, ourKey, &apiv1.Opened{}), stage: stageConnect, says: "incarnation"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			r := &Reach{}
			r.fill()
			s, err := newDialer(loadIdentity(t, ourKey, identity.RoleLauncher), 1).attach(ctx, ctx, tt.addr, newOpener(r).open())
			if tt.says == "" {
				if err != nil {
					t.Fatal(err)
				}
				s.close()
				return
			}
			if err == nil {
				s.close()
				t.Fatal("it succeeded")
			}
			c := asCause(err)
			if c.stage != tt.stage || !strings.Contains(c.Error(), tt.says) || tt.check != nil && !tt.check(c) {
				t.Errorf("stage %d, %q; want stage %d, %q", c.stage, c, tt.stage, tt.says)
			}
			if n := strings.Count(c.Error(), tt.addr.String()); n != 1 {
				t.Errorf("%q names the address %d times", c, n)
			}
		})
	}
}

func BenchmarkAttach(b *testing.B) {
	addr := serveAgent(b, ourKey, &apiv1.Opened{Host: &apiv1.HelloReply{Incarnation: "x"}})
	d := newDialer(loadIdentity(b, ourKey, identity.RoleLauncher), 16)
	r := &Reach{}
	r.fill()
	o := newOpener(r)
	b.ReportAllocs()
	for b.Loop() {
		s, err := d.attach(context.Background(), context.Background(), addr, o.open())
		if err != nil {
			b.Fatal(err)
		}
		s.close()
	}
}

// Attempts at a host that is not there end by their time and by the kernel's word in turns: both say the same of it.
func TestHostThatIsNotThere(t *testing.T) {
	addr := netip.MustParseAddrPort("192.0.2.1:16748")
	if a, b := connCause(addr, syscall.EHOSTUNREACH).label(), silentAt(addr).label(); a != b {
		t.Errorf("%q and %q", a, b)
	}
}
