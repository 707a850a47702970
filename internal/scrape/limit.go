package scrape

import (
	"net"
	"net/netip"

	"github.com/mpiup/mpiup/internal/bounded"
)

// limit makes of a listener one with a bounded number of open connections: for one more the oldest of the
// address that has most is closed. Probes and scrapes are short, so it is one that somebody holds
// open for no use, and a probe is never kept waiting by such.
func limit(l net.Listener, most int) net.Listener { return &limited{Listener: l, most: most} }

type limited struct {
	net.Listener
	most  int
	conns bounded.Crowd[*limitedConn]
}

// Accept returns the next connection.
func (l *limited) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	lc := &limitedConn{Conn: c, listener: l}
	from, _ := netip.ParseAddrPort(c.RemoteAddr().String())
	if old := l.conns.Add(lc, from.Addr().Unmap(), l.most); old != nil {
		old.Close()
	}
	return lc, nil
}

type limitedConn struct {
	net.Conn
	listener *limited
}

// Close ends the connection.
func (c *limitedConn) Close() error {
	c.listener.conns.Remove(c)
	return c.Conn.Close()
}
