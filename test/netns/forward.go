package netns

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Forwarder passes TCP connections on and can spoil them: delay, stall, reset, close.
//
//	client ──▶ listener ═══ pass(client→server) ═══▶ server
//	       ◀══════════════ pass(server→client) ════
//
// A stalled forwarder holds bytes, at most 1 MiB a direction beyond the kernel's buffers, and
// forwards no FIN; new connections are accepted and see silence as well. After Freeze the same
// holds for the connections there are, while new ones pass. A client's or server's RST is passed
// on as one.
type Forwarder struct {
	addr   netip.Addr
	dial   func(ctx context.Context, port string) (net.Conn, error)
	ctx    context.Context
	cancel context.CancelFunc
	all    sync.WaitGroup

	mu        sync.Mutex
	changed   *sync.Cond     // of stalled and ctx
	delay     time.Duration  // guarded by mu
	stalled   bool           // guarded by mu
	refuse    bool           // guarded by mu
	made      int            // connections so far, guarded by mu
	frozen    int            // the first so many of them stand still, guarded by mu
	conns     []*net.TCPConn // guarded by mu: client and server, in pairs
	listeners []net.Listener // guarded by mu
}

// Forward makes a forwarder for the host at an address of its own on the switch, for the given
// ports. Whoever is to go through it gets that address as the host's (SetHosts, DNS).
func (c *Cluster) Forward(hostName string, ports ...int) (*Forwarder, error) {
	h, err := c.host(hostName)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, errClosed
	}
	c.proxies++
	if c.proxies > 250 {
		return nil, errors.New("no address left for a forwarder: 250 have been made")
	}
	addr := addressesOf(c.cfg.Family, firstProxy+c.proxies)[0]
	line := fmt.Sprintf("addr add %s dev br0%s\n", prefixOf(addr), nodad(addr))
	if err := c.ip(context.Background(), c.sw, line); err != nil {
		return nil, fmt.Errorf("forwarder for %s: %w", hostName, err)
	}
	f := newForwarder(addr, func(ctx context.Context, port string) (net.Conn, error) {
		return c.sw.dial(ctx, "tcp", net.JoinHostPort(h.addresses()[0].String(), port))
	})
	for _, p := range ports {
		l, err := c.sw.listen("tcp", netip.AddrPortFrom(addr, uint16(p)).String())
		if err != nil {
			return nil, errors.Join(fmt.Errorf("forwarder for %s: %w", hostName, err), f.Close())
		}
		f.serve(l)
	}
	c.forwards = append(c.forwards, f)
	return f, nil
}

// NewForwarder forwards loopback connections, for tests without root: it listens on a free
// port of 127.0.0.1 and connects to target. Addr and Port say where.
func NewForwarder(target string) (*Forwarder, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	f := newForwarder(netip.MustParseAddr("127.0.0.1"), func(ctx context.Context, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", target)
	})
	f.serve(l)
	return f, nil
}

func newForwarder(addr netip.Addr, dial func(context.Context, string) (net.Conn, error)) *Forwarder {
	f := &Forwarder{addr: addr, dial: dial}
	f.ctx, f.cancel = context.WithCancel(context.Background())
	f.changed = sync.NewCond(&f.mu)
	return f
}

// Addr is the address it listens on.
func (f *Forwarder) Addr() netip.Addr { return f.addr }

// Port is its first port.
func (f *Forwarder) Port() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.listeners[0].Addr().(*net.TCPAddr).Port
}

// Delay lets every byte arrive that much later in each direction, from now on.
func (f *Forwarder) Delay(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.delay = d
}

// Stall holds all bytes, with no FIN and no reset, until Resume.
func (f *Forwarder) Stall() { f.set(func() { f.stalled = true }) }

// Freeze holds the bytes of the connections there are, as a path does that has lost its state,
// until Resume; new ones pass.
func (f *Forwarder) Freeze() { f.set(func() { f.frozen = f.made }) }

// Resume ends Stall, Freeze and Refuse.
func (f *Forwarder) Resume() { f.set(func() { f.stalled, f.refuse, f.frozen = false, false, 0 }) }

// Refuse resets new connections at once, until Resume; those there are go on.
func (f *Forwarder) Refuse() { f.set(func() { f.refuse = true }) }

// Reset ends all connections with RST, in both directions.
func (f *Forwarder) Reset() { f.end(true) }

// CloseConns ends all connections with FIN, in both directions.
func (f *Forwarder) CloseConns() { f.end(false) }

// Conns is the number of connections that clients have open.
func (f *Forwarder) Conns() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.conns) / 2
}

// Close ends the forwarder and all its connections, with RST.
func (f *Forwarder) Close() error {
	f.set(f.cancel)
	f.mu.Lock()
	listeners := f.listeners
	f.mu.Unlock()
	for _, l := range listeners {
		l.Close()
	}
	f.end(true)
	f.all.Wait()
	return nil
}

func (f *Forwarder) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
	f.changed.Broadcast()
}

func (f *Forwarder) end(reset bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.conns {
		if reset {
			_ = c.SetLinger(0)
		}
		c.Close()
	}
	f.conns = nil
}

func (f *Forwarder) serve(l net.Listener) {
	f.mu.Lock()
	f.listeners = append(f.listeners, l)
	f.mu.Unlock()
	port := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	f.all.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			f.all.Go(func() { f.connect(client.(*net.TCPConn), port) })
		}
	})
}

// connect takes one client through.
func (f *Forwarder) connect(client *net.TCPConn, port string) {
	f.mu.Lock()
	refuse := f.refuse
	f.mu.Unlock()
	var server net.Conn
	err := errors.New("refused")
	if !refuse {
		server, err = f.dial(f.ctx, port)
	}
	if err != nil {
		_ = client.SetLinger(0)
		client.Close()
		return
	}
	there := server.(*net.TCPConn)
	f.mu.Lock()
	if f.ctx.Err() != nil {
		f.mu.Unlock()
		client.Close()
		there.Close()
		return
	}
	f.conns = append(f.conns, client, there)
	f.made++
	number := f.made
	f.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { f.pass(client, there, number) })
	both.Go(func() { f.pass(there, client, number) })
	both.Wait()
	client.Close()
	there.Close()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.conns = slices.DeleteFunc(f.conns, func(c *net.TCPConn) bool { return c == client || c == there })
}

// chunk is what was read at once; without data it is the end, by FIN or RST.
type chunk struct {
	data  []byte
	due   time.Time
	reset bool
}

// pass moves bytes one way, each chunk when it is due and nothing is held. At the end it
// passes FIN on; after an error both sides are reset.
func (f *Forwarder) pass(from, to *net.TCPConn, number int) {
	queue := make(chan chunk, 64)
	f.all.Go(func() {
		defer close(queue)
		for {
			buf := make([]byte, 16<<10)
			n, err := from.Read(buf)
			f.mu.Lock()
			due := time.Now().Add(f.delay)
			f.mu.Unlock()
			if n > 0 {
				queue <- chunk{data: buf[:n], due: due}
			}
			if err != nil {
				queue <- chunk{due: due, reset: !errors.Is(err, io.EOF)}
				return
			}
		}
	})
	failed := false
	for c := range queue { // to its end, so that the reader is never left behind
		if failed || !f.wait(c.due, number) {
			continue
		}
		var err error
		switch {
		case c.reset:
			failed = true
		case c.data == nil:
			err = to.CloseWrite()
		default:
			_, err = to.Write(c.data)
		}
		if failed = failed || err != nil; failed {
			for _, conn := range []*net.TCPConn{from, to} {
				_ = conn.SetLinger(0)
				conn.Close()
			}
		}
	}
}

// wait returns at the time due once the connection of that number is not held; false when the
// forwarder is closed.
func (f *Forwarder) wait(due time.Time, number int) bool {
	if d := time.Until(due); d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
		case <-f.ctx.Done():
			return false
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for (f.stalled || number <= f.frozen) && f.ctx.Err() == nil {
		f.changed.Wait()
	}
	return f.ctx.Err() == nil
}
