// Package socket tells what the kernel knows of a connection and the process does not: what has arrived and lies unread, and what the
// other side's kernel has acknowledged.
//
//	our process ──▶ our kernel ════▶ their kernel ──▶ their process
//	             unread ◀──┘  ◀─ack──┘
//
// A process that gets no processor is late, and whoever waits for it must not be called silent for that: what he said lies in the
// receive queue. And a kernel that acknowledges what its own process does not answer tells a process that is stopped or starved from a
// host that is gone.
//
// Concurrency: everything may be called from any goroutine. Nothing here reads from a connection.
package socket

import (
	"context"
	"errors"
	"net"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mpiup/mpiup/internal/awake"
)

// Unread is how many bytes have come over a connection that nobody has read (SIOCINQ: tcp(7), unix(7)); 0 where it does not tell, as one
// in memory.
func Unread(conn any) (n int) {
	raw := rawOf(conn)
	if raw == nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) {
		n, _ = unix.IoctlGetInt(int(fd), unix.SIOCINQ)
	})
	return n
}

// Peer is what our kernel knows of a connection's other side. The zero value knows nothing.
type Peer struct {
	Unread int           // bytes that have come and nobody has read: it is we who are late
	All    bool          // its kernel has acknowledged all that was sent
	Since  time.Duration // since it acknowledged something last, to a millisecond; it grows while nothing is sent, too
	Left   bool          // it has hung up, though we may not have read so
}

// Answers says that the other side's kernel has all that was sent, and said so within d: its host is there and the way to it open, whatever
// its process does.
func (p Peer) Answers(d time.Duration) bool { return p.All && p.Since <= d }

// Ask asks the kernel (tcp(7): TCP_INFO, SIOCOUTQ, SIOCINQ). A connection that is none of TCP's tells nothing.
func Ask(conn any) (p Peer) {
	raw := rawOf(conn)
	if raw == nil {
		return p
	}
	_ = raw.Control(func(fd uintptr) {
		p.Unread, _ = unix.IoctlGetInt(int(fd), unix.SIOCINQ)
		info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		left, lerr := unix.IoctlGetInt(int(fd), unix.SIOCOUTQ)
		switch {
		case err != nil || lerr != nil:
		case info.State == established:
			p.All, p.Since = left == 0, time.Duration(info.Last_ack_recv)*time.Millisecond
		default:
			p.Left = true
		}
	})
	return p
}

// established is the state of a connection that neither side has ended (include/net/tcp_states.h).
const established = 1

// HungUp says that the other side of a connection has closed it, whether or not that was read; false where it does not tell, as one in
// memory.
func HungUp(conn any) (yes bool) {
	raw := rawOf(conn)
	if raw == nil {
		return false
	}
	_ = raw.Control(func(fd uintptr) {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
		n, err := unix.Poll(fds, 0)
		yes = err == nil && n > 0 && fds[0].Revents&(unix.POLLRDHUP|unix.POLLHUP|unix.POLLERR) != 0
	})
	return yes
}

// rawOf is what the system calls of a connection need, below TLS too; nil: it has none.
func rawOf(conn any) syscall.RawConn {
	if over, ok := conn.(interface{ NetConn() net.Conn }); ok { // *tls.Conn
		conn = over.NetConn()
	}
	sys, ok := conn.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := sys.SyscallConn()
	if err != nil {
		return nil
	}
	return raw
}

// HangUp ends what we say over a connection, which its other side sees as its end; what that has said before can still be read. A
// connection that has no such half is closed.
func HangUp(conn net.Conn) {
	half, ok := conn.(interface{ CloseWrite() error })
	if !ok {
		_ = conn.Close()
		return
	}
	if err := half.CloseWrite(); err != nil && !errors.Is(err, unix.ENOTCONN) { // it was reset: its reader comes to the end
		_ = conn.Close()
	}
}

// mercy is how often Hear gives its time again to who has spoken and was not read.
const mercy = 2

// Hear bounds how long a connection's reads wait for the other side: they end with os.ErrDeadlineExceeded once d has counted
// (internal/awake) and nothing lies unread, else after d more, three times in all. lift takes that back, and fails where the connection is
// over; a deadline that passed meanwhile is taken back, too, since what was awaited has been read.
func Hear(conn net.Conn, d time.Duration) (lift func() error) {
	lifted := hear(conn, d, func() { _ = conn.SetReadDeadline(time.Unix(1, 0)) })
	return func() error {
		lifted()
		return conn.SetReadDeadline(time.Time{})
	}
}

// Within is ctx for what the other side of a connection has to say, bounded as by Hear. Its cause is then context.DeadlineExceeded.
func Within(ctx context.Context, conn net.Conn, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	lift := hear(conn, d, func() { cancel(context.DeadlineExceeded) })
	return ctx, func() { lift(); cancel(nil) }
}

// hear calls late once the time has passed, unless it is lifted before.
func hear(conn net.Conn, d time.Duration, late func()) (lift func()) {
	h := &hearing{conn: conn, d: d, late: late, left: mercy}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stop = awake.After(d, h.due)
	return h.lift
}

// hearing is the time of one Hear or Within.
type hearing struct {
	conn net.Conn
	d    time.Duration
	late func()

	mu   sync.Mutex
	stop func() // of the time under way, guarded by mu
	left int    // how often it may begin again, guarded by mu
	over bool   // guarded by mu
}

// due is called when the time has passed.
func (h *hearing) due() {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.over:
	case h.left > 0 && Unread(h.conn) > 0:
		h.left--
		h.stop = awake.After(h.d, h.due)
	default:
		h.late()
	}
}

func (h *hearing) lift() {
	h.mu.Lock()
	h.over = true
	stop := h.stop
	h.mu.Unlock()
	stop() // not under mu, for which due may be waiting
}
