package pmix

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"

	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/pmi/client"
	"github.com/mpiup/mpiup/pmi/kvs"
	"github.com/mpiup/mpiup/pmi/pmix/event"
	"github.com/mpiup/mpiup/pmi/pmix/jobdata"
)

// Config is what is one for the host and the run.
type Config struct {
	jobdata.Machine // its Address is Run's listener's

	// Check says whether a connection may speak at all: that its socket belongs to one of this
	// host's ranks or their descendants; and to which process, as far as that shows. It runs before
	// anything is read, and may wait until ctx ends. nil: all may.
	Check func(ctx context.Context, conn net.Conn) (client.Process, error)
	// Lives says that a process has not ended, nor is about to. nil: of no process it is known.
	Lives func(client.Process) bool
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

// Job is one job of the run. Its Size and Parent are found out by Add.
type Job struct {
	jobdata.Job
	Space     *kvs.Space   // of Config.Engine
	SpawnedBy *job.Process // nil: no rank spawned it
	Surely    bool         // ranks here will ask: they load a library that speaks PMIx
}

// Hooks tell the caller what a rank did; nil ones are left out. They speak of processes by id,
// base of the job + rank. Each is called before the rank gets its answer, from the connection's
// goroutine.
type Hooks struct {
	OnInit     func(id int, who client.Process) // who has the rank's main connection from here on
	OnFinalize func(id int)
	// OnAbort is MPI_Abort. code is as given; text is for people and may be empty; targets are
	// the processes to end, nil for the caller's whole job. The rank ends when it returns, which it
	// should once ctx has ended.
	OnAbort func(ctx context.Context, id, code int, text string, targets []int)
	// OnControl is a rank that wants processes to get a signal; with end they are to end, which is
	// no failure. nil: not supported.
	OnControl func(id int, targets []int, signal int, end bool)
	// OnError is a rank that cannot go on: *ProtocolError, *RefusedError, ErrUnfinished,
	// *kvs.GoneError (of ids) when it waits for a rank that is gone, or what the engine says. It
	// gets no answer then, so that it prints nothing of its own before it is stopped.
	OnError func(id int, err error)
	// OnSecond is a process that says that it is a rank for which another one is in MPI. It is refused.
	OnSecond func(client.Second)
	// OnLog is text that a rank wants shown with its output.
	OnLog func(id int, stderr bool, text string)
	// OnNotice is a sentence that the user should read.
	OnNotice func(text string)
	// OnEvent is an event for ranks of other hosts; their servers are given it with Notify. It may keep the
	// rank waiting that raised it.
	OnEvent func(event.Event)
}

// RefusedError is a rank whose libpmix this server cannot speak with.
type RefusedError struct {
	ID      int    // of the rank in the run
	Version string // of its libpmix
	Why     string // what does not fit, and what to do
}

// Error is what the rank did; whoever is told is told whose it is.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("came with PMIx %.40q, which cannot be served: %s", e.Version, e.Why)
}

// ErrUnfinished is a rank whose main connection ended between handshake and FINALIZE. Mostly
// the process has ended too, and how it did says more.
var ErrUnfinished = errors.New("closed its PMIx connection after MPI_Init, without MPI_Finalize")

// ProtocolError is a rank that sent what no PMIx client sends.
type ProtocolError struct {
	Version string // of its libpmix
	Err     error
}

// Error is what the rank did.
func (e *ProtocolError) Error() string {
	return fmt.Sprintf("(PMIx %.40q) broke the PMIx protocol: %v", e.Version, e.Err)
}

func (e *ProtocolError) Unwrap() error { return e.Err }

const maxText = 4096

// printable bounds foreign text for people: lines of it, control characters shown.
func printable(s string) string {
	return visible.Text(strings.ToValidUTF8(s[:min(len(s), maxText)], "?"))
}
