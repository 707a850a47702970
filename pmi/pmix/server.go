package pmix

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/mpiup/mpiup/pmi/kvs"
	"github.com/mpiup/mpiup/pmi/pmix/bfrops"
)

// Server serves this host's ranks of one job.
type Server struct {
	job   Job
	local map[int]int // local rank (place on its host) of this host's ranks
	data  jobData
	names names
	done  cleanup
	turns kvs.Turns[turn]

	mu    sync.Mutex
	ranks map[int]*rank       // guarded by mu
	conns map[*conn]struct{}  // guarded by mu; those past the handshake
	group map[groupKey]uint64 // guarded by mu; groups made so far
	told  int                 // guarded by mu; strangers in the log
}

// rank is what its connections share.
type rank struct {
	main      *conn      // guarded by Server.mu; see the package comment
	open      int        // guarded by Server.mu; connections
	committed bool       // guarded by Server.mu
	sections  [2]section // guarded by Server.mu; local, remote
}

// New returns a server that starts nothing. It fails on a job that no launcher would send.
func New(job Job) (*Server, error) {
	if err := job.validate(); err != nil {
		return nil, err
	}
	if job.Log == nil {
		job.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{
		job: job, local: map[int]int{}, ranks: map[int]*rank{}, conns: map[*conn]struct{}{}, group: map[groupKey]uint64{},
	}
	for i, r := range job.Hosts[job.Here].Ranks {
		s.local[r] = i
		s.ranks[r] = &rank{}
	}
	s.data.job = &s.job
	s.names = newNames(job.Engine)
	return s, nil
}

const (
	handshakeTime = 5 * time.Second
	maxHandshakes = 64 // at one time; more wait in the listener's queue
	maxPerRank    = 16 // connections open at one time
	maxTold       = 16 // refusals of strangers in the log; then at debug level only
)

// Run accepts and serves connections until ctx ends (its cause) or the listener fails. It closes
// the listener, and waits for everything it started.
func (s *Server) Run(ctx context.Context, l net.Listener) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer context.AfterFunc(ctx, func() { l.Close() })()
	defer l.Close()
	wg.Go(func() { s.data.packed(bfrops.Canonical(), false) }) // before the first rank asks
	slots := make(chan struct{}, maxHandshakes)
	for {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		nc, err := l.Accept()
		if err != nil {
			<-slots
			if ctx.Err() == nil && passes(ctx, err) {
				continue
			}
			cancel(fmt.Errorf("PMIx listener: %w", err))
			return context.Cause(ctx)
		}
		wg.Go(func() {
			defer nc.Close()
			defer context.AfterFunc(ctx, func() { nc.Close() })()
			c, err := s.admit(nc)
			<-slots
			if err != nil {
				s.refused(nc, err)
				return
			}
			c.run(ctx)
		})
	}
}

// refused tells the caller if the connection was a rank's; of strangers the log knows.
func (s *Server) refused(nc net.Conn, err error) {
	var refused *RefusedError
	if errors.As(err, &refused) {
		s.failed(refused.Rank, err)
		return
	}
	s.mu.Lock()
	s.told++
	level := slog.LevelWarn
	if s.told > maxTold {
		level = slog.LevelDebug
	}
	s.mu.Unlock()
	s.job.Log.Log(context.Background(), level, "refused a PMIx connection", "from", nc.RemoteAddr().String(), "cause", err)
}

// passes waits a moment where accepting can work again: the peer has gone, or descriptors ran out.
func passes(ctx context.Context, err error) bool {
	if !errors.Is(err, syscall.ECONNABORTED) && !errors.Is(err, syscall.EMFILE) && !errors.Is(err, syscall.ENFILE) {
		return false
	}
	t := time.NewTimer(10 * time.Millisecond)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (s *Server) failed(rank int, err error) {
	s.job.Log.Debug("PMIx", "rank", rank, "cause", err)
	if f := s.job.Hooks.OnError; f != nil {
		f(rank, err)
	}
}
