package launcher

import (
	"fmt"
	"strings"
	"syscall"

	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/launcher/hosts"
	causes "github.com/mpiup/mpiup/launcher/verdict"
)

// explain is the verdict in words: what happened to which rank on which host, then what to
// do, then what else went wrong. Nothing when all went well.
func (v *verdict) explain() []string {
	f, ok := v.cause()
	if !ok {
		return nil
	}
	said, spoke := v.found[f.rank]
	lines := []string{f.sentence()}
	if spoke && f.speaks() {
		lines[0] += ": " + said.Line
	}
	if sig := v.signalled(); sig != 0 && f.kind != faultSignal {
		lines[0] += fmt.Sprintf(", after mpiup got %s and passed it on", signalName(sig))
		return append(append(lines, v.holdup...), v.others(f)...)
	}
	lacks := v.lacking[f.rank]
	switch h := f.advice(said, spoke); {
	case (f.kind == faultTimeout || f.kind == faultSignal) && len(v.holdup) > 0:
		lines = append(lines, v.holdup...)
	case lacks != "" && (f.kind == faultRank || f.kind == faultAbort) && !f.broke && !f.oom:
		return append(append(lines, f.host+": "+lacks), v.others(f)...)
	case h != "":
		lines = append(lines, h)
	}
	if f.kind == faultRank && f.exit.Signal != 0 && f.piped && !f.broke && !f.command {
		lines = append(lines, "lines that it had not flushed are lost with it: --pty (or MPIUP_PTY=1) has them written one by one")
	}
	return append(lines, v.others(f)...)
}

// speaks says that what the rank wrote tells why it ended: it was no signal from elsewhere, and no agent said why.
func (f fault) speaks() bool {
	return (f.kind == faultRank || f.kind == faultRaised) && f.text == "" && !f.oom && !f.broke && !f.unfinalized &&
		(f.exit.Signal == 0 || f.exit.Signal == int(syscall.SIGABRT))
}

// advice is what to do about it, by what the rank said where that is known.
func (f fault) advice(said causes.Finding, spoke bool) string {
	switch {
	case spoke && f.speaks():
		return said.Advice
	case spoke && f.kind == faultAbort:
		return "the program ended the job itself, after " + said.Line
	}
	return f.hint()
}

// others tells of up to three more faults, those before the cause first.
func (v *verdict) others(cause fault) []string {
	const most = 3
	var out []string
	n := 0
	for _, f := range v.faults {
		if f.kind == faultSignal || f.kind == cause.kind && f.rank == cause.rank && f.node == cause.node {
			continue
		}
		if f.kind == faultRank && cause.kind == faultAbort && f.rank == cause.rank {
			continue // it ended because it aborted
		}
		if f.kind == faultWireup && f.rank == cause.rank {
			continue // its PMI connection ended with it
		}
		if n++; n > most {
			continue
		}
		when := "then"
		if f.at < cause.at {
			when = "before that"
		}
		out = append(out, when+": "+f.sentence())
	}
	if n > most {
		out = append(out, fmt.Sprintf("and %d more failures", n-most))
	}
	return out
}

// sentence names rank, host and cause, without what to do.
func (f fault) sentence() string {
	who := job.Process{Job: f.job, Rank: f.rank - f.base}.String() + " on " + f.host
	if f.rank < 0 {
		who = f.host
	} else if f.command {
		who = "the command on " + f.host
	}
	switch f.kind {
	case faultRank:
		if f.broke {
			return who + " " + strings.TrimPrefix(f.text, job.Process{Job: f.job, Rank: f.rank - f.base}.String()+" ") + "; mpiup killed it"
		}
		return who + " " + f.ended() + colon(f.text)
	case faultRaised:
		return who + " failed" + colon(f.text)
	case faultAbort:
		code, text := fmt.Sprintf("code %d", f.code), f.text
		if exit := f.status(); exit != f.code { // of which there are 8 bits (_exit(2))
			code += fmt.Sprintf(" (exit code %d)", exit)
		}
		if text == "N/A" { // Open MPI's, where it has nothing to say (ompi_mpi_abort)
			text = ""
		}
		return fmt.Sprintf("%s called MPI_Abort with %s%s", who, code, colon(text))
	case faultStart:
		what := "could not be started"
		if f.init {
			what = "could not be prepared"
		}
		return fmt.Sprintf("%s %s%s", who, what, colon(f.text))
	case faultLost:
		return fmt.Sprintf("host %s with %s was lost%s", f.host, f.ranks, colon(f.text))
	case faultPreempted:
		if f.fenced {
			return fmt.Sprintf("a newer launcher of this job took over host %s with %s%s", f.host, f.ranks, colon(f.text))
		}
		return fmt.Sprintf("host %s with %s is being taken away%s", f.host, f.ranks, colon(f.text))
	case faultWireup:
		return who + " could not be wired up" + colon(f.text)
	case faultWrite:
		return "output could not be written" + colon(f.text)
	case faultCopy:
		return "files could not be copied" + colon(f.text)
	case faultMixed:
		return mixed(f.text)
	case faultTimeout:
		return "the job ran longer than --timeout " + f.text
	case faultSignal:
		return fmt.Sprintf("mpiup got %s and ended the ranks", signalName(f.code))
	case faultOutput:
		return "nobody reads standard output any more (broken pipe)"
	}
	return "internal error" + colon(f.text)
}

func (f fault) ended() string {
	switch {
	case f.unfinalized && f.exit.Status() == 0:
		return "exited with code 0 after MPI_Init without MPI_Finalize, which counts as failure 1"
	case f.exit.Signal != 0 && f.exit.Core:
		return fmt.Sprintf("was killed by signal %d (%s), core dumped", f.exit.Signal, signalName(f.exit.Signal))
	case f.exit.Signal != 0:
		return fmt.Sprintf("was killed by signal %d (%s)", f.exit.Signal, signalName(f.exit.Signal))
	}
	return fmt.Sprintf("exited with code %d", f.exit.Code)
}

func colon(text string) string {
	if text == "" {
		return ""
	}
	return ": " + strings.TrimSpace(text)
}

// hint is what to do about it; "" where the sentence says all.
func (f fault) hint() string {
	switch f.kind {
	case faultRank:
		return f.rankHint()
	case faultAbort:
		return "the program ended the job itself: see what it wrote before"
	case faultLost:
		return fmt.Sprintf("see why the pod or its agent ended: kubectl describe pod %s; mpiup peers", hosts.FirstLabel(f.host))
	case faultPreempted:
		if f.fenced {
			return "this launcher was replaced (a retried pod or container); the newer one runs the job"
		}
		return fmt.Sprintf("its agent got SIGTERM (deletion, preemption or a drained node): kubectl describe pod %s; run the job again",
			hosts.FirstLabel(f.host))
	case faultWireup:
		if strings.Contains(f.text, "let ranks put less") { // a bound, which says what to do
			return ""
		}
		return "the ranks of an MPI program start together: see what the one that is missing wrote, and that it calls MPI_Init"
	case faultMixed:
		return "nothing was started: build all programs with one MPI library, and use one image on all hosts"
	case faultTimeout:
		return "give it more time (--timeout), or look for the rank that hangs"
	case faultWrite:
		return writeHint
	case faultInternal:
		return "this is a fault of mpiup: please report it with the lines above"
	}
	return ""
}

func (f fault) rankHint() string {
	switch {
	case f.broke:
		if strings.Contains(f.text, "broke the PMIx protocol") {
			return "its library must be an Open MPI with PMIx 3.1 to 7.0; if it is, this is a fault of mpiup: please report it"
		}
		return "its library must speak PMI-1 or PMI-2 (MPICH, MVAPICH, Intel MPI), and nothing else may write to the descriptor PMI_FD"
	case f.oom:
		return fmt.Sprintf("the memory limit of %s was hit: raise resources.limits.memory, or put fewer ranks on a host (--ppn)", f.host)
	case f.unfinalized && f.exit.Status() == 0:
		return "call MPI_Finalize on every way out of the program"
	}
	switch syscall.Signal(f.exit.Signal) {
	case 0:
	case syscall.SIGKILL:
		return fmt.Sprintf("something on %s killed it; out of memory is the usual reason: kubectl describe pod %s", f.host, hosts.FirstLabel(f.host))
	case syscall.SIGSEGV, syscall.SIGBUS, syscall.SIGILL, syscall.SIGFPE, syscall.SIGABRT, syscall.SIGTRAP, syscall.SIGSYS:
		return "the program crashed: see what it wrote before; a core file needs ulimit -c in the container"
	default:
		return fmt.Sprintf("the signal did not come from mpiup: look for who sent it on %s", f.host)
	}
	switch f.exit.Code {
	case 126, 127:
		return fmt.Sprintf("if the program is a shell script, a command in it was not found or not executable on %s", f.host)
	}
	return "the code is the program's own: see what it wrote before"
}

// writeHint is what to do where output cannot be written.
const writeHint = "make room there, or choose a place that can be written, and run the job again"
