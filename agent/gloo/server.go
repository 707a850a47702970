package gloo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/mpiup/mpiup/internal/awake"
	"github.com/mpiup/mpiup/pmi/client"
	"github.com/mpiup/mpiup/pmi/loopback"
)

// Config is what a Server needs.
type Config struct {
	// Check says why a connection to a rank's port is not of the job's processes; nil lets everybody in.
	Check func(ctx context.Context, rank int, conn net.Conn) error
	Send  func(Update) // Store.Tell
	// Full is called when something finds no room, the first time, and when a port ends too early.
	Full func(error)
	Log  *slog.Logger
}

// Server serves the ranks of one job on one host. It knows other hosts' values from New on, before its own
// ranks have ports.
type Server struct {
	cfg   Config
	store Store
	ports map[int]net.Listener
	full  sync.Once // the user is told once that there is no room
}

// New starts nothing.
func New(cfg Config) *Server { return &Server{cfg: cfg, store: Store{Tell: cfg.Send}} }

// Open opens a port of loopback for each of this host's ranks. After it Run must be called, which closes them.
func (s *Server) Open(ranks []int) error {
	s.ports = make(map[int]net.Listener, len(ranks))
	for _, r := range ranks {
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			for _, open := range s.ports {
				open.Close()
			}
			s.ports = nil
			return err
		}
		s.ports[r] = l
	}
	return nil
}

// Port is where a rank finds the server on 127.0.0.1; 0 for a rank of another host.
func (s *Server) Port(rank int) uint16 {
	if l := s.ports[rank]; l != nil {
		return uint16(l.Addr().(*net.TCPAddr).Port)
	}
	return 0
}

// Met says that a rank of this host has met the others here once, or tried to.
func (s *Server) Met(rank int) bool { return s.store.used(rank) }

// Apply takes an update of another host.
func (s *Server) Apply(u Update) {
	if err := s.store.Apply(u); err != nil {
		s.full.Do(func() { s.cfg.Full(err) })
	}
}

// Run serves until ctx ends and all connections are closed.
func (s *Server) Run(ctx context.Context) {
	var wg sync.WaitGroup
	for rank, l := range s.ports {
		wg.Go(func() { s.serve(ctx, rank, l) })
	}
	wg.Wait()
}

// serve is one rank's port: a lobby that lets the rank's processes in, and behind it an HTTP server.
func (s *Server) serve(ctx context.Context, rank int, l net.Listener) {
	door := newDoor(l.Addr())
	h := s.server(ctx, rank)
	var wg sync.WaitGroup
	wg.Go(func() { _ = h.Serve(door) }) // ends with door's Close
	// Which of the rank's processes asks makes no difference here.
	cfg := loopback.Config{Name: "Horovod rendezvous", Log: s.cfg.Log}
	cfg.Admit = func(c net.Conn, _ client.Process) (func(context.Context), error) { return door.admit(c) }
	if s.cfg.Check != nil {
		cfg.Check = func(ctx context.Context, c net.Conn) (client.Process, error) {
			return client.Process{}, s.cfg.Check(ctx, rank, c)
		}
	}
	lb := loopback.New(cfg)
	if err := lb.Run(ctx, l); ctx.Err() == nil {
		s.cfg.Full(fmt.Errorf("the rendezvous of Horovod's rank %d ended: %w", rank, err))
	}
	door.Close()
	_ = h.Shutdown(context.WithoutCancel(ctx)) // waits for handlers, whose connections are closed and whose context has ended
	wg.Wait()
}

// server bounds how long a rank's requests are.
func (s *Server) server(ctx context.Context, rank int) *http.Server {
	return &http.Server{
		Handler:        s.handler(rank),
		MaxHeaderBytes: 4 << 10,
		ErrorLog:       slog.NewLogLogger(s.cfg.Log.Handler(), slog.LevelDebug),
		BaseContext:    func(net.Listener) context.Context { return ctx },
	}
}

// handler answers one rank. The client takes 200 and 404 for answers, and dies after three of any other.
func (s *Server) handler(rank int) http.Handler {
	bodies := make(chan struct{}, maxBodies) // nobody counts them before they are whole
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close") // the client makes a connection for each request
		status, value := s.answer(w, r, rank, bodies)
		w.Header().Set("Content-Length", strconv.Itoa(len(value))) // the client does not know chunks
		w.WriteHeader(status)
		if _, err := w.Write(value); err != nil {
			panic(http.ErrAbortHandler) // it is hung up on, and asks again if it has not gone
		}
	})
}

func (s *Server) answer(w http.ResponseWriter, r *http.Request, rank int, bodies chan struct{}) (status int, value []byte) {
	words := strings.Split(r.URL.Path, "/")
	if len(words) != 3 || words[0] != "" {
		return http.StatusBadRequest, nil
	}
	scope, key := words[1], words[2]
	switch r.Method {
	case http.MethodGet:
		ctx, cancel := awake.Within(r.Context(), patience)
		defer cancel()
		if value, ok := s.store.Get(ctx, rank, scope, key); ok {
			return http.StatusOK, value
		}
		return http.StatusNotFound, nil
	case http.MethodPut:
		value, err := body(w, r, bodies)
		if err != nil {
			return http.StatusRequestEntityTooLarge, nil
		}
		return s.changed(s.store.Put(rank, scope, key, value)), nil
	case http.MethodDelete:
		return s.changed(s.store.Finish(rank, scope, key)), nil
	}
	return http.StatusMethodNotAllowed, nil
}

// body takes in what a rank puts, one after the other.
func body(w http.ResponseWriter, r *http.Request, turn chan struct{}) ([]byte, error) {
	select {
	case turn <- struct{}{}:
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	defer func() { <-turn }()
	return io.ReadAll(http.MaxBytesReader(w, r.Body, maxValue))
}

// changed is the status of what changed something, or could not.
func (s *Server) changed(err error) int {
	switch {
	case err == nil:
		return http.StatusOK
	case errors.Is(err, ErrName):
		return http.StatusBadRequest
	}
	s.full.Do(func() { s.cfg.Full(err) })
	return http.StatusInsufficientStorage
}
