// Package reap starts, signals, stops and waits for processes. It is the only code of mpiup
// that forks.
//
//	            Start ──▶ program.Finder: the program, within a deadline, in a goroutine of its own
//	              │
//	              ▼
//	 spawner: one goroutine locked to one thread for the life of Run
//	              │  affinity ▸ fork+exec (vfork) ▸ affinity back ▸ table
//	              ▼
//	┌─────────── table: pid → Process ───────────┐        ┌── ledger (memfd) ──┐
//	│ one waiter per Process, parked on its pidfd│        │ sessions, pids     │
//	└────────────────────────────────────────────┘        └─────────┬──────────┘
//	 orphans: peek (WNOWAIT) on SIGCHLD, reap what                  ▼
//	 neither the table owns nor a fork may be making      guard: a sibling process that
//	                                                      ends what a killed agent leaves
//
// A parent-death signal is tied to the thread that forked, so the spawner's thread must never end while a child lives
// (prctl(2), PR_SET_PDEATHSIG). Go forks with CLONE_VFORK|CLONE_VM, so the cost of a spawn does not grow with the
// agent's memory. But the runtime cannot stop the world while a child is between fork and exec. So a program on a
// mount that does not answer would freeze the agent. That is why the file is opened and read first, elsewhere, with a
// deadline.
//
// Each process started here leads its process group and, without Command.SameSession, a process session. It starts
// with default signal dispositions and an empty mask, holds no descriptor but its Files, and dies with the agent.
// Package proctree finds the descendants of a session.
//
// Concurrency: every method may be called from any goroutine. mu guards the table and is never held across a fork, an
// exec, a file access or a wait. A process is reaped under its own mutex, which is also held while its group is
// signalled. So no signal reaches a number that the kernel has given to another process. Where a supervisor runs as
// PID 1 or as a subreaper, all children of the process must be started through it: it reaps whatever else ends.
//
// Of tini's duties as PID 1 it reaps and keeps children's signals clean. It does not forward signals (sessions decide
// that) and leaves SIGTTIN and SIGTTOU alone. It never changes a terminal's foreground group, since its children have
// process sessions of their own.
//
// What cannot be undone: a file system that dies between the check and the exec hangs the spawner. Start then kills
// the child, which works unless the runtime stops the world first. An orphan that left its process session and has no
// environment is known by its mark (proctree.Mark). Where no mark can be set (a sandbox that refuses the limit), it
// shows in two cases only: to PID 1, or if a look saw its parent (every 5 s, and at a stop).
//
// It does not read or write the standard streams of a process, or decide when a job has
// failed.
package reap

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"
	"golang.org/x/sys/unix"

	"github.com/mpiup/mpiup/agent/reap/guard"
	"github.com/mpiup/mpiup/agent/reap/proctree"
	"github.com/mpiup/mpiup/agent/reap/program"
	"github.com/mpiup/mpiup/internal/awake"
)

// killWait bounds how long a stop waits after SIGKILL; what is left then sits in the kernel
// (state D), usually on a dead mount or device.
const killWait = 5 * time.Second

// Config is what a Supervisor needs to know.
type Config struct {
	Log *slog.Logger // required

	// Subreaper makes orphaned descendants children of this process (PR_SET_CHILD_SUBREAPER),
	// so that they can be found and reaped. PID 1 is one without asking.
	Subreaper bool

	// SpawnDeadline bounds each wait of a Start and of the guard's: finding the program, another fork
	// to end, the own fork. Default 10 s.
	SpawnDeadline time.Duration

	// StopGrace is the time between SIGTERM and SIGKILL when Run ends. Default 5 s.
	StopGrace time.Duration

	// GuardExe is a program with package guard, a guard when its argv[0] is guard.Name: normally
	// /proc/self/exe. Empty: no guard. PID 1 has none: the kernel ends everything with it.
	GuardExe string

	// GuardAfter is how long after the first process the guard is started: another process of this program costs more than a short job. Until then
	// kill -9 leaves what ranks have started.
	GuardAfter time.Duration

	// Urgent gives this process its turn before its children, where that is allowed; they have what it had.
	Urgent bool

	// SessionDirs is the directory in which a session may have one of its own, guard.SessionDir; the
	// guard removes it. Empty: sessions have none.
	SessionDirs string
}

// Supervisor owns every child of this process. New builds it, Run gives it life.
type Supervisor struct {
	cfg       Config
	adopts    bool // PID 1 or subreaper: orphans come here, and descent from us can be seen
	proc      proctree.Proc
	noPidfd   atomic.Bool     // this kernel (before 5.3) or sandbox has no pidfds
	requests  chan *request   // to the spawner, unbuffered
	ended     context.Context // done when Run takes no more requests
	end       context.CancelFunc
	orphans   orphans
	keeper    guardKeeper
	priority  priority // the spawner's once Run has begun
	lesser    lesser   // the spawner's
	programs  program.Finder
	looks     singleflight.Group // at what sessions have open, by session
	remaining freshLooks[remnants]
	waiters   sync.WaitGroup
	ledger    *guard.Ledger // nil without a guard

	mu       sync.Mutex
	closed   bool                   // guarded by mu: Run is ending, no new process
	table    map[int]*Process       // guarded by mu: unreaped children by pid
	leaders  map[int]leader         // guarded by mu: process sessions that belong to a session, their leader dead or not
	stopping map[string]int         // guarded by mu: sessions inside StopSession
	known    map[string]int         // guarded by mu: sessions that had a process and were not yet stopped → slot in the ledger
	empty    map[string]bool        // guarded by mu: known sessions that have no process, as a look has seen
	forks    uint64                 // guarded by mu: forks begun
	forking  *request               // guarded by mu: the fork in flight
	guard    *Process               // guarded by mu: nil when there is none
	seen     map[int]proctree.Whose // guarded by mu: descendants that only their parents told; not changed once it is here
	unmarked bool                   // guarded by mu: a process was started without its session's mark
	others   map[Remnant]uint64     // guarded by mu: signals that AskOther has sent, one bit each
	watched  map[int]int            // guarded by mu: processes not of the table for whose end somebody waits, by pid
	nextLook time.Time              // guarded by mu: when the next look at what sessions have open may begin
}

type leader struct {
	proctree.Whose
	slot int // in the ledger
}

// ErrEnded is what Start returns once Run is ending.
var ErrEnded = errors.New("the supervisor of processes is shutting down")

// New builds a Supervisor. Nothing runs until Run; a Start before that waits for it.
func New(cfg Config) *Supervisor {
	ended, end := context.WithCancel(context.Background())
	cfg.SpawnDeadline, cfg.StopGrace = cmp.Or(cfg.SpawnDeadline, 10*time.Second), cmp.Or(cfg.StopGrace, 5*time.Second)
	s := &Supervisor{
		cfg:      cfg,
		adopts:   cfg.Subreaper || os.Getpid() == 1,
		proc:     proctree.Proc{Root: "/proc"},
		requests: make(chan *request),
		ended:    ended,
		end:      end,
		table:    make(map[int]*Process),
		leaders:  make(map[int]leader),
		stopping: make(map[string]int),
		known:    make(map[string]int),
		empty:    make(map[string]bool),
	}
	s.orphans = orphans{s, make(chan struct{}, 1)}
	s.keeper = guardKeeper{s: s, poke: make(chan struct{}, 1)}
	return s
}

// Run prepares this process for being a parent and serves until ctx is done; then it stops all
// that was started (TERM, Config.StopGrace, KILL) and returns when all of it has ended. The
// error names what could not be ended. It may be called once.
func (s *Supervisor) Run(ctx context.Context) error {
	defer s.prepare()()
	if s.cfg.Urgent {
		s.priority.raise()
	}
	shortenSlices()
	var orphans, keeper sync.WaitGroup
	stopOrphans, spawnerDone := make(chan struct{}), make(chan struct{})
	orphans.Go(func() { s.orphans.run(stopOrphans) })
	if s.adopts {
		orphans.Go(func() { s.glance(stopOrphans) })
	}
	if s.ledger != nil {
		keeper.Go(s.keeper.run)
	}
	go func() {
		defer close(spawnerDone)
		s.spawner()
	}()

	<-ctx.Done()
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	left := s.stop(everything(), unix.SIGTERM, s.cfg.StopGrace)
	s.end()
	s.awaitSpawner(spawnerDone)
	keeper.Wait()
	s.keeper.end()
	err := s.release(left)
	s.waiters.Wait()
	close(stopOrphans)
	orphans.Wait()
	return err
}

// release lets go of what no signal ends, so that no waiter stays behind.
func (s *Supervisor) release(left []int) error {
	if len(left) == 0 {
		return nil
	}
	for _, p := range s.own(everything()) {
		p.forget()
	}
	return fmt.Errorf("processes %v did not end after SIGKILL: they wait in the kernel, usually for a mount or device that does not answer; "+
		"they end when it does, or with the machine", left)
}

// awaitSpawner waits for the spawner, unless it hangs in a fork: then the thread cannot be had.
func (s *Supervisor) awaitSpawner(done <-chan struct{}) {
	late := make(chan struct{})
	defer awake.After(killWait, func() { close(late) })()
	select {
	case <-done:
	case <-late:
		s.cfg.Log.Error("a process hangs between fork and exec and cannot be waited for")
	}
}

// reaped takes p out of the table. Its process session stays known while a session may have
// members in it.
func (s *Supervisor) reaped(p *Process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.table[p.pid] == p {
		delete(s.table, p.pid)
	}
	if p == s.guard {
		s.guard = nil
		return
	}
	if l, ok := s.leaders[p.pid]; ok && l.Session == "" && l.Start == p.start {
		s.ledger.Remove(l.slot)
		delete(s.leaders, p.pid)
	}
}

// prepare makes this process a fit parent: orphans come to it, descriptors do not leak, signals
// are at their defaults in children, limits are raised. What the kernel refuses and ranks can
// live without is logged.
func (s *Supervisor) prepare() (undo func()) {
	log := s.cfg.Log
	if s.cfg.Subreaper && os.Getpid() != 1 {
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
			log.Warn("orphaned descendants cannot be adopted", "err", err)
			s.adopts = false
		}
	}
	if err := s.proc.Verify(); err != nil {
		log.Warn("descendants outside a rank's process group cannot be found", "err", err)
	}
	if err := RaiseLimits(); err != nil {
		log.Warn("a limit stays as it is", "err", err)
	}
	if s.cfg.GuardExe != "" && os.Getpid() != 1 {
		var err error
		if s.ledger, err = guard.NewLedger(); err != nil {
			log.Warn("no guard: grandchildren may outlive a killed agent", "err", err)
		} else if s.cfg.SessionDirs != "" {
			s.ledger.Add(guard.Record{Dirs: s.cfg.SessionDirs})
		}
	}
	restore, err := defaultDispositions()
	if err != nil {
		log.Warn("ranks may inherit ignored signals", "err", err)
	}
	return func() {
		restore()
		s.ledger.Close()
	}
}
