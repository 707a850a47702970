package gloo

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/mpiup/mpiup/internal/awake"
)

// door hands connections that pmi/loopback has let in to an HTTP server, as its listener.
type door struct {
	addr net.Addr
	in   chan net.Conn
	shut chan struct{}
	once sync.Once
	open chan struct{} // a place for each connection
}

func newDoor(addr net.Addr) *door {
	return &door{addr: addr, in: make(chan net.Conn), shut: make(chan struct{}), open: make(chan struct{}, maxConns)}
}

// requestBound is how long a request and its answer may take.
const requestBound = 10 * time.Second

// admit takes what pmi/loopback lets in: the connection is the HTTP server's until that closes it, for one request and as long as that may take.
func (d *door) admit(c net.Conn) (serve func(context.Context), err error) {
	select {
	case d.open <- struct{}{}:
	default:
		return nil, fmt.Errorf("the rank has %d connections already", maxConns)
	}
	return func(ctx context.Context) {
		defer func() { <-d.open }()
		h := &handed{Conn: c, over: make(chan struct{})}
		defer awake.After(requestBound, func() { _ = h.Conn.Close() })() // and not a deadline of HTTP's, which would count while this process is stopped
		select {
		case d.in <- h:
		case <-d.shut:
			return
		case <-ctx.Done():
			return
		}
		select {
		case <-h.over:
		case <-ctx.Done():
		}
	}, nil
}

// handed is a connection that tells when it is closed.
type handed struct {
	net.Conn
	over chan struct{}
	once sync.Once
}

func (h *handed) Close() error {
	h.once.Do(func() { close(h.over) })
	return h.Conn.Close()
}

// Accept, Close and Addr make a door a net.Listener.

// Accept waits for a connection.
func (d *door) Accept() (net.Conn, error) {
	select {
	case c := <-d.in:
		return c, nil
	case <-d.shut:
		return nil, net.ErrClosed
	}
}

// Close lets nobody in any more.
func (d *door) Close() error {
	d.once.Do(func() { close(d.shut) })
	return nil
}

// Addr is the port's.
func (d *door) Addr() net.Addr { return d.addr }
