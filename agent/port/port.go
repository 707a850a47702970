package port

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

	"github.com/mpiup/mpiup/internal/bounded"
	"github.com/mpiup/mpiup/internal/identity"
	"github.com/mpiup/mpiup/internal/socket"
)

// Protocols on the agent's one port, told apart by ALPN; the third is apiv1.AskProtocol.
const (
	Sessions = "h2" // sessions
	Gossip   = "mpiup-gossip/1"
)

// Bounds of callers.
const (
	HandshakeDeadline = 10 * time.Second
	maxHandshakes     = 512 // half-open connections at once; for more, old ones go
	MaxAskers         = 16  // connections for questions of one name and role at once
	MaxOfAgents       = 64  // connections for sessions of one agent's name: ssh from workers, where a policy allows it
)

// Config is what a Port needs.
type Config struct {
	Listener   *net.TCPListener
	Advertised netip.AddrPort                                          // where peers reach it
	Asking     string                                                  // the protocol of questions
	Accept     func(context.Context, net.Conn) (*identity.Conn, error) // proves who calls
	Refused    func(addr net.Addr, err error)                          // told of a caller that was not let in
	Now        func() time.Duration                                    // the agent's clock
}

// Port is the agent's port: it accepts, lets TLS prove who calls, and hands connections on.
type Port struct {
	Config
	Gossip              func(*identity.Conn) // takes connections for gossip; set before Run, nil: they are closed
	Sessions, Questions net.Listener         // of the two gRPC servers

	sessions, questions *inlet
	half                bounded.Crowd[*trackedConn]
	done                chan struct{}
	wg                  sync.WaitGroup

	mu    sync.Mutex
	also  []*net.TCPListener        // beside Config's, the oldest first, guarded by mu
	conns map[*trackedConn]struct{} // guarded by mu
	shut  bool                      // guarded by mu
}

// ListenError is Listen's error when the agent's port or address cannot be had.
type ListenError struct{ err error }

func (e *ListenError) Error() string { return e.err.Error() }

// Unwrap returns the error of net.
func (e *ListenError) Unwrap() error { return e.err }

// Listen binds the first free port of the candidates.
func Listen(ctx context.Context, host string, ports []int) (*net.TCPListener, error) {
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
		return nil, &ListenError{fmt.Errorf("all of the ports %v are taken: %w; is another agent of this job running here?", ports, last)}
	}
	return nil, &ListenError{fmt.Errorf("cannot listen: %w", last)}
}

// Advertise is the address peers reach this agent at: the one it is bound to, else the first
// of its interfaces that is neither loopback nor link-local, as in a pod with one interface.
func Advertise(bound netip.AddrPort) netip.AddrPort {
	if ip := bound.Addr().Unmap(); !ip.IsUnspecified() {
		return netip.AddrPortFrom(ip, bound.Port())
	}
	var loop netip.Addr
	addrs, _ := net.InterfaceAddrs()
	for _, a := range addrs {
		p, err := netip.ParsePrefix(a.String())
		if err != nil || p.Addr().IsLinkLocalUnicast() {
			continue
		}
		ip := p.Addr().Unmap()
		if ip.IsLoopback() {
			loop = ip
			continue
		}
		return netip.AddrPortFrom(ip, bound.Port())
	}
	if !loop.IsValid() {
		loop = netip.MustParseAddr("127.0.0.1")
	}
	return netip.AddrPortFrom(loop, bound.Port())
}

// New only builds.
func New(c Config) *Port {
	p := &Port{Config: c, sessions: newInlet(c.Listener.Addr()), questions: newInlet(c.Listener.Addr()),
		done: make(chan struct{}), conns: make(map[*trackedConn]struct{})}
	p.Sessions, p.Questions = p.sessions, p.questions
	return p
}

// maxAlso bounds the other ports of an agent.
const maxAlso = 2

// Also has the agent listen on another port too, until Close or until as many others have come.
func (p *Port) Also(l *net.TCPListener) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shut {
		l.Close()
		return
	}
	if p.also = append(p.also, l); len(p.also) > maxAlso {
		p.also[0].Close()
		p.also = p.also[1:]
	}
	p.wg.Go(func() { _ = p.accept(l) }) // it ends with the listener
}

// Run accepts until close.
func (p *Port) Run() error { return p.accept(p.Listener) }

func (p *Port) accept(l *net.TCPListener) error {
	for {
		c, err := l.AcceptTCP()
		if err != nil {
			select {
			case <-p.done:
				return nil
			default:
			}
			if errors.Is(err, net.ErrClosed) {
				return err
			}
			// Out of descriptors or memory, or the caller is gone already: the next may do.
			select {
			case <-time.After(50 * time.Millisecond):
			case <-p.done:
			}
			continue
		}
		tracked := &trackedConn{TCPConn: c, port: p, born: p.Now(), ended: make(chan struct{})}
		from := c.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap()
		if old := p.half.Add(tracked, from, maxHandshakes); old != nil {
			old.Close()
		}
		p.wg.Go(func() { p.handshake(tracked) })
	}
}

func (p *Port) handshake(tracked *trackedConn) {
	if !p.track(tracked) {
		p.half.Remove(tracked)
		tracked.Close()
		return
	}
	if socket.Ask(tracked).Left { // it has given us up: on a host that gets little CPU that is work which delays others'
		p.half.Remove(tracked)
		tracked.Close()
		return
	}
	ctx, cancel := socket.Within(context.Background(), tracked, HandshakeDeadline)
	defer cancel()
	conn, err := p.Accept(ctx, tracked)
	p.half.Remove(tracked)
	if err != nil {
		tracked.Close()
		p.Refused(tracked.RemoteAddr(), err)
		return
	}
	who := conn.Peer()
	tooMany := func(what string, most int) {
		conn.Close()
		p.Refused(tracked.RemoteAddr(), fmt.Errorf("%q as %s has %d connections for %s already", who.Name, who.Role, most, what))
	}
	switch conn.ConnectionState().NegotiatedProtocol {
	case Sessions:
		// A launcher's sessions are bounded, and it may start anything. Others need no session for a connection.
		if identity.Require(who, identity.RoleLauncher) != nil && !p.mayHave(tracked, "sessions", who, MaxOfAgents) {
			tooMany("sessions", MaxOfAgents)
			return
		}
		p.sessions.put(conn)
	case p.Asking:
		p.Settle(tracked.RemoteAddr())
		if !p.mayHave(tracked, "questions", who, MaxAskers) {
			tooMany("questions", MaxAskers)
			return
		}
		p.questions.put(conn)
	case Gossip:
		if p.Gossip != nil {
			p.Settle(tracked.RemoteAddr())
			p.Gossip(conn)
			return
		}
		conn.Close()
	default:
		conn.Close()
	}
}

// Close ends the port and every connection that came through it.
func (p *Port) Close() {
	p.mu.Lock()
	if p.shut {
		p.mu.Unlock()
		return
	}
	p.shut = true
	close(p.done)
	for _, l := range append(p.also, p.Listener) {
		l.Close()
	}
	for c := range p.conns {
		c.TCPConn.Close()
	}
	p.mu.Unlock()
	p.wg.Wait()
}

func (p *Port) track(c *trackedConn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shut {
		return false
	}
	p.conns[c] = struct{}{}
	return true
}
