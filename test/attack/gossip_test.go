package attack

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/agent/member"
	"github.com/mpiup/mpiup/internal/identity"
	"github.com/mpiup/mpiup/test/lab"
)

// The holder of a worker's certificate says in gossip that another life of the launcher has all the numbers there
// are. Nobody is barred: run and exec work as before.
func TestForgedClaims(t *testing.T) {
	s := newSite(t)
	victim := startAgent(t, nil, "--http", "off", "--tls-dir", s.files("mpiup://g/agent/w"))
	id, err := identity.Load(identity.Options{TLSDir: s.files("mpiup://g/agent/x"), Role: identity.RoleAgent, Name: "x", Root: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	const life = "ffffffffffffffffffffffffffffffff"
	kind, text := identity.NumberClaim(1<<40, life)
	proof, err := id.Sign(kind, text) // with what it has
	if err != nil {
		t.Fatal(err)
	}
	stop := gossip(t, id, victim, func(g *member.Gossip) {
		for _, name := range []string{"l", "launcher"} {
			g.Claim(name, 1<<40, life, proof)
		}
	})
	defer stop()
	dir := "--tls-dir=" + s.files("mpiup://g/launcher/l")
	for range 2 {
		if e := mpiup(t, "run", dir, "--host", victim.Addr, "-n", "1", "--", "echo", "runs"); e.Code != 0 || e.Stdout != "runs\n" {
			t.Errorf("run ends with %d, %q:\n%s", e.Code, e.Stdout, e.Stderr)
		}
		if e := mpiup(t, "exec", dir, victim.Addr, "--", "echo", "runs"); e.Code != 0 || e.Stdout != "runs\n" {
			t.Errorf("exec ends with %d, %q:\n%s", e.Code, e.Stdout, e.Stderr)
		}
	}
	if log := victim.Log.String(); strings.Contains(log, "number=1099511627777") || !strings.Contains(log, "number=1 ") {
		t.Error("the forged number was believed")
	} else if strings.Contains(log, "number=2 ") {
		t.Error("the launcher did not know its own number again, which the agent told it with its signature")
	}
}

// gossip is a hostile member, which has done what it does when gossip returns, and told the victim.
func gossip(t *testing.T, id *identity.Identity, victim *lab.Loopback, do func(*member.Gossip)) (stop func()) {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(lab.Address(), "0"))
	if err != nil {
		t.Fatal(err)
	}
	dial := func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", to.String())
		if err != nil {
			return nil, err
		}
		return id.Connect(ctx, c, id.ClientConfig("mpiup-gossip/1"))
	}
	g, err := member.New(member.Config{
		Self: member.Self{Name: "x", Incarnation: "life-of-x", Version: "v", Protocol: 1, Addr: l.Addr().(*net.TCPAddr).AddrPort()},
		Log:  slog.New(slog.DiscardHandler), Dial: dial,
		Seeds: func(context.Context) ([]netip.AddrPort, error) {
			return []netip.AddrPort{netip.MustParseAddrPort(fmt.Sprint(victim.Addr, ":", port))}, nil
		},
		Verify: func(string, uint64, string, []byte) bool { return true },
	})
	if err != nil {
		t.Fatal(err)
	}
	do(g) // before it joins: the first exchange tells all
	ctx, cancel := context.WithCancel(context.Background())
	ran, served := make(chan error, 1), make(chan struct{})
	go func() { ran <- g.Run(ctx) }()
	go func() {
		defer close(served)
		for {
			c, err := l.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil {
				continue
			}
			if conn, err := id.Accept(ctx, c, id.ServerConfig("mpiup-gossip/1")); err == nil {
				g.Handle(conn)
			}
		}
	}()
	lab.Eventually(t, "the victim knows the hostile member", func() bool { return len(g.View().Members) == 2 })
	return func() {
		cancel()
		if err := <-ran; err != nil {
			t.Error(err)
		}
		l.Close()
		<-served
	}
}
