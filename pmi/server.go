package pmi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/socket"
	"github.com/mpiup/mpiup/pmi/kvs"
)

// Job is what the server tells ranks about their job. All fields but Space may be zero.
type Job struct {
	Space    *kvs.Space
	AppNum   func(rank int) int // index of the rank's program in the job (MPI_APPNUM); nil: 0
	Universe int                // slots of the job (MPI_UNIVERSE_SIZE); 0: not known
	Mapping  string             // PMI_process_mapping, see job.ProcessMapping; "": clients find out by host names
	HwlocXML string             // path of an hwloc XML file that ranks can read; "": none
	Log      *slog.Logger       // nil: none; debug only
	Hooks    Hooks

	// PlainBarriers answers PMI 1.1, without barriers of groups; see GroupBarriers.
	PlainBarriers bool

	// Spawn starts the processes that a rank asks for; nil: no rank can. Serve calls it in the
	// rank's goroutine.
	Spawn func(ctx context.Context, r job.Spawn) (number int, err error)
	// Spawned says that the job was spawned: its ranks have a parent. They find the parent's
	// port, PARENT_ROOT_PORT_NAME, among the space's Preput; PMI-1 clients also need
	// PMI_SPAWNED=1 in their environment.
	Spawned bool

	// Reconnect is set where a rank may come back over another connection (PMI_PORT). A rank
	// that finalizes and hangs up is then not gone yet. With MPI sessions, MPICH 4.3 and later
	// connects anew for each, finalizes on the last only and leaves the others open, so the
	// caller serves several connections of a rank side by side.
	Reconnect bool
}

// Hooks tell the caller what a rank did; nil ones are left out. Each is called before the rank
// gets its answer.
type Hooks struct {
	OnInit     func(rank int)
	OnFinalize func(rank int)
	// OnAbort is MPI_Abort. code is as given; text is for people and may be empty. Serve
	// returns nil right after it.
	OnAbort func(rank, code int, text string)
}

// Server serves all ranks of one job on one host; ranks share what they need (ring, connections).
type Server struct {
	job   Job
	ring  ring
	turns kvs.Turns[turn]
	talks socket.Talks[int] // by rank

	mu     sync.Mutex
	latest map[int]*session // guarded by mu; of each rank, the session that began last
}

// begun notes that rank goes on over this session, which makes those before it history.
func (s *Server) begun(x *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.latest[x.rank] = x
}

// superseded says whether the rank has begun another session since.
func (s *Server) superseded(x *session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	latest := s.latest[x.rank]
	return latest != nil && latest != x
}

// enter takes rank through a fence of set (empty: the job), with the data of all.
func (s *Server) enter(ctx context.Context, rank int, set idset.Set, tag string) error {
	err := s.job.Space.Fence(ctx, rank, set, tag, true)
	var enter *kvs.EnterError
	if errors.As(err, &enter) {
		return &ProtocolError{err}
	}
	return err
}

// turn is one rank's place in one group's barriers.
type turn struct {
	rank  int
	group string
}

// ProtocolError is a rank that sent what no PMI client sends.
type ProtocolError struct{ Err error }

// Error is what the rank did; who serves it knows which it is.
func (e *ProtocolError) Error() string { return fmt.Sprintf("broke the PMI protocol: %v", e.Err) }

func (e *ProtocolError) Unwrap() error { return e.Err }

// UnfinishedError is a connection that ended between init and finalize. Mostly the process has
// ended too, and how it did says more.
type UnfinishedError struct {
	Cut bool // in the middle of a message
}

// Error is what the rank did.
func (e *UnfinishedError) Error() string {
	if e.Cut {
		return "closed its PMI connection in the middle of a message"
	}
	return "closed its PMI connection after MPI_Init, without MPI_Finalize"
}
