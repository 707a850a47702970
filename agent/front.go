package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"syscall"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/identity"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/peer"
)

// Protocols on the agent's one port, told apart by ALPN; the third is apiv1.AskProtocol.
const (
	alpnGRPC   = "h2" // sessions
	alpnGossip = "mpiup-gossip/1"
)

const (
	handshakeDeadline = 10 * time.Second
	maxHandshakes     = 512 // half-open connections at once; for more, old ones go
	maxAskers         = 16  // connections for questions of one name and role at once
	maxOfAgents       = 64  // connections for sessions of one agent's name: ssh from workers, where a policy allows it
)

// front is the agent's port: it accepts, lets TLS prove who calls, and hands connections on.
type front struct {
	listener   *net.TCPListener
	advertised netip.AddrPort
	accept     func(context.Context, net.Conn) (*identity.Conn, error) // proves who calls
	refused    func(addr net.Addr, err error)
	gossip     func(*identity.Conn)
	now        func() time.Duration // the agent's clock

	sessions, questions *inlet
	half                crowd[*trackedConn]
	done                chan struct{}
	wg                  sync.WaitGroup

	mu    sync.Mutex
	conns map[*trackedConn]struct{} // guarded by mu
	shut  bool                      // guarded by mu
}

// ListenError is Run's error when the agent's port or address cannot be had.
type ListenError struct{ err error }

func (e *ListenError) Error() string { return e.err.Error() }

// Unwrap returns the error of net.
func (e *ListenError) Unwrap() error { return e.err }

// listen binds the first free port of the candidates.
func listen(ctx context.Context, host string, ports []int) (*net.TCPListener, error) {
	lc := net.ListenConfig{KeepAliveConfig: net.KeepAliveConfig{Enable: false}}
	lc.SetMultipathTCP(false)
	var last error
	for _, p := range ports {
		l, err := lc.Listen(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(p)))
		if err == nil {
			return l.(*net.TCPListener), nil
		}
		last = err
		if !errors.Is(err, syscall.EADDRINUSE) {
			break
		}
	}
	if errors.Is(last, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("all of the ports %v are taken: %w; is another agent of this job running here?", ports, last)
	}
	return nil, fmt.Errorf("cannot listen: %w", last)
}

func newFront(l *net.TCPListener, advertised netip.AddrPort, accept func(context.Context, net.Conn) (*identity.Conn, error)) *front {
	return &front{
		sessions:   newInlet(l.Addr()),
		questions:  newInlet(l.Addr()),
		listener:   l,
		advertised: advertised,
		accept:     accept,
		now:        func() time.Duration { return 0 },
		done:       make(chan struct{}),
		conns:      make(map[*trackedConn]struct{}),
	}
}

// run accepts until close.
func (f *front) run() error {
	for {
		c, err := f.listener.AcceptTCP()
		if err != nil {
			select {
			case <-f.done:
				return nil
			default:
			}
			if errors.Is(err, net.ErrClosed) {
				return err
			}
			// Out of descriptors or memory, or the caller is gone already: the next may do.
			select {
			case <-time.After(50 * time.Millisecond):
			case <-f.done:
			}
			continue
		}
		tracked := &trackedConn{TCPConn: c, front: f, born: f.now()}
		from := c.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap()
		if old := f.half.add(tracked, from, maxHandshakes); old != nil {
			old.Close()
		}
		f.wg.Go(func() { f.handshake(tracked) })
	}
}

func (f *front) handshake(tracked *trackedConn) {
	if !f.track(tracked) {
		f.half.remove(tracked)
		tracked.Close()
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), handshakeDeadline)
	defer cancel()
	conn, err := f.accept(ctx, tracked)
	f.half.remove(tracked)
	if err != nil {
		tracked.Close()
		f.refused(tracked.RemoteAddr(), err)
		return
	}
	who := conn.Peer()
	tooMany := func(what string, most int) {
		conn.Close()
		f.refused(tracked.RemoteAddr(), fmt.Errorf("%q as %s has %d connections for %s already", who.Name, who.Role, most, what))
	}
	switch conn.ConnectionState().NegotiatedProtocol {
	case alpnGRPC:
		// A launcher's sessions are bounded, and it may start anything. Others need no session for a connection.
		if identity.Require(who, identity.RoleLauncher) != nil && !f.mayHave(tracked, "sessions", who, maxOfAgents) {
			tooMany("sessions", maxOfAgents)
			return
		}
		f.sessions.put(conn)
	case apiv1.AskProtocol:
		f.settle(tracked.RemoteAddr())
		if !f.mayHave(tracked, "questions", who, maxAskers) {
			tooMany("questions", maxAskers)
			return
		}
		f.questions.put(conn)
	case alpnGossip:
		f.settle(tracked.RemoteAddr())
		f.gossip(conn)
	default:
		conn.Close()
	}
}

// close ends the port and every connection that came through it.
func (f *front) close() {
	f.mu.Lock()
	if f.shut {
		f.mu.Unlock()
		return
	}
	f.shut = true
	close(f.done)
	f.listener.Close()
	for c := range f.conns {
		c.TCPConn.Close()
	}
	f.mu.Unlock()
	f.wg.Wait()
}

func (f *front) track(c *trackedConn) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.shut {
		return false
	}
	f.conns[c] = struct{}{}
	return true
}

// trackedConn is a connection whose end the front notices.
type trackedConn struct {
	*net.TCPConn
	front   *front
	born    time.Duration // by the agent's clock
	settled bool          // it carries no session that is to begin, guarded by front.mu
	holder  string        // what it is for, role and name of who has it; "": nobody counts it, guarded by front.mu
}

// youth is how long a connection may be a launcher's that is on its way to its session: it has
// a handshake and an Open to bring, perhaps with little CPU.
const youth = 5 * time.Second

// settle says that the connection from addr is on its way no longer.
func (f *front) settle(addr net.Addr) {
	f.mu.Lock()
	defer f.mu.Unlock()
	from := addr.String()
	for c := range f.conns {
		if c.RemoteAddr().String() == from {
			c.settled = true
		}
	}
}

// mayHave notes whose connection it is and what for; false: they have most of them already.
func (f *front) mayHave(c *trackedConn, what string, who identity.Peer, most int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	holder, n := what+" "+string(who.Role)+" "+who.Name, 0
	for other := range f.conns {
		if other.holder == holder {
			n++
		}
	}
	c.holder = holder
	return n < most
}

// settle is for the connection of a call; the embedded agent has none.
func (a *Agent) settle(ctx context.Context) {
	if p, ok := peer.FromContext(ctx); ok && a.front != nil {
		a.front.settle(p.Addr)
	}
}

func (c *trackedConn) Close() error {
	c.front.mu.Lock()
	delete(c.front.conns, c)
	c.front.mu.Unlock()
	return c.TCPConn.Close()
}

// unread tells whether bytes or connections have arrived that nobody has looked at yet: then it
// is we who are late, not the launcher. With redial, a connection that came a moment ago and
// may be a launcher's that comes back counts too.
func (f *front) unread(redial bool) bool {
	if raw, err := f.listener.SyscallConn(); err == nil && queued(raw) {
		return true
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.conns {
		if redial && !c.settled && f.now()-c.born < youth {
			return true
		}
		if raw, err := c.SyscallConn(); err == nil && inQueue(raw) > 0 {
			return true
		}
	}
	return false
}

// queued tells whether a listening socket holds connections to be accepted: for such a socket
// tcpi_unacked is the length of that queue (tcp_get_info in net/ipv4/tcp.c).
func queued(raw syscall.RawConn) (yes bool) {
	raw.Control(func(fd uintptr) {
		info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		yes = err == nil && info.Unacked > 0
	})
	return yes
}

// inQueue is the number of bytes received and not read (SIOCINQ, tcp(7)).
func inQueue(raw syscall.RawConn) (n int) {
	raw.Control(func(fd uintptr) {
		n, _ = unix.IoctlGetInt(int(fd), unix.SIOCINQ)
	})
	return n
}

// unread is false for the embedded agent, whose pipe is read as soon as it is written.
func (a *Agent) unread(redial bool) bool { return a.front != nil && a.front.unread(redial) }
