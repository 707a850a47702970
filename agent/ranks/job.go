// Package ranks is one job's part on this host, from its Launch to the end of its output.
//
//	Launch ──▶ files copied ──▶ programs looked at ──▶ outfit chosen, servers made ──▶ the launcher's word ──▶ processes
//	process: start ──▶ running ──process ends──▶ Exited sent ──pipes drained──▶ OutputEnd sent
//
// A Job starts its processes in order and tells the launcher of each; the first that cannot be started ends the
// attempt. What the jobs of one session have in common is Shared, made by the session; what a job wants of its session
// is the interface Session.
//
// Processes are named by their rank in the job here, and by their id in the run in frames.
//
// Concurrency: New only builds. Start runs on a goroutine of the session's, which calls Wait before it forgets the job;
// all other methods may be called by several goroutines meanwhile.
//
// It decides nothing of other hosts' ranks, knows neither link nor lease, and never imports the session.
package ranks

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mpiup/mpiup/agent/host"
	"github.com/mpiup/mpiup/agent/incoming"
	"github.com/mpiup/mpiup/agent/look"
	"github.com/mpiup/mpiup/agent/metrics"
	"github.com/mpiup/mpiup/agent/mpilib"
	"github.com/mpiup/mpiup/agent/outfit"
	"github.com/mpiup/mpiup/agent/reap"
	"github.com/mpiup/mpiup/agent/stdio"
	"github.com/mpiup/mpiup/gpu"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/bounded"
	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/pmi"
	"github.com/mpiup/mpiup/pmi/client"
	"github.com/mpiup/mpiup/pmi/kvs"
	"github.com/mpiup/mpiup/pmi/loopback"
	"github.com/mpiup/mpiup/pmi/pmix"
	"github.com/mpiup/mpiup/topology/discover"
)

// Session is a job's session as the job sees it.
type Session interface {
	Send(f *apiv1.Frame)                                                       // queues a frame for the launcher
	Lend(f *apiv1.Frame, back func())                                          // Send of a frame whose bytes are given back
	Spawn(ctx context.Context, number int, r job.Spawn) (child int, err error) // asks the launcher for another job
	PMIx(st *Job) (*pmix.Server, error)                                        // the session's server, which knows the job then
}

// Config is what jobs need of their host, whatever their session.
type Config struct {
	Name      string   // of the host
	Env       []string // the container's
	Dir       string   // of processes whose own does not exist here
	Embedded  bool     // the launcher is this process
	Inventory discover.Inventory
	GPUs      gpu.Inventory // as files tell

	Host         *host.Host
	Super        *reap.Supervisor
	Libs         *mpilib.Memory
	Metrics      *metrics.Metrics
	Watch        *metrics.Watch // nil: nobody can tell how busy GPUs are
	WatchLibrary string         // libmpiup-watch.so with its directory; "": there is none

	// Stacks says where processes are, of each, and what would tell more; it ends with ctx. nil: nobody does.
	Stacks func(ctx context.Context, targets []look.Target) ([]look.Stack, []string)
}

// Shared is what the jobs of a session share.
type Shared struct {
	Config
	ID     string // hex, also MPIUP_SESSION of all it starts
	Log    *slog.Logger
	Engine *kvs.Engine
	Jobs   *Jobs
	Hints  *host.Hints

	Audit   func(l *apiv1.Launch, files bool) // notes what is started, or copied
	Session Session
}

// maxFences bounds the fences that Waiting looks at.
const maxFences = 16

// Waiting are the ids of this host's that wait in fences.
func (s *Shared) Waiting() (ids idset.Set) {
	for _, w := range s.Engine.Waits(maxFences) {
		ids = ids.Union(w.Entered)
	}
	return ids
}

// Notice tells the user something, once. The launcher puts our host's name before it, but only
// the first host's that says the same.
func (s *Shared) Notice(warning bool, format string, args ...any) {
	s.Session.Send((&apiv1.Notice{Text: fmt.Sprintf(format, args...), Warning: warning}).Frame())
}

// MaySpeak lets only the ranks of a session here and their descendants speak on a loopback port,
// where anybody on the host can connect, and says which process a connection is of, if that shows. Where /proc does not
// show whose a socket is, its user decides. What speaks has to know a namespace's or a rank's random bits besides.
// likely is whose port it is, where that is known: Horovod's ranks connect a thousand times.
func (s *Shared) MaySpeak(ctx context.Context, likely *reap.Process, c net.Conn) (who client.Process, err error) {
	peer, err := loopback.PeerOf(c)
	if err != nil {
		return who, err
	}
	pid, held := s.Super.Holder(ctx, s.ID, likely, peer.Inode, peer.UID)
	if held == reap.NotHeld {
		return who, fmt.Errorf("a process of uid %d holds the other end, and none of this host's ranks or their descendants (the agent is uid %d)",
			peer.UID, os.Getuid())
	}
	return s.Identify(pid), nil
}

// Job is one job's processes on this host: what a Launch asked for.
type Job struct {
	s      *Shared
	Launch *outfit.Launch
	Since  time.Time      // when it came
	held   []*bounded.Dir // working directories, by program
	looks  chan struct{}  // held by looks at what may not answer
	apps   []*apiv1.App   // of launch, with copied files in their places once receive has returned
	copies *incoming.Set  // nil: no files come
	files  string         // where they are; "": nowhere
	recorders
	space    *kvs.Space       // nil without PMI
	unfit    error            // why space could not be made
	pmix     *pmix.Server     // nil unless ranks here speak PMIx
	server   *pmi.Server      // nil unless ranks here speak PMI
	programs []outfit.Program // by program: what was found out of it; none before choose
	uses     []atomic.Bool    // by program: it is MPI's (useMPI)
	seconds  atomic.Int32     // ranks here as which a second process called MPI_Init
	sure     atomic.Bool      // a program here loads a library that speaks PMIx, as far as one can see
	shards   []bool           // by program: its ranks are told apart on purpose, and meet nowhere
	outfit   *outfit.Outfit   // what its processes are started with
	awaits   bool             // the launcher's word on that, before anything is started
	word     chan string      // that word: why not to start, or ""
	port     *pmiPort         // nil unless ranks connect by TCP
	hint     hint             // what ranks are told of the machine
	horovod  *rendezvous      // where Horovod's ranks meet; nil: nobody is told of it
	meeting  *meeting         // who has come to where frameworks meet; nil: nobody wants to know
	tee      *stdio.Tee       // nil: output goes to the launcher only
	memory   *memory          // of the container, since the job's start

	ctx  context.Context // ends what serves the processes: PMI, pumps
	kill context.CancelFunc
	may  context.Context // ends when no further process is to be started
	halt context.CancelCauseFunc
	wg   sync.WaitGroup // everything that serves the processes
	over chan struct{}  // closed when start has returned

	mu    sync.Mutex
	procs map[uint32]*Process // started, by rank in the job, guarded by mu
	noted chan struct{}       // closed and replaced when procs grows, guarded by mu

	bound    func() *outfit.Bound // which CPUs the ranks have; looked up once
	together func() bool          // ranks stay in one process session; found out once
	user     func() host.Account  // whose shell runs what Exec.shell hands over; looked up once
}

// isStopped tells that a stop has begun: what cannot be started any more is no failure.
func (st *Job) isStopped() bool { return st.may.Err() != nil }

// Abandon gives up what the processes have written and nobody will take; they have ended before.
func (st *Job) Abandon() { st.kill() }

// Ours are the ids of its ranks.
func (st *Job) Ours() job.Span { return span(st.Launch.Job) }

func span(j *apiv1.Job) job.Span { return job.Span{Base: int(j.Base), Size: int(j.Size)} }

// RanksHere are the job's ranks on this host.
func (st *Job) RanksHere() []int {
	ranks := make([]int, len(st.Launch.Procs))
	for i, p := range st.Launch.Procs {
		ranks[i] = int(p.Rank)
	}
	return ranks
}

// first is the id of the first process of the Launch.
func (st *Job) first() uint32 { return st.Launch.Job.Base + st.Launch.Procs[0].Rank }

// id is a rank's in the run.
func (st *Job) id(rank int) int { return int(st.Launch.Job.Base) + rank }

// send queues a frame for the launcher.
func (st *Job) send(f *apiv1.Frame) { st.s.Session.Send(f) }

// Cancel takes the place of start in a job that is not started.
func (st *Job) Cancel() { close(st.over) }

// Served says that the job has PMI data here.
func (st *Job) Served() bool { return st.space != nil }

// Get is a value that a rank here has put.
func (st *Job) Get(rank int, key string) ([]byte, bool) {
	if st.space == nil {
		return nil, false
	}
	return st.space.LocalGet(rank, key)
}

// Await waits for a value of a rank here.
func (st *Job) Await(rank int, key, not string) ([]byte, bool, error) {
	if st.space == nil {
		return nil, false, nil
	}
	return st.space.LocalAwait(st.ctx, rank, key, not)
}

// Show shows what a rank wants shown with its output in the worker's log too.
func (st *Job) Show(id int, stream job.Stream, data []byte) {
	if st.tee != nil {
		st.tee.Write(id, stream, data)
	}
}

// MachineXML is hwloc's text of the machine, as the job's ranks are handed it.
func (st *Job) MachineXML() string { return st.hint.xml }

// hint is what ranks of one job are told of the machine; empty fields: nothing.
type hint struct {
	path string // of a file with xml
	xml  string
}
