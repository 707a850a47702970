package verdict

import (
	"cmp"
	"time"

	"github.com/mpiup/mpiup/internal/job"
)

// Event is what went wrong.
type Event uint8

// The events.
const (
	Ended         Event = iota // a rank ended badly by its own doing
	Aborted                    // a rank called MPI_Abort
	NotStarted                 // a rank could not be started
	HostLost                   // a host was given up
	HostTaken                  // a host is being taken away, or a newer launcher fenced us
	LauncherTaken              // mpiup run got SIGTERM: its own pod is being taken away
	TimedOut                   // --timeout
	Signalled                  // mpiup got INT or QUIT, or TERM as exec
	ReaderGone                 // nobody reads our standard output any more
	NotWritten                 // output could not be written
	NotWired                   // a rank cannot go on with the others, for a reason that is no exit of a rank
	NotCopied                  // a file for the hosts could not be read
	Mixed                      // the programs' MPI libraries cannot talk to each other
	Internal                   // a bug, here or in an agent
	Raised                     // a rank said why it fails, and was stopped before it ended
	Orphaned                   // what only the launcher before this one knew is gone with it
	Elsewhere                  // another launcher's part of the job has failed; Text is the sentence, Code the job's exit code
	Alone                      // several ranks were each alone in MPI, though all ended well; Text is the sentence, Ranks who they are
)

// Limit is which of a run's limits it has passed.
type Limit uint8

// The limits.
const (
	WholeLimit Limit = iota // --timeout
	StallLimit              // --stall-timeout
	InitLimit               // --init-timeout
	WatchLimit              // --watch-stall or --watch-start; Text is the sentence
	RuleLimit               // --watch-fail; likewise
)

// Taker is who takes a host away.
type Taker uint8

// The takers.
const (
	ByTerm     Taker = iota // who sent SIGTERM to its agent
	ByLauncher              // a newer launcher
	ByShutdown              // mpiup shutdown; Text says who ran it
)

// Fault is one thing that went wrong, as it was reported.
type Fault struct {
	Event   Event
	At      time.Duration // when it came to be known to the launcher, or for a lost host when it was last heard
	Host    string        // "": none
	Node    int           // the host's index in the plan; -1: none
	ID      int           // of the process in the run; -1: none
	Process job.Process   // where ID is one
	Text    string
	// Of the events that have them:
	Exit        job.Exit
	TimeNS      int64         // Ended: by the host's clock
	Unfinalized bool          // Ended: after MPI_Init without MPI_Finalize, with whatever code
	Left        bool          // Ended: exit 0, whereupon others failed
	Uncalled    bool          // Ended: exit 0 without MPI_Init, in which others wait for it
	Broke       job.Breach    // Ended: its agent killed it for what Text says
	Piped       bool          // its standard output was a pipe, to which programs write block by block
	OOM         bool          // Ended: the container's memory limit struck
	Code        int           // Aborted: MPI_Abort's; Signalled: the signal's number; Raised, and Ended where Left: the job's exit code
	Init        bool          // NotStarted: not the program's fault, the rank could not be prepared
	Dir         bool          // NotStarted: for want of a directory that the launcher names
	Errno       string        // NotStarted, NotCopied, NotWritten: the system call's error, as ENOENT; "": none
	Stranded    job.Stranding // NotWired: why
	Command     bool          // it is exec's command, which users know by its host and not as a rank
	Ranks       string        // HostLost, HostTaken: the host's ranks; Left, Uncalled: all who did, where they are several
	Mute        bool          // HostLost: its kernel acknowledged while its agent said nothing, so that it is there
	By          Taker         // HostTaken: whom the host is taken by
	Limit       Limit         // TimedOut: which
	Unread      bool          // Signalled: it ended the reader of our output, too, so that the run fails however its ranks end

	seq int // order of arrival, for those of one time
}

// preempted says that ranks were told that their hosts are taken away: how they end then is no failure of theirs.
func (f Fault) preempted() bool {
	return f.Event == LauncherTaken || f.Event == HostTaken && f.By != ByLauncher
}

// broke says that its agent killed it for what it sent.
func (f Fault) broke() bool { return f.Broke != job.NoBreach }

// Status is the exit code of a run that fails of it (docs/exit-codes.md).
func (f Fault) Status() int {
	switch f.Event {
	case Ended:
		if f.Left {
			return f.Code
		}
		if f.broke() || f.Uncalled {
			return job.ExitInit
		}
		return cmp.Or(f.Exit.Status(), 1)
	case Aborted:
		return cmp.Or(f.Code&0xff, 1)
	case NotStarted, NotCopied, Mixed:
		if f.Init {
			return job.ExitInit
		}
		return job.ExitExec
	case HostLost, Orphaned:
		return job.ExitAgentLost
	case HostTaken, LauncherTaken:
		return job.ExitPreempted
	case TimedOut:
		return job.ExitTimeout
	case NotWired, Alone:
		return job.ExitInit
	case Signalled:
		return 128 + f.Code
	case Raised, Elsewhere:
		return f.Code
	case ReaderGone:
		return 128 + job.SIGPIPE // as a program that SIGPIPE ended
	case NotWritten:
		return job.ExitOutput
	}
	return job.ExitInternal
}
