package ways

import (
	"context"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"syscall"

	"github.com/mpiup/mpiup/internal/awake"
	"github.com/mpiup/mpiup/internal/job"
)

// Server answers other hosts.
type Server struct {
	listeners []*net.TCPListener
	token     Token
}

// Listen opens a port of the range, any where the range is zero, on each of the addresses. Ports that ranks of a
// running job have are passed over.
func Listen(at []netip.Addr, ports job.Ports, token Token) (*Server, error) {
	if len(at) == 0 {
		return nil, errors.New("this host has no address to answer at")
	}
	s := &Server{token: token}
	for _, addr := range at {
		l, err := listen(addr, ports)
		if err != nil {
			s.close()
			return nil, err
		}
		s.listeners = append(s.listeners, l)
	}
	return s, nil
}

func listen(at netip.Addr, ports job.Ports) (*net.TCPListener, error) {
	const tries = 256
	first, n := 0, 1
	if !ports.IsZero() {
		first, n = rand.IntN(ports.Len()), min(ports.Len(), tries)
	}
	var last error
	for i := range n {
		port := uint16(0)
		if !ports.IsZero() {
			port = ports.Low + uint16((first+i)%ports.Len())
		}
		l, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.AddrPortFrom(at, port)))
		if err == nil {
			return l, nil
		}
		last = err
	}
	var errno syscall.Errno
	if errors.As(last, &errno) {
		last = errno // which says what net's sentence wraps
	}
	switch {
	case ports.IsZero():
		return nil, fmt.Errorf("no port of %s can be had: %w", at, last)
	case n < ports.Len():
		return nil, fmt.Errorf("none of %d ports of %s that were tried is free on %s: %w", n, ports, at, last)
	}
	return nil, fmt.Errorf("no port of %s is free on %s: %w", ports, at, last)
}

// Addresses are those it listens on.
func (s *Server) Addresses() (list []netip.AddrPort) {
	for _, l := range s.listeners {
		list = append(list, l.Addr().(*net.TCPAddr).AddrPort())
	}
	return list
}

func (s *Server) close() {
	for _, l := range s.listeners {
		l.Close()
	}
}

// Run serves until ctx ends, and returns when all ports and connections are closed.
func (s *Server) Run(ctx context.Context) {
	var served sync.WaitGroup
	defer closing(ctx, s.close)()
	slots := make(chan struct{}, maxServed)
	for _, l := range s.listeners {
		served.Go(func() { s.accept(ctx, l, slots) })
	}
	served.Wait()
}

// closing calls shut when ctx ends, or when the function that it returns is called. That function returns only after
// shut did: a Close beside another goroutine's returns at once, with the descriptor still open.
func closing(ctx context.Context, shut func()) (now func()) {
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { shut(); close(done) })
	return func() {
		if stop() {
			shut()
			return
		}
		<-done
	}
}

func (s *Server) accept(ctx context.Context, l *net.TCPListener, slots chan struct{}) {
	var served sync.WaitGroup
	defer served.Wait()
	for {
		c, err := l.AcceptTCP()
		if err != nil {
			return
		}
		// Who closes first keeps the port for a minute (TIME_WAIT), unless it resets: ranks need this one next.
		_ = c.SetLinger(0)
		select {
		case slots <- struct{}{}:
		default:
			c.Close()
			continue
		}
		served.Go(func() {
			defer func() { <-slots }()
			defer closing(ctx, func() { c.Close() })()
			defer awake.After(serveTime, func() { c.Close() })()
			s.serve(c)
		})
	}
}

func (s *Server) serve(c *net.TCPConn) {
	var head [len(s.token) + 1]byte
	if _, err := io.ReadFull(c, head[:]); err != nil || subtle.ConstantTimeCompare(head[:len(s.token)], s.token[:]) != 1 {
		return
	}
	switch head[len(s.token)] {
	case kindEcho:
		io.Copy(c, io.LimitReader(c, maxEcho))
	case kindSink:
		n, err := io.Copy(io.Discard, c)
		if err == nil {
			_, err = c.Write(binary.BigEndian.AppendUint64(nil, uint64(n)))
		}
		if err == nil { // else it is hung up on at once
			io.Copy(io.Discard, c) // a reset would overtake the answer: the other side closes first
		}
	}
}
