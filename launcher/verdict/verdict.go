// Package verdict says of a run that failed whose fault it is, what happened in words, and the exit code. PURE.
//
//	faults, in the order in which they were reported ──Add───▶ Case ──Cause────▶ the guilty one
//	what ranks wrote on standard error ───────────────Hear──▶      ──Explain──▶ sentences: what happened, what to do, what else
//	                                                               ──Exit─────▶ the exit code (docs/exit-codes.md)
//
// Order: an MPI_Abort comes before ranks' own exits, however late it is reported, since a rank that dies of another's abort
// may be reported first. But a rank that was killed just before or after comes before it (killed): its peers' libraries abort
// over the loss. All else goes by arrival. A lost host goes by the time it was last heard, since ranks elsewhere may die of it
// before the launcher gives it up. Two ranks of one host go by that host's clock. A rank that only says that it lost another one (Echo)
// gives way to one that failed for a reason of its own (blame). A failed wire-up, and then a signal to mpiup, is the cause
// only when no rank failed by itself. A signal is it only when mpiup had to stop ranks. When a pod is taken away, nothing that
// comes later counts, nor what came within a moment before: the news of both may pass each other.
//
// What ranks wrote is read by one table (kinds.go, signs.txt), whose test has lines of real logs for each kind. When one rank of a job fails, the others
// fail too, with errors about lost connections, and theirs may come first: these are Echoes.
//
// A Case belongs to one goroutine. The package knows no connection, frame or file: scripts in testdata play whole cases.
package verdict

import (
	"fmt"
	"slices"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/job"
)

// Case gathers the faults of a run. The zero value has none.
type Case struct {
	Stopped bool                  // a rank was ended by mpiup
	Bare    bool                  // no host is a pod of Kubernetes
	Passed  int                   // the signal by which ranks were told that their hosts are taken away; 0: they were not
	Sent    idset.Set             // signals that mpiup got and passed on, which whoever sent them to it has sent to the ranks
	Absent  func() []job.Absentee // who is absent from a collective in which others wait, by their own records; nil: none are known
	Holdup  []string              // at the end of the time or on a signal: who waited for whom, and what to do
	Toll    Toll
	Ran     idset.Set // processes that were started, by their ids
	// OneProgram says that all ranks of the first job run one program, so that where one cannot be started none can.
	OneProgram bool
	Here       Start       // of the launcher itself; zero: it does not matter
	Stacks     []job.Stack // where ranks were when a time limit struck
	Look       Look        // at ranks that ran still when one of them had waited in vain

	waited   string     // ranks for which others waited at a time limit, where there are several
	sure     Confidence // that others waited for those; "": for none
	limited  Kind       // what ranks say of a time limit that struck; "": they do not
	faults   []Fault
	well     []Fault // ranks that ended with 0
	added    int
	beside   []Fault                     // ranks that failed in their own ways while mpiup stopped them
	cut      int                         // ranks that mpiup killed
	cutFirst Fault                       // the first of them
	devices  map[int][]job.DeviceTrouble // what went wrong with those that a process had which ended badly, by its id
	lacking  map[int]Lack                // what MPI lacks where a process ended badly, by its id
	also     []Fault                     // ranks that could not be started when the run was stopped already
	alike    alike                       // with the guilty one, once all have ended
	files    map[int]fileHosts           // of files that processes missed, by their ids
	starts   map[int]Start               // of processes that failed, by their ids
	memory   map[int]Memory              // of the container when a process ended, by its id, where the kernel has killed there
	found    map[int]Finding             // what ranks that failed say of it, by id; read once all have ended
}

// maxFaults bounds what is kept: of 100,000 ranks that fail, those at the front matter.
const maxFaults = 4096

// Add takes a fault as it is reported; the order of the calls counts between faults of one time.
func (c *Case) Add(f Fault) {
	c.added++
	f.seq = c.added
	if len(c.faults) < maxFaults {
		c.faults = append(c.faults, f)
	}
}

// Lacks notes what an agent says that MPI lacks where a process ended badly, of as many as faults are kept.
func (c *Case) Lacks(id int, what Lack) {
	if what.Text == "" || len(c.lacking) >= maxFaults {
		return
	}
	if c.lacking == nil {
		c.lacking = map[int]Lack{}
	}
	c.lacking[id] = what
}

// Devices notes more that an agent saw of a process's devices, of as many as faults are kept.
func (c *Case) Devices(id int, list []job.DeviceTrouble) {
	const most = 16 // of a process
	if len(list) == 0 || len(c.devices) >= maxFaults || len(c.devices[id])+len(list) > most {
		return
	}
	if c.devices == nil {
		c.devices = map[int][]job.DeviceTrouble{}
	}
	c.devices[id] = append(c.devices[id], list...)
}

// Ours notes a rank that ended after mpiup had begun to stop it: killed, since it had not ended when it was asked to, or in a way of its own.
func (c *Case) Ours(f Fault) {
	c.Stopped = true
	switch sig := f.Exit.Signal; {
	case sig == job.SIGKILL && c.Passed != 0:
		if c.cut++; c.cut == 1 {
			c.cutFirst = f
		}
	case sig != job.SIGKILL && f.Exit.Status() != 0 && f.Exit.Status() != 128+job.SIGTERM && !c.Sent.Contains(sig) && c.Passed == 0 && len(c.beside) < maxFaults:
		c.beside = append(c.beside, f)
	}
}

// Waited notes whom others waited for when a time limit struck: a process, or several ranks. sure says that these said so themselves.
func (c *Case) Waited(who Fault, ranks string, sure bool) {
	c.waited, c.sure = ranks, Probable
	if sure {
		c.sure = Certain
	}
	for i := range c.faults {
		if f := &c.faults[i]; f.Event == TimedOut {
			f.ID, f.Node, f.Host, f.Process = who.ID, who.Node, who.Host, who.Process
		}
	}
}

// Any says whether there is a reason to stop the job.
func (c *Case) Any() bool { return len(c.faults) > 0 }

// OnlyRanks says that ranks have failed and nothing else has.
func (c *Case) OnlyRanks() bool {
	return !slices.ContainsFunc(c.faults, func(f Fault) bool { return f.Event != Ended })
}

// Urgent says that something went wrong which ends a run at once, also while its ranks are given time: its time limit, a
// newer launcher, or a fault of mpiup's.
func (c *Case) Urgent() bool {
	return slices.ContainsFunc(c.faults, func(f Fault) bool {
		return f.Event == TimedOut || f.Event == Internal || f.Event == HostTaken && f.By == ByLauncher
	})
}

// Exit is the job's exit code (docs/exit-codes.md).
func (c *Case) Exit() int {
	f, ok := c.Cause()
	if !ok {
		return 0
	}
	return f.Status()
}

// final says that a fault ends a run for good, whatever else went wrong: somebody asked for the end or will start the
// job anew, or the next start would come to the same.
func (f Fault) final() bool {
	switch f.Event {
	case Ended, Aborted, Raised, HostLost, NotWired, Orphaned:
		return false
	case TimedOut:
		return f.Limit == WholeLimit
	}
	return true
}

// Again says whether the ranks may do better when they are started again: a rank failed, or a host was lost, or the run
// hung. docs/restart.md has the table. Else why says, where nobody asked for the end, what mpiup saw that each start would come to:
// a rank's words alone never are that, nor the exit code of one that had run for a while.
func (c *Case) Again() (again bool, why string) {
	f, ok := c.Cause()
	if !ok {
		return false, ""
	}
	if i := slices.IndexFunc(c.faults, Fault.final); i >= 0 {
		if c.faults[i].asked() {
			return false, ""
		}
		return false, "each start would come to the same"
	}
	k, _ := c.kind(f)
	switch {
	case f.Event == Ended && !f.broke() && !f.OOM && c.Sent.Contains(f.Exit.Status()-128): // somebody ended it
		return false, ""
	case f.Event == Ended && f.broke():
		return false, "its agent saw that the rank's MPI library and mpiup do not go together"
	case f.Event == Ended && shellSays(f.Exit.Status()) && slices.Contains(notExecuted, k) && !c.found[f.ID].Late:
		return false, fmt.Sprintf("code %d means that the program cannot be executed, and it would not be the next time", f.Exit.Status())
	}
	return true, ""
}

// asked says that somebody wants the run to end, so that nobody expects another start.
func (f Fault) asked() bool {
	switch f.Event {
	case HostTaken, LauncherTaken, Signalled, TimedOut:
		return true
	}
	return false
}
