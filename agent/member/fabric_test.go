package member

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/mpiup/mpiup/test/need"
)

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		os.Exit(child())
	}
	code := m.Run()
	// What memberlist leaves behind ends within two seconds (doc.go); Find itself tries for one.
	err := goleak.Find()
	for end := time.Now().Add(5 * time.Second); err != nil && time.Now().Before(end); {
		err = goleak.Find()
	}
	if err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// fabric is a network in memory, for use inside a synctest bubble: connections carry bytes at
// once, unless a host is cut off, when bytes and connection attempts wait.
type fabric struct {
	mu     sync.Mutex
	hosts  map[netip.AddrPort]*Gossip // guarded by mu; who listens
	deaf   map[netip.Addr]bool        // guarded by mu; nothing reaches it
	mute   map[netip.Addr]bool        // guarded by mu; nothing leaves it
	opened chan struct{}              // guarded by mu; closed when a cut ends
	dialed int                        // guarded by mu
}

func newFabric() *fabric {
	return &fabric{hosts: map[netip.AddrPort]*Gossip{}, deaf: map[netip.Addr]bool{}, mute: map[netip.Addr]bool{}, opened: make(chan struct{})}
}

func (f *fabric) cut(a netip.Addr, in, out bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.deaf[a], f.mute[a] = in, out
	close(f.opened)
	f.opened = make(chan struct{})
}

// pass waits until bytes may go from one address to another.
func (f *fabric) pass(from, to netip.Addr, stop <-chan struct{}) bool {
	for {
		f.mu.Lock()
		blocked, opened := f.mute[from] || f.deaf[to], f.opened
		f.mu.Unlock()
		if !blocked {
			return true
		}
		select {
		case <-opened:
		case <-stop:
			return false
		}
	}
}

func (f *fabric) dialer(from netip.AddrPort) func(context.Context, netip.AddrPort) (net.Conn, error) {
	return func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
		// The three packets of a handshake pass both ways.
		if !f.pass(from.Addr(), to.Addr(), ctx.Done()) || !f.pass(to.Addr(), from.Addr(), ctx.Done()) {
			return nil, ctx.Err()
		}
		f.mu.Lock()
		g := f.hosts[to]
		f.dialed++
		f.mu.Unlock()
		if g == nil {
			return nil, errors.New("connection refused")
		}
		a, b := net.Pipe()
		near := &fabricConn{Conn: a, f: f, at: from, far: to, stop: make(chan struct{})}
		far := &fabricConn{Conn: b, f: f, at: to, far: netip.AddrPortFrom(from.Addr(), 50000), stop: make(chan struct{})}
		g.Handle(far)
		return near, nil
	}
}

// fabricConn holds what is written for as long as the way is cut; writes have room for it, as
// they have in a kernel's buffers.
type fabricConn struct {
	net.Conn
	f       *fabric
	at, far netip.AddrPort
	stop    chan struct{}

	mu     sync.Mutex
	held   []byte // guarded by mu
	busy   bool   // guarded by mu; a goroutine carries held over
	closed bool   // guarded by mu
}

func (c *fabricConn) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return 0, net.ErrClosed
	}
	c.held = append(c.held, b...)
	if !c.busy {
		c.busy = true
		go c.carry()
	}
	return len(b), nil
}

func (c *fabricConn) carry() {
	for c.f.pass(c.at.Addr(), c.far.Addr(), c.stop) {
		c.mu.Lock()
		b := c.held
		c.held = nil
		if len(b) == 0 {
			c.busy = false
			if c.closed {
				c.Conn.Close()
			}
			c.mu.Unlock()
			return
		}
		c.mu.Unlock()
		if _, err := c.Conn.Write(b); err != nil {
			return
		}
	}
	c.Conn.Close()
}

func (c *fabricConn) SetWriteDeadline(time.Time) error { return nil }

// Close lets what was written pass first, as TCP does, but gives a cut 5 s at most to end.
func (c *fabricConn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return net.ErrClosed
	}
	c.closed = true
	c.Conn.SetReadDeadline(time.Unix(1, 0))
	if !c.busy {
		return c.Conn.Close()
	}
	time.AfterFunc(5*time.Second, func() { close(c.stop); c.Conn.Close() })
	return nil
}

func (c *fabricConn) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(c.far) }

// node is one member of a test's job.
type node struct {
	*Gossip
	addr netip.AddrPort
	f    *fabric
	kill func() // at once, without goodbye: nobody listens, and it runs on unheard
	stop func() // ends Run and waits
}

// start runs a member; seeds are the addresses it is told of.
func (f *fabric) start(t *testing.T, name, incarnation, addr string, seeds ...string) *node {
	t.Helper()
	at := netip.MustParseAddrPort(addr)
	var log *slog.Logger
	if os.Getenv("MPIUP_MEMBER_TEST_LOG") != "" {
		log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug})).With("at", name)
	}
	g, err := New(Config{
		Log:    log,
		Self:   Self{Name: name, Incarnation: incarnation, Version: "v1", Protocol: 1, Addr: at, Slots: 2, Digest: "d"},
		Dial:   f.dialer(at),
		Seeds:  func(context.Context) ([]netip.AddrPort, error) { return parseAddrs(seeds), nil },
		Verify: func(name string, _ uint64, _ string, proof []byte) bool { return string(proof) == said(name) },
	})
	if err != nil {
		t.Fatal(err)
	}
	f.listen(at, g)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- g.Run(ctx) }()
	n := &node{Gossip: g, addr: at, f: f}
	n.kill = func() { f.cut(at.Addr(), true, true); f.unlisten(at, g) }
	n.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		f.unlisten(at, g)
	})
	t.Cleanup(n.stop)
	return n
}

func (f *fabric) listen(at netip.AddrPort, g *Gossip) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hosts[at] = g
}

func (f *fabric) unlisten(at netip.AddrPort, g *Gossip) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.hosts[at] == g {
		delete(f.hosts, at)
	}
}

func parseAddrs(in []string) []netip.AddrPort {
	var out []netip.AddrPort
	for _, s := range in {
		out = append(out, netip.MustParseAddrPort(s))
	}
	return out
}

// job starts n members that all have each other's addresses as seeds.
func (f *fabric) job(t *testing.T, n int) []*node {
	t.Helper()
	var addrs []string
	for i := range n {
		addrs = append(addrs, fmt.Sprintf("10.0.%d.%d:7000", i/250, i%250+1))
	}
	var out []*node
	for i, a := range addrs {
		out = append(out, f.start(t, fmt.Sprintf("w-%03d", i), fmt.Sprintf("inc%03d", i), a, addrs...))
	}
	for _, m := range out {
		m.await(t, time.Minute, func(v *View) bool { return count(v, Alive) == n })
	}
	return out
}

func count(v *View, s State) int {
	n := 0
	for _, m := range v.Members {
		if m.State == s {
			n++
		}
	}
	return n
}

// await waits until the view satisfies ok and gives the time it took; more than most fails.
func (n *node) await(t *testing.T, most time.Duration, ok func(*View) bool) time.Duration {
	t.Helper()
	start := time.Now()
	late := time.NewTimer(most)
	defer late.Stop()
	for {
		v, changed := n.Watch()
		if ok(v) {
			return time.Since(start)
		}
		select {
		case <-changed:
		case <-late.C:
			t.Fatalf("%s after %v sees %d members: %+v", n.addr, most, len(v.Members), v.Members)
		}
	}
}

// holds watches for d of time that the view satisfies ok all along.
func (n *node) holds(d time.Duration, ok func(*View) bool) bool {
	end := time.NewTimer(d)
	defer end.Stop()
	for {
		v, changed := n.Watch()
		if !ok(v) {
			return false
		}
		select {
		case <-changed:
		case <-end.C:
			return true
		}
	}
}

func state(name string, s State) func(*View) bool {
	return func(v *View) bool { return len(v.ByName(name)) == 1 && v.ByName(name)[0].State == s }
}

func gone(name string) func(*View) bool {
	return func(v *View) bool { return len(v.ByName(name)) == 0 }
}

// bubble runs f in virtual time. What memberlist leaves behind has two seconds, no more, to end
// after the members have been stopped (doc.go), and the fabric five to end a connection; a
// goroutine that is there later fails the test.
//
// Not under the race detector: with Go 1.26 it corrupts itself now and then where bubbles have
// many timers (golang/go#78156; here in one run of ten). The tests over real connections, whose
// code is the same, do run under it.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	need.NoRace(t, "golang/go#78156: synctest and the race detector")
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { time.Sleep(6 * time.Second) })
		f(t)
	})
}

// ByName are the members called name, in the order of the view.
func (v *View) ByName(name string) []Member {
	return slices.DeleteFunc(slices.Clone(v.Members), func(m Member) bool { return m.Name != name })
}

// describeAs has a member say another digest of itself from now on.
func (g *Gossip) describeAs(digest string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.meta.Digest = digest
	poke(g.renew)
}
