package verdict

import (
	"cmp"
	"slices"

	"github.com/mpiup/mpiup/internal/job"
)

// kind is a fault's kind of failure; likely: it may be another.
func (c *Case) kind(f Fault) (kind Kind, likely bool) {
	if by, ok := c.interrupted(f); ok {
		f = by
	}
	said, spoke := c.found[f.ID]
	if c.Bare && (f.Event == LauncherTaken || f.Event == Signalled) { // no pod ends, and somebody ends the launcher
		return Interrupted, false
	}
	switch f.Event {
	case Ended:
		return c.ended(f)
	case Raised, Aborted:
		if f.OOM {
			return OutOfMemory, f.Unsure
		}
		if spoke {
			return said.Kind, said.Likely && said.Kind != Abort // which it did
		}
		return c.lacking[f.ID].kind(Abort), false
	case NotStarted:
		return notStarted(f), false
	case HostLost:
		return AgentLost, false
	case HostTaken:
		if f.By != ByTerm || c.Bare { // and somebody ends an agent that no kubelet does
			return Interrupted, false
		}
		return Terminated, false
	case Orphaned:
		return Interrupted, false
	case LauncherTaken: // or kill(1)
		return Terminated, true
	case TimedOut:
		if c.limited != "" {
			return c.limited, true
		}
		switch f.Limit {
		case InitLimit:
			return StuckInit, false
		case RuleLimit:
			return WatchFailed, false
		}
		for _, l := range c.Holdup {
			if s, ok := Recognise(l); ok && (s.Weight() == Wait || s.Kind == StuckIO) {
				return s.Kind, s.Likely
			}
		}
		if f.Limit == WholeLimit {
			return TimeOut, false
		}
		return Stalled, false
	case Signalled:
		if f.Code == job.SIGTERM { // to the pod of exec
			return Terminated, true
		}
		return Interrupted, false
	case NotWired:
		switch f.Stranded {
		case job.StrandedByLimit:
			return InitFailed, false
		case job.StrandedByLeaving:
			return NoFinalize, true
		}
		return NoInit, true
	}
	return byEvent(f), false
}

// ended is the kind of a rank's own end.
func (c *Case) ended(f Fault) (kind Kind, likely bool) {
	if kind, likely, ok := c.broken(f); ok && !f.broke() && !f.OOM {
		return kind, likely
	}
	said, spoke := c.found[f.ID]
	lacks := c.lacking[f.ID]
	switch sig := f.Exit.Signal; {
	case f.broke():
		return Mismatch, f.Broke != job.BreachVersion
	case f.OOM:
		return OutOfMemory, f.Unsure || !f.Helper && c.alsoKilled(f)
	case f.Left:
		return PeerLost, true
	case f.Uncalled:
		return NoInit, false
	case f.Unfinalized && f.Exit.Status() == 0:
		return NoFinalize, false
	case c.Sent.Contains(sig):
		return Interrupted, false
	case sig == job.SIGBUS:
		return SharedMemory, lacks.Text == ""
	case sig == job.SIGSEGV:
		return Segfault, false
	case sig == job.SIGINT && spoke: // raised, or sent by somebody
		return Python, true
	case spoke && f.speaks() && c.looked(f) && c.Look.Differ:
		return CollectiveMismatch, true
	case spoke && f.speaks():
		return said.Kind, said.Likely && !(sig == job.SIGABRT && said.Kind == Crash) || c.losesNone(f.ID)
	case sig == job.SIGABRT, sig == job.SIGILL, sig == job.SIGFPE, sig == job.SIGTRAP, sig == job.SIGSYS:
		return Crash, false
	case sig == job.SIGKILL && spoke && said.Kind == OutOfMemory:
		return OutOfMemory, false
	case sig != 0:
		return Killed, false
	}
	return lacks.kind(ExitCode), false
}

// broken is the kind of a failure by the rank's devices, where they explain it: a GPU that failed by itself, whatever CUDA made of it, or a
// port that went down where the rank says that it lost another one. likely: what the rank said is not about that.
func (c *Case) broken(f Fault) (kind Kind, likely, ok bool) {
	said, spoke := c.found[f.ID]
	had := func(what ...job.DeviceFault) bool {
		return slices.ContainsFunc(c.devices[f.ID], func(d job.DeviceTrouble) bool { return slices.Contains(what, d.What) })
	}
	switch {
	case had(job.GPUXid, job.GPUMemoryErrors, job.GPUMemoryPending, job.GPUMemoryFailed):
		return GPUFault, !spoke || said.Kind != GPUFault && said.Kind != GPUError && said.Kind != NCCL, true
	case had(job.PortDown) && spoke && (said.Echo || said.Kind == FabricDown || said.Kind == NCCL):
		return FabricDown, said.Kind != FabricDown && said.Kind != FabricError, true
	}
	return "", false, false
}

// alsoKilled says that others on the host were killed too: the kernel counts for the whole container, not for a process.
func (c *Case) alsoKilled(f Fault) bool {
	return len(c.of(func(g Fault) bool { return g.Event == Ended && g.Node == f.Node && g.Exit.Signal == job.SIGKILL })) > 1
}

// Lack is what a host has too little of for MPI, as its agent said when a process ended.
type Lack struct {
	What  job.Lack
	Errno string // why nothing can be written there, as ENOSPC; "": it can, or nobody knows
	Text  string // with what to do; "": nothing lacks
}

// kind is what kind of failure it makes.
func (l Lack) kind(otherwise Kind) Kind {
	switch {
	case l.What == job.LackShm:
		return SharedMemory
	case l.What == job.LackTemp && l.Errno == "": // too little room
		return DiskFull
	}
	return cmp.Or(byErrno(l.Errno), otherwise)
}

// byErrno is the kind of a failure of a system call that is not of the program; "": it tells of none.
func byErrno(name string) Kind {
	switch name {
	case "EAGAIN", "EMFILE", "ENFILE":
		return Limits
	case "ENOMEM":
		return OutOfMemory
	case "ENOSPC", "EDQUOT":
		return DiskFull
	case "EIO", "ESTALE", "ENOTCONN", "ETIMEDOUT":
		return StuckIO
	}
	return ""
}

// notStarted judges by the errno of execve(2), or of the steps before it.
func notStarted(f Fault) Kind {
	switch f.Errno {
	case "ENODEV": // the only devices that ranks are given are GPUs
		return GPUError
	case "ENOEXEC":
		return WrongArchitecture
	case "EPERM": // of an agent's policy too
		return NotAllowed
	case "ENOENT", "EACCES", "ENOTDIR", "ELOOP":
		if f.Dir {
			return Usage
		}
		return ProgramNotFound
	}
	if k := byErrno(f.Errno); k != "" {
		return k
	}
	switch {
	case f.Dir:
		return Usage
	case f.Init:
		return InitFailed
	}
	return ProgramNotFound
}

func byEvent(f Fault) Kind {
	switch f.Event {
	case Elsewhere:
		return elsewhere(f.Code)
	case NotCopied:
		return cmp.Or(byErrno(f.Errno), Usage)
	case Mixed, Alone:
		return Mismatch
	case ReaderGone, NotWritten:
		if byErrno(f.Errno) == DiskFull {
			return DiskFull
		}
		return OutputLost
	}
	return Broken
}

// elsewhere is the kind of a failure of which only the exit code is known here.
func elsewhere(code int) Kind {
	switch {
	case code == job.ExitAgentLost:
		return AgentLost
	case code == job.ExitPreempted:
		return Terminated
	case code >= job.ExitUsage:
		return byCode(code)
	case code > 128:
		return Killed
	}
	return ExitCode
}

// byCode is the kind of what mpiup's own exit code says.
func byCode(code int) Kind {
	own := map[int]Kind{
		job.ExitTimeout:   TimeOut,
		job.ExitUsage:     Usage,
		job.ExitHosts:     HostsMissing,
		job.ExitResolve:   DNS,
		job.ExitConnect:   Network,
		job.ExitTLS:       Identity,
		job.ExitVersion:   OtherVersion,
		job.ExitExec:      ProgramNotFound,
		job.ExitInit:      InitFailed,
		job.ExitAgentLost: AgentLost,
		job.ExitPreempted: Terminated,
		job.ExitOutput:    OutputLost,
		job.ExitInternal:  Broken,
	}
	if k, is := own[code]; is {
		return k
	}
	if code > 128 && code < 160 {
		return Interrupted
	}
	return ExitCode
}
