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
	"github.com/mpiup/mpiup/pmi/client"
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

	Processes Processes // without it nobody is refused for another process
}

// Processes is what the server has to know of this host's processes. Both may be nil.
type Processes struct {
	Lives  func(client.Process) bool // it has not ended, nor is about to
	Sleeps func(client.Process) bool // it waits for something just now
}

// Hooks tell the caller what a rank did; nil ones are left out. Each is called before the rank
// gets its answer.
type Hooks struct {
	OnInit     func(rank int, who client.Process) // who is in MPI for the rank from here on, as far as that is known
	OnFinalize func(rank int)
	// OnSecond is a process that called MPI_Init as a rank for which another one is in MPI. It is told so and refused
	// whatever it asks for.
	OnSecond func(client.Second)
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
	latest map[int]*presence // guarded by mu; by rank
}

// presence is where a rank speaks, or spoke last.
type presence struct {
	session *session       // the one that began last, which makes those before it history
	who     client.Process // that began it
	inMPI   bool           // between init and finalize
}

// begin notes that a rank goes on over this session, unless another process is in MPI for it, and returns who was so far.
func (s *Server) begin(x *session, who client.Process) (before client.Process, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.latest[x.rank]; p != nil && p.inMPI {
		if before = p.who; before.Excludes(who, s.job.Processes.Lives) {
			return before, false
		}
	}
	s.latest[x.rank] = &presence{session: x, who: who, inMPI: true}
	return before, true
}

// finish notes that the rank is not in MPI over this session any more.
func (s *Server) finish(x *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.latest[x.rank]; p != nil && p.session == x {
		p.inMPI = false
	}
}

// superseded says whether the rank has begun another session since.
func (s *Server) superseded(x *session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.latest[x.rank]
	return p != nil && p.session != x
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
