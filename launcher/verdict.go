package launcher

import (
	"cmp"
	"slices"
	"syscall"
	"time"

	"github.com/mpiup/mpiup/internal/job"
	causes "github.com/mpiup/mpiup/launcher/verdict"
)

// faultKind is what went wrong.
type faultKind uint8

const (
	faultRank      faultKind = iota // a rank ended badly by its own doing
	faultAbort                      // a rank called MPI_Abort
	faultStart                      // a rank could not be started
	faultLost                       // a host was given up
	faultPreempted                  // a host is being taken away, or a newer launcher fenced us
	faultTimeout                    // --timeout
	faultSignal                     // mpiup got INT or TERM
	faultOutput                     // nobody reads our standard output any more
	faultWrite                      // output could not be written
	faultWireup                     // wire-up failed for a reason that is no rank's exit
	faultCopy                       // a file for the hosts could not be read
	faultMixed                      // the programs' MPI libraries cannot talk to each other
	faultInternal                   // a bug, here or in an agent
	faultRaised                     // a rank said why it fails, and was stopped before it ended
)

// fault is one thing that went wrong, as it was reported.
type fault struct {
	kind faultKind
	at   time.Duration // when it came to be known here, or for a lost host when it was last heard
	seq  int           // order of arrival, for those of one time
	host string
	node int // index of the host in the plan; -1: none
	rank int // id of the process; -1: none
	job  int // its job's number,
	base int // and the id of rank 0 there
	text string
	// of the kinds that have them:
	exit        job.Exit
	timeNS      int64  // faultRank: by the host's clock
	unfinalized bool   // faultRank: exit 0 after MPI_Init without MPI_Finalize
	broke       bool   // faultRank: its agent killed it for what text says, as it broke the PMI protocol
	piped       bool   // faultRank: its standard output was a pipe, to which programs write block by block
	oom         bool   // faultRank: the container's memory limit struck
	code        int    // faultAbort: MPI_Abort's; faultSignal: the signal's number; faultRaised: the job's exit code
	init        bool   // faultStart: not the program's fault, the rank could not be prepared
	path        string // faultStart
	command     bool   // it is exec's command, which users know by its host and not as a rank
	ranks       string // faultLost, faultPreempted: the host's ranks
	fenced      bool   // faultPreempted: by a newer launcher
}

// verdict gathers faults and says whose the job's exit code is.
//
// Order: an MPI_Abort comes before ranks' own exits, however late it is reported, since a rank
// that dies of another's abort may be reported first. But a rank that was killed just before or
// after comes before it (killed): its peers' libraries abort over the loss. All else goes by arrival, a lost host's
// by the time it was last heard, since ranks elsewhere may die of it before it is given up; two
// ranks of one host go by that host's clock. A rank that only says that it lost another one (Echo of
// launcher/verdict) gives way to one that failed for a reason of its own (blame). A failed wire-up, and then a signal to mpiup, is
// the cause only when no rank failed by itself, a signal only when ranks had to be stopped.
type verdict struct {
	faults  []fault
	lacking map[int]string         // what MPI lacks where a process ended badly, by its id
	stopped bool                   // a rank was ended by us
	holdup  []string               // at --timeout: who waited for whom, and what to do
	found   map[int]causes.Finding // what ranks that failed say of it, by id; read once all have ended
}

// maxFaults bounds what is kept: of 100,000 ranks that fail, those at the front matter.
const maxFaults = 4096

func (v *verdict) add(f fault) {
	if len(v.faults) < maxFaults {
		v.faults = append(v.faults, f)
	}
}

// lacks notes what an agent says of a process that ended badly, of as many as faults are kept.
func (v *verdict) lacks(rank int, what string) {
	if what == "" || len(v.lacking) >= maxFaults {
		return
	}
	if v.lacking == nil {
		v.lacking = map[int]string{}
	}
	v.lacking[rank] = what
}

// any says whether there is a reason to stop the job.
func (v *verdict) any() bool { return len(v.faults) > 0 }

// onlyRanks says that ranks have failed and nothing else has.
func (v *verdict) onlyRanks() bool {
	return !slices.ContainsFunc(v.faults, func(f fault) bool { return f.kind != faultRank })
}

// cause is the fault that the job's exit code comes from; false when all went well.
func (v *verdict) cause() (fault, bool) {
	first, ok := v.first()
	if !ok || first.kind != faultRank && first.kind != faultSignal && first.kind != faultAbort {
		return first, ok
	}
	if a, ok := v.earliest(func(f fault) bool { return f.kind == faultAbort }); ok {
		return v.killed(a), true
	}
	if first.kind == faultSignal {
		return first, true
	}
	first = v.onHost(first, func(f fault) bool { return f.kind == faultRank })
	return v.blame(first), true
}

// abortEcho is how long after a rank was killed its peers' libraries call MPI_Abort over it; the
// reports of both may pass each other on their way.
const abortEcho = 250 * time.Millisecond

// killed is the cause of an abort: the abort itself, unless another rank was ended at that time
// by a signal that is neither the program's own doing (abort(3), a pipe without reader) nor one
// that mpiup passed on.
func (v *verdict) killed(abort fault) fault {
	passed := v.signalled()
	struck := func(f fault) bool {
		switch sig := syscall.Signal(f.exit.Signal); sig {
		case 0, syscall.SIGABRT, syscall.SIGPIPE, syscall.Signal(passed):
			return false
		}
		return f.kind == faultRank && !f.broke && f.rank != abort.rank && (f.at-abort.at).Abs() <= abortEcho
	}
	if f, ok := v.earliest(struck); ok {
		return v.onHost(f, struck)
	}
	return abort
}

// onHost is the first on f's host, by its clock, of those that are wanted; f is one of them.
func (v *verdict) onHost(f fault, want func(fault) bool) fault {
	same := v.of(func(g fault) bool { return g.node == f.node && want(g) })
	return slices.MinFunc(same, func(a, b fault) int { return cmp.Or(cmp.Compare(a.timeNS, b.timeNS), cmp.Compare(a.seq, b.seq)) })
}

// first is the earliest fault that has an effect of its own.
func (v *verdict) first() (fault, bool) {
	if f, ok := v.earliest(func(f fault) bool { return f.kind != faultSignal && f.kind != faultWireup }); ok {
		return f, true
	}
	if f, ok := v.earliest(func(f fault) bool { return f.kind == faultWireup }); ok {
		return f, true
	}
	if v.stopped {
		return v.earliest(func(f fault) bool { return f.kind == faultSignal })
	}
	return fault{}, false
}

func (v *verdict) of(want func(fault) bool) []fault {
	var out []fault
	for _, f := range v.faults {
		if want(f) {
			out = append(out, f)
		}
	}
	return out
}

func (v *verdict) earliest(want func(fault) bool) (fault, bool) {
	fs := v.of(want)
	if len(fs) == 0 {
		return fault{}, false
	}
	return slices.MinFunc(fs, func(a, b fault) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.seq, b.seq)) }), true
}

// signalled is the INT or TERM that mpiup got, 0 if none.
func (v *verdict) signalled() int {
	if f, ok := v.earliest(func(f fault) bool { return f.kind == faultSignal }); ok {
		return f.code
	}
	return 0
}

// exit is the job's exit code (docs/exit-codes.md).
func (v *verdict) exit() int {
	f, ok := v.cause()
	if !ok {
		return 0
	}
	return f.status()
}

func (f fault) status() int {
	switch f.kind {
	case faultRank:
		if f.broke {
			return job.ExitInit
		}
		if s := f.exit.Status(); s != 0 {
			return s
		}
		return 1
	case faultAbort:
		if c := f.code & 0xff; c != 0 {
			return c
		}
		return 1
	case faultStart:
		if f.init {
			return job.ExitInit
		}
		return job.ExitExec
	case faultCopy, faultMixed:
		return job.ExitExec
	case faultLost:
		return job.ExitAgentLost
	case faultPreempted:
		return job.ExitPreempted
	case faultTimeout:
		return job.ExitTimeout
	case faultWireup:
		return job.ExitInit
	case faultSignal:
		return 128 + f.code
	case faultRaised:
		return f.code
	case faultOutput:
		return 128 + 13 // as a program that SIGPIPE ended
	case faultWrite:
		return job.ExitOutput
	}
	return job.ExitInternal
}
