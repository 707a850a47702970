package pmix

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/pmi/kvs"
	"github.com/mpiup/mpiup/pmi/lobby"
)

// Config is what is one for the host and the run.
type Config struct {
	Address    string // of Run's listener: "127.0.0.1:41235"; never IPv6, whose port libpmix up to 5.0 loses
	SessionDir string // where ranks of this host may make files, and Cleanup removes them; "": nowhere
	HwlocXML   string // hwloc's version 2 XML of this host; "": none

	// Check says whether a connection may speak at all: that its socket belongs to one of this
	// host's ranks or their descendants. It runs before anything is read, and may wait until ctx
	// ends. nil: all may.
	Check func(ctx context.Context, conn net.Conn) error
	Log   *slog.Logger // nil: none
	Hooks Hooks

	// Process is the process id and the program of a process of this host; 0 and "": not known. nil: none is.
	Process func(id int) (pid int, program string)

	Engine *kvs.Engine // the run's

	// Spawn starts what a rank of job asks for and returns the new job's number, once it is
	// added here and its processes run; why it does not, it tells the user itself. nil:
	// MPI_Comm_spawn is not supported.
	Spawn func(ctx context.Context, job int, r job.Spawn) (child int, err error)
}

// Server serves this host's ranks of the jobs of one run.
type Server struct {
	cfg   Config
	log   *slog.Logger
	names names
	done  cleanup
	turns kvs.Turns[turn]

	ctx    context.Context // of what is started for no connection; ends with Run
	cancel context.CancelCauseFunc

	tooHeavy sync.Once // the user is told of the first barrier that carries too much

	mu      sync.Mutex
	jobs    map[int]*namespace  // guarded by mu; by number
	ended   []*namespace        // guarded by mu; the last that are over, oldest first
	added   chan struct{}       // guarded by mu; closed and replaced when a job is added
	conns   map[*conn]struct{}  // guarded by mu; those past the handshake
	group   map[groupKey]uint64 // guarded by mu; groups made so far
	known   knownGroups         // guarded by mu; groups that have members here
	recent  []recent            // guarded by mu; oldest first
	aborted idset.Set           // guarded by mu; ids of processes that others have ended
	unheard map[uint64]bool     // guarded by mu; requests that the user was told of
	over    bool                // guarded by mu; Run is ending

	work sync.WaitGroup // job data being packed, what jobs that are over leave behind
}

// rank is what its connections share.
type rank struct {
	main      *conn         // guarded by Server.mu; see the package comment
	open      int           // guarded by Server.mu; connections
	committed bool          // guarded by Server.mu
	sections  [2]section    // guarded by Server.mu; local, remote
	changed   chan struct{} // guarded by Server.mu; closed at the next commit, or when it is gone; nil: nobody waits
}

// New returns a server that starts nothing and has no jobs yet.
func New(cfg Config) (*Server, error) {
	if host, _, err := net.SplitHostPort(cfg.Address); err != nil || strings.Contains(host, ":") {
		return nil, fmt.Errorf("%q is no address of a PMIx server: an IPv4 address and a port", cfg.Address)
	}
	s := &Server{
		cfg: cfg, log: cfg.Log, jobs: map[int]*namespace{}, added: make(chan struct{}),
		conns: map[*conn]struct{}{}, group: map[groupKey]uint64{}, known: knownGroups{}, unheard: map[uint64]bool{}, names: newNames(cfg.Engine.Names()),
	}
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	cfg.Engine.OnGone(s.gone)
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	return s, nil
}

const maxPerRank = 16 // connections open at one time

// Run accepts and serves connections until ctx ends (its cause) or the listener fails. It closes
// the listener, and waits for everything it started.
func (s *Server) Run(ctx context.Context, l net.Listener) error {
	defer s.end()
	return lobby.New(lobby.Config{Name: "PMIx", Check: s.cfg.Check, Admit: s.receive, Log: s.log}).Run(ctx, l)
}

// receive admits a connection. The caller is told of a rank that cannot be served.
func (s *Server) receive(nc net.Conn) (serve func(context.Context), err error) {
	c, err := s.admit(nc)
	var refused *RefusedError
	switch {
	case errors.As(err, &refused):
		s.failed(refused.ID, err)
		return nil, nil
	case err != nil:
		return nil, err
	}
	return c.run, nil
}

// end lets no more jobs in, and waits for what was started for them.
func (s *Server) end() {
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
	s.cancel(errors.New("the PMIx server has ended"))
	s.work.Wait()
}

// start runs f, which Run waits for; false after it.
func (s *Server) start(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return false
	}
	s.work.Go(f)
	return true
}

// notice is a sentence for the user.
func (s *Server) notice(format string, args ...any) {
	if f := s.cfg.Hooks.OnNotice; f != nil {
		f(fmt.Sprintf(format, args...))
	}
}

func (s *Server) failed(id int, err error) {
	s.log.Debug("PMIx", "id", id, "cause", err)
	if f := s.cfg.Hooks.OnError; f != nil {
		f(id, err)
	}
}
