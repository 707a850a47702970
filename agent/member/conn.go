package member

import (
	"net"

	"golang.org/x/sys/unix"
)

// wrapped is a connection around another one, as tls.Conn is.
type wrapped interface{ NetConn() net.Conn }

// hangUp closes without a goodbye: TLS's close_notify may block and gossip does not need it.
func hangUp(c net.Conn) error {
	if w, ok := c.(wrapped); ok {
		w.NetConn().Close()
	}
	return c.Close()
}

// userTimeout lets the kernel end a TCP connection whose data was not acknowledged for 4 s. TCP
// doubles its pauses, so after a cut of 10 s it would try again only 2.6 s late; a new
// connection is there sooner.
func userTimeout(c net.Conn) {
	if w, ok := c.(wrapped); ok {
		c = w.NetConn()
	}
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return
	}
	raw.Control(func(fd uintptr) {
		unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, 4000)
	})
}
