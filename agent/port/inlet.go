package port

import (
	"net"
	"sync"
)

// inlet is the listener of one of the gRPC servers behind the port: what it accepts has proved who calls.
type inlet struct {
	addr   net.Addr
	conns  chan net.Conn
	closed chan struct{} // the server takes no more
	end    func()
}

func newInlet(addr net.Addr) *inlet {
	closed := make(chan struct{})
	return &inlet{addr: addr, conns: make(chan net.Conn), closed: closed, end: sync.OnceFunc(func() { close(closed) })}
}

// put hands a connection to the server, or closes it if there is none any more.
func (i *inlet) put(c net.Conn) {
	select {
	case i.conns <- c:
	case <-i.closed:
		c.Close()
	}
}

// Accept returns the next connection.
func (i *inlet) Accept() (net.Conn, error) {
	select {
	case c := <-i.conns:
		return c, nil
	case <-i.closed:
		return nil, net.ErrClosed
	}
}

// Close is the server's end. The port belongs to the agent and stays open.
func (i *inlet) Close() error {
	i.end()
	return nil
}

// Addr is the bound address.
func (i *inlet) Addr() net.Addr { return i.addr }
