package run

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/mpiup/mpiup/gpu"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/frameworks"
	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/launcher/hang"
	"github.com/mpiup/mpiup/launcher/placement"
	"github.com/mpiup/mpiup/launcher/report"
	"github.com/mpiup/mpiup/launcher/run/model"
	"github.com/mpiup/mpiup/launcher/verdict"
	"github.com/mpiup/mpiup/rdma"
)

// Timer is one of a run's timers. Each runs at most once at a time.
type Timer int

// The timers.
const (
	Quiet   Timer = iota // a stop that takes long is told of
	Grace                // the ranks have had their time
	Bound                // hosts have had theirs
	Room                 // a spawn has waited for room
	Answers              // hosts have had time to say who waits for whom
	Missing              // ranks wait for others where frameworks meet
	Lone                 // ranks that meet nobody
	Limit                // --timeout
	Hang                 // whether the run hangs is looked at
	Renewal              // hosts get anew what another launcher needs
	Unread               // output that could not be written ends the run now
	Files                // hosts have had time to say whether they have a file
	Timers               // how many there are
)

// Event is what a run is told.
type Event interface{ event() }

// The events.
type (
	// Frame is a host's, at a time of the Clock.
	Frame struct {
		Host  int
		Frame *apiv1.Frame
		At    time.Duration
	}
	// Ended is the end of a host's connection.
	Ended struct {
		Host int
		Lost *model.Lost // before its time, and why; nil: as it should
	}
	// Turn ends what has come at once: now what is to be done about it is done.
	Turn struct{}
	// Signal is one that the launcher got.
	Signal struct{ Number int }
	// Resized is another size of the launcher's terminal. The signal that says so comes after it.
	Resized struct{ Rows, Columns uint16 }
	// Expired is a timer's.
	Expired struct{ Timer Timer }
	// Unwritten is output that could not be written. Reader: nobody reads it any more.
	Unwritten struct {
		Reader bool
		Errno  string // as ENOSPC; "": it is no system call's failure
		Text   string
	}
	// Watched is what --watch finds wrong. Ends: the run ends by it; Hangs: it does not go on, so it is asked first who waits for whom.
	Watched struct {
		Text        string
		Ends, Hangs bool
	}
	// NotCopied is a file for the hosts that could not be read, with Errno as above.
	NotCopied struct{ Errno, Text string }
	// Refused is a frame that could not be sent to a host.
	Refused struct {
		Host int
		Err  error
	}
	// HostsRead answers ReadHosts.
	HostsRead struct {
		Targets [][]job.Share
		Err     error
	}
	// Reached answers Reach.
	Reached struct {
		Sites []model.Host
		Err   error
	}
	// Grown answers Grow.
	Grown struct{ Err error }
	// Came tells of hosts with which the job may have more ranks: all are ended, to start again.
	Came struct {
		Hosts string
		Size  int // ranks then
	}
	// SpareLost is a host without ranks whose session has ended: ranks that start again would have counted on it.
	SpareLost struct{ Host, Why string }
	// Missed is a file that a process has missed, by its words: where other hosts have it, that is said.
	Missed struct {
		ID   int
		Path string // absolute
	}
	// Cancelled ends the run from outside. Fault is what another part of the job failed of; nil: nothing has failed.
	Cancelled struct{ Fault *verdict.Fault }
	// Over comes last, when all output is written.
	Over struct{}
)

func (Frame) event()     {}
func (Ended) event()     {}
func (Turn) event()      {}
func (Signal) event()    {}
func (Resized) event()   {}
func (Expired) event()   {}
func (Unwritten) event() {}
func (NotCopied) event() {}
func (Watched) event()   {}
func (Refused) event()   {}
func (HostsRead) event() {}
func (Reached) event()   {}
func (Grown) event()     {}
func (Came) event()      {}
func (SpareLost) event() {}
func (Missed) event()    {}
func (Cancelled) event() {}
func (Over) event()      {}

// Order is what a run wants done.
type Order interface{ order() }

// The orders. They are carried out one after the other.
type (
	// Send sends a frame to a host; one that is refused comes back as an event.
	Send struct {
		Host  int
		Frame *apiv1.Frame
	}
	// Say is a line for the user.
	Say struct{ Line string }
	// Print is a line that is not mpiup's own.
	Print struct{ Line string }
	// Log is for who looks closely.
	Log struct {
		Level slog.Level
		Text  string
		Attrs []any
	}
	// Set starts a timer, or starts it anew.
	Set struct {
		Timer Timer
		After time.Duration
	}
	// Unset stops a timer.
	Unset struct{ Timer Timer }
	// Finish expects nothing more of a host.
	Finish struct{ Host int }
	// EndOutput says that no more output comes of a process.
	EndOutput struct{ ID int }
	// NoInput says that a process takes no more standard input.
	NoInput struct{ ID int }
	// Feed lets standard input flow.
	Feed struct{}
	// NoCopies ends copying files to a host; to all where it is negative.
	NoCopies struct{ Host int }
	// Unblock waits for output no longer.
	Unblock struct{}
	// Started says that a process runs.
	Started struct{ ID, PID int }
	// NotStarted says that one could not be started.
	NotStarted struct {
		ID  int
		Why string
	}
	// Exited says that one has ended.
	Exited struct {
		ID   int
		Exit job.Exit
	}
	// Silent says that all output of a process has come.
	Silent struct {
		ID    int
		Crash job.Crash
	}
	// Dump is a flight recorder's, for the run's report. Rank is torch's.
	Dump struct {
		Rank int
		Host string
		Gzip []byte
	}
	// Seen is what processes of one host do from now on, for the run's report, and what its container uses of its memory, in bytes; 0: unknown.
	Seen struct {
		Works, Busy, Idle idset.Set
		Host              string
		Memory, Limit     uint64
	}
	// Held is who the others wait for, for the run's report.
	Held struct{ Finding report.Wait }
	// Note is for the run's report.
	Note struct{ Kind, Host, Text string }
	// HostLost is for the run's report: nothing was heard of a host for so long.
	HostLost struct {
		Host, Why string
		Silent    time.Duration
	}
	// Grow makes place for the output of another job, with its rank 0's id: Grown answers, before any other event.
	Grow struct{ Job, First, Procs int }
	// Place adds the processes of a job, the roster's last, with the window of each.
	Place struct {
		Job    *model.Job
		Apps   []job.App
		Roster model.Roster
		Window int
	}
	// ReadHosts reads the hosts that programs name: HostsRead answers.
	ReadHosts struct{ Programs []job.SpawnProgram }
	// Reach reaches sites by name, beside the hosts that the run has: Reached answers.
	Reach struct {
		Names []string
		Has   []int
	}
	// Enlist makes a site that was reached the run's next host.
	Enlist struct{ Site string }
	// Dismiss lets sites go that were reached and not enlisted.
	Dismiss struct{}
)

func (Send) order()       {}
func (Say) order()        {}
func (Print) order()      {}
func (Log) order()        {}
func (Set) order()        {}
func (Unset) order()      {}
func (Finish) order()     {}
func (EndOutput) order()  {}
func (NoInput) order()    {}
func (Feed) order()       {}
func (NoCopies) order()   {}
func (Unblock) order()    {}
func (Started) order()    {}
func (NotStarted) order() {}
func (Exited) order()     {}
func (Silent) order()     {}
func (Note) order()       {}
func (HostLost) order()   {}
func (Dump) order()       {}
func (Seen) order()       {}
func (Held) order()       {}
func (Grow) order()       {}
func (Place) order()      {}
func (ReadHosts) order()  {}
func (Reach) order()      {}
func (Enlist) order()     {}
func (Dismiss) order()    {}

// orders gathers what one event leads to.
type orders struct {
	list    []Order
	noticed map[string]bool
}

func (o *orders) give(one Order) { o.list = append(o.list, one) }

func (o *orders) send(h int, f *apiv1.Frame) { o.give(Send{h, f}) }

func (o *orders) say(format string, args ...any) { o.give(Say{fmt.Sprintf(format, args...)}) }

func (o *orders) debug(text string, attrs ...any) { o.give(Log{slog.LevelDebug, text, attrs}) }

func (o *orders) set(t Timer, after time.Duration) { o.give(Set{t, after}) }

// once says line, unless something of the same key was said.
func (o *orders) once(key, line string) {
	const most = 64
	if o.noticed[key] || len(o.noticed) >= most {
		return
	}
	o.noticed[key] = true
	o.say("%s", line)
}

// Wishes are what the user wants of a run.
type Wishes struct {
	Apps   []job.App
	Policy placement.Policy
	// ReportBindings prints each rank's CPUs when it has started.
	ReportBindings bool
	KeepOn         bool          // a rank's exit code other than 0 ends nothing and is no failure; signals and aborts are
	Recover        bool          // nor are signals, an end without MPI_Finalize, and the loss of a host while ranks run on another
	Linger         bool          // a rank's failure ends nothing; when all have ended, the first counts
	MaxRestarts    int           // how often ranks that failed are started again; 0: never
	Timeout        time.Duration // for the whole run, from its Begun; 0: none
	Preempt        job.Preempt
	Stall          hang.Config
	PMI            job.Protocol
	Guess          job.Guess // with job.AutoProtocol: for programs that show no MPI library
	AloneOK        bool      // that ranks are each alone in MPI is meant
	ShellTexts     bool      // a text without a #! line runs by /bin/sh, as execvp(3) has it
	Universe       int       // MPI_UNIVERSE_SIZE, or one of Universe...

	NoTopologyHint bool // ranks read /sys themselves

	Net      job.Network // for MPI's traffic; zero: each host chooses, if it has several interfaces
	MPIPorts job.Ports   // that MPI libraries may listen on; zero: any
	Fabric   rdma.Wish

	GPUs gpu.Wish // of its host that a rank sees; zero: all

	Expand     bool           // $NAME in the programs' Env is each rank's
	Frameworks frameworks.Set // whose variables the ranks get
	Nodes      int            // above 1: frameworks count the job, which is on one host, as one of so many of its size; each is a run of its own
	Node       int            // which
	Shares     Shares         // how many ranks each of these starts, where they told each other; zero: as many as this one

	Explain int // 1 + the rank whose environment is printed, in place of running programs; 0: none

	WorkerLogs bool // agents tee the ranks' output to their own logs too
	Window     int  // bytes of output one rank may have under way; default 1 MiB, less with many ranks
}

// Shares is this job's part of a larger one, of which each node's launcher starts as many ranks as it likes.
type Shares struct {
	World         int // ranks of all nodes; 0: nobody said
	FirstRank     int // the number of this job's first rank among them
	RoleWorld     int // ranks of all nodes of this node's role, a word of torchrun's
	FirstRoleRank int // the number of this job's first rank among those
}

// Config is what a run is to be.
type Config struct {
	Wishes
	Grace, TermGrace time.Duration // as reach.Reach has them

	Pty bool // ranks write to terminals

	// Rows and Columns are the size of those, which is that of the launcher's own; 0: unknown.
	Rows, Columns uint16
	Dumps         bool          // the run's report is to have the dumps of flight recorders
	SpawnFiles    bool          // hostfiles are read that ranks name when they spawn
	Verbose       bool          // what is no warning is said, too
	Exec          *apiv1.Exec   // how the agent is to run the command; nil: a run
	Version       string        // of this build
	PID           int           // ours, for the sentence that says how to go on
	Pod           string        // this host, as messages call it
	Here          verdict.Start // of the launcher itself
	Bare          bool          // neither it nor, as far as it knows, a host of the run is a pod of Kubernetes

	ID       string       // of the run, in all its sessions
	Number   uint64       // of this incarnation, in every Launch
	Proof    []byte       // our signature under it, for agents that tell others; nil: none
	Begun    time.Time    // when Run was called
	Restarts int          // how often the job has been started again
	Failures int          // of these, after failures
	Plan     *job.Plan    // of the first job
	Hosts    []model.Host // of Plan.Hosts
	Sites    []model.Site // hosts that jobs may be placed on
	Input    []int        // ranks that get our standard input
	Files    []*apiv1.CopyFile
	Adopted  bool     // the run was another launcher's: Adopt begins it
	Asked    uint64   // questions of launchers before this one have numbers up to it
	Copied   []uint32 // by app: 1 + index in Files of the program itself; 0, or none: hosts have it

	Hold      func(at time.Time) *apiv1.Hold    // what another launcher needs to take the run over, signed at that time; nil: none is to
	Namespace func() string                     // a new name of a job in PMIx, hard to guess
	Self      func(name string) bool            // the name means this very host
	Errno     func(n int32) (name, text string) // of Linux's error numbers
	Wrote     func(id int) verdict.Said         // what a process has written so far that tells why it fails; nil: nobody knows
}

// Values of Config.Universe that are no numbers. They concern libraries of PMI-1 and PMI-2; those of PMIx are told
// all slots.
const (
	UniverseGiven   = 0  // the slots, where all were given
	UniverseUnknown = -1 // Hydra's INFINITE, and what it says of itself
	UniverseSystem  = -2 // Hydra's SYSTEM: the numbers of hosts, 1 where there is none
)
