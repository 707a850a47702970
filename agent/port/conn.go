package port

import (
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/mpiup/mpiup/internal/identity"
	"github.com/mpiup/mpiup/internal/socket"
	"golang.org/x/sys/unix"
)

// trackedConn is a connection whose end the port notices.
type trackedConn struct {
	*net.TCPConn
	port    *Port
	born    time.Duration // by the agent's clock
	ended   chan struct{} // closed when it is, see leave
	leave   sync.Once
	settled bool   // it carries no session that is to begin, guarded by Port.mu
	holder  string // what it is for, role and name of who has it; "": nobody counts it, guarded by Port.mu
}

// youth is how long a connection may be a launcher's that is on its way to its session: it has
// a handshake and an Open to bring, perhaps with little CPU.
const youth = 5 * time.Second

// Settle says that the connection from addr is on its way no longer.
func (p *Port) Settle(addr net.Addr) {
	p.mu.Lock()
	defer p.mu.Unlock()
	from := addr.String()
	for c := range p.conns {
		if c.RemoteAddr().String() == from {
			c.settled = true
		}
	}
}

// Ended is closed when the connection from addr has ended.
func (p *Port) Ended(addr net.Addr) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	from := addr.String()
	for c := range p.conns {
		if c.RemoteAddr().String() == from {
			return c.ended
		}
	}
	gone := make(chan struct{})
	close(gone)
	return gone
}

// HasLeft says that whoever made the connection from addr has hung up, though nobody has read so yet.
func (p *Port) HasLeft(addr net.Addr) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	from := addr.String()
	for c := range p.conns {
		if c.RemoteAddr().String() == from {
			return socket.Ask(c).Left
		}
	}
	return true
}

// mayHave notes whose connection it is and what for; false: they have most of them already.
func (p *Port) mayHave(c *trackedConn, what string, who identity.Peer, most int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	holder, n := what+" "+string(who.Role)+" "+who.Name, 0
	for other := range p.conns {
		if other.holder == holder {
			n++
		}
	}
	c.holder = holder
	return n < most
}

// Close ends the connection, and the port forgets it.
func (c *trackedConn) Close() error {
	c.port.mu.Lock()
	delete(c.port.conns, c)
	c.port.mu.Unlock()
	c.leave.Do(func() { close(c.ended) })
	return c.TCPConn.Close()
}

// Unread tells whether bytes or connections have arrived that nobody has looked at yet: then it
// is we who are late, not the launcher. With redial, a connection that came a moment ago and
// may be a launcher's that comes back counts too.
func (p *Port) Unread(redial bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range append(p.also, p.Listener) {
		if raw, err := l.SyscallConn(); err == nil && queued(raw) {
			return true
		}
	}
	for c := range p.conns {
		if redial && !c.settled && p.Now()-c.born < youth {
			return true
		}
		if socket.Unread(c) > 0 {
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
