package probe

import (
	"context"
	"crypto/subtle"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/mpiup/mpiup/internal/network"
)

// Server answers other hosts.
type Server struct {
	listener net.Listener
	token    Token
}

// Listen opens a port of the range, any where the range is zero, on all addresses.
func Listen(ports network.Ports, token Token) (*Server, error) {
	if ports.IsZero() {
		l, err := net.Listen("tcp", ":0")
		return &Server{l, token}, err
	}
	first := rand.IntN(ports.Len())
	var last error
	for i := range min(ports.Len(), 256) {
		port := int(ports.Low) + (first+i)%ports.Len()
		l, err := net.Listen("tcp", ":"+strconv.Itoa(port))
		if err == nil {
			return &Server{l, token}, nil
		}
		last = err
	}
	return nil, fmt.Errorf("no port of %s is free: %w", ports, last)
}

// Port is the one it listens on.
func (s *Server) Port() int { return s.listener.Addr().(*net.TCPAddr).Port }

// Run serves until ctx ends, and returns when all connections are closed.
func (s *Server) Run(ctx context.Context) {
	var served sync.WaitGroup
	stop := context.AfterFunc(ctx, func() { s.listener.Close() })
	defer stop()
	slots := make(chan struct{}, maxServed)
	for {
		c, err := s.listener.Accept()
		if err != nil {
			break
		}
		select {
		case slots <- struct{}{}:
		default:
			c.Close()
			continue
		}
		served.Go(func() {
			defer func() { <-slots }()
			defer c.Close()
			stop := context.AfterFunc(ctx, func() { c.Close() })
			defer stop()
			c.SetDeadline(time.Now().Add(serveTime))
			s.serve(c)
		})
	}
	s.listener.Close()
	served.Wait()
}

func (s *Server) serve(c net.Conn) {
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
			c.Write(binary.BigEndian.AppendUint64(nil, uint64(n)))
		}
	}
}
