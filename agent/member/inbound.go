package member

import (
	"io"
	"net"
	"net/netip"
	"time"

	"github.com/mpiup/mpiup/internal/awake"
)

// Handle takes over an accepted connection, handshaken and verified, and returns at once.
func (t *Transport) Handle(conn net.Conn) {
	if t.begin() == nil {
		hangUp(conn)
		return
	}
	go t.accept(conn)
}

// accept tells what an accepted connection is for and serves it. It has a count in t.wg.
func (t *Transport) accept(conn net.Conn) {
	from, err := netip.ParseAddrPort(conn.RemoteAddr().String())
	ip := from.Addr().Unmap()
	if err != nil || !t.admit(conn, ip) {
		hangUp(conn)
		t.wg.Done()
		return
	}
	userTimeout(conn)
	lift := awake.Until(conn.SetReadDeadline, helloTime)
	var kind [1]byte
	io.ReadFull(conn, kind[:]) // nothing read leaves 0
	l := &link{t: t, used: time.Now()}
	known := kind[0] == 'S' || kind[0] == 'P' && l.readHello(conn, ip)
	lift() // if this fails the connection is over, which its reader sees
	t.forget(conn)
	switch {
	case !known:
		hangUp(conn)
	case kind[0] == 'S' && t.acceptStream(conn, ip):
		return // its Close gives the counts back
	case kind[0] == 'P':
		l.run(conn)
	}
	t.release(ip)
	t.wg.Done()
}

// acceptStream hands a stream to memberlist; false when the transport has closed.
func (t *Transport) acceptStream(conn net.Conn, ip netip.Addr) bool {
	s := t.stream(conn, ip)
	if s == nil {
		return false
	}
	select {
	case t.streams <- s:
	default:
		s.Close()
	}
	return true
}

// admit counts an accepted connection and lists it for Shutdown.
func (t *Transport) admit(conn net.Conn, ip netip.Addr) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ctx.Err() != nil || t.taken >= maxAccepted || t.perIP[ip] >= maxPerIP {
		return false
	}
	t.taken++
	t.perIP[ip]++
	t.raw[conn] = struct{}{}
	return true
}

// release gives back what admit counted; the zero address: nothing.
func (t *Transport) release(ip netip.Addr) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !ip.IsValid() {
		return
	}
	t.taken--
	if t.perIP[ip]--; t.perIP[ip] == 0 {
		delete(t.perIP, ip)
	}
}

// readHello reads the address the dialler states; it is believed only about its own host.
func (l *link) readHello(conn net.Conn, ip netip.Addr) bool {
	var n [1]byte
	if _, err := io.ReadFull(conn, n[:]); err != nil || n[0] > 64 {
		return false
	}
	b := make([]byte, n[0])
	if _, err := io.ReadFull(conn, b); err != nil {
		return false
	}
	var stated netip.AddrPort
	if stated.UnmarshalBinary(b) != nil || !stated.IsValid() || stated.Port() == 0 {
		return false
	}
	if stated.Addr() == ip {
		l.peer = stated
	}
	return true
}
