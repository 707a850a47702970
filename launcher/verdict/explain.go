package verdict

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/mpiup/mpiup/internal/hostlist"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/visible"
)

// account is what is said of a case, in this order.
type account struct {
	what   string   // happened to which rank on which host
	behind []string // what lies behind it: who waited for whom, what the host lacks
	do     []string
	others []string // what else went wrong
}

func (a account) lines() []string {
	return slices.Concat([]string{a.what}, a.behind, a.do, a.others)
}

// Explain is the verdict in words: what happened to which rank on which host, then what to
// do, then what else went wrong. Nothing when all went well.
func (c *Case) Explain() []string {
	f, ok := c.Cause()
	if !ok {
		return nil
	}
	return c.account(f).lines()
}

func (c *Case) account(f Fault) account {
	said, spoke := c.found[f.ID]
	a := account{what: f.Sentence(), others: c.others(f)}
	if spoke && f.speaks() {
		a.what += ": " + said.Line
		if said.Where != "" {
			a.what += " (" + said.Where + ")"
		}
	}
	a.what = c.alike.beginning() + a.what + c.compared(f)
	if c.Sent.Contains(f.Exit.Signal) {
		a.what += ", which mpiup got and passed on"
	}
	if s, ok := c.signalled(f); ok && f.Event != Signalled {
		a.what += fmt.Sprintf(", after mpiup got %s and passed it on", job.SignalName(s.Code))
		a.behind = c.Holdup
		return a
	}
	a.behind = c.deviceLines(f)
	if spoke && f.speaks() {
		a.behind = slices.Concat(said.story(), a.behind)
	}
	lacks := c.lacking[f.ID]
	switch h := c.advice(f, said, spoke); {
	case f.preempted():
		a.behind, a.do = slices.Concat(a.behind, c.Holdup, c.cutShort()), []string{h}
		if good := c.Toll.well(); good != "" && c.cut == 0 {
			a.behind = append([]string{good}, a.behind...)
		}
	case f.Event == TimedOut:
		a.behind = c.Holdup
		if k, _ := c.kind(f); f.Limit == WholeLimit && len(c.Stacks) == 0 { // which say where to look
			a.do = Advice(k, strings.Join(c.Holdup, "\n"), c.Bare)[:1]
		}
	case f.Event == Signalled && len(c.Holdup) > 0:
		a.behind = c.Holdup
	case c.hostly(f) != nil:
		a.do = c.hostly(f)
	case lacks.Text != "" && (f.Event == Ended || f.Event == Aborted) && !f.broke() && !f.OOM:
		a.behind = append(a.behind, f.Host+": "+lacks.Text)
		return a
	case h != "":
		a.do = []string{h}
	}
	if spoke && f.Event == Aborted {
		a.behind = slices.Concat(said.story(), a.behind)
	}
	for _, text := range []string{c.alike.ofOneHost(), c.untested(f)} {
		if text != "" {
			a.behind = append(slices.Clone(a.behind), text)
		}
	}
	if text, do := c.otherStart(f, said); text != "" {
		a.behind = append(slices.Clone(a.behind), text)
		a.do = append([]string{do}, a.do...)
	}
	if ids := c.rivals(f); !ids.Empty() {
		a.behind = append(slices.Clone(a.behind), fmt.Sprintf("ranks %s of several hosts ended within a moment: which was first is not known", ids))
	}
	if used := c.Toll.memory(f); used != "" {
		a.behind = append(slices.Clone(a.behind), used)
	}
	a.behind = append(slices.Clone(a.behind), c.memoryLines(f, said)...)
	if text, probably := f.memoryOfLost(); text != "" {
		a.behind = append(slices.Clone(a.behind), text)
		if probably {
			a.do = append([]string{moreMemory(c.Bare)}, a.do...)
		}
	}
	if ids := c.reporters(f); !ids.Empty() && (len(c.Look.Lines) == 0 || !c.looked(f)) {
		a.behind = append(slices.Clone(a.behind), onlyReport(ids, c.found[f.ID]))
	}
	for _, s := range absentSentences(c.absent(f)) {
		if !slices.Contains(a.behind, s) {
			a.behind = append(slices.Clone(a.behind), s)
		}
	}
	if c.looked(f) {
		a.behind = append(slices.Clone(a.behind), c.Look.Lines...)
	}
	if f.Event == Ended && f.Exit.Signal != 0 && f.Piped && !f.broke() && !f.Command {
		a.do = append(a.do, "lines that it had not flushed are lost with it: --pty (or MPIUP_PTY=1) has them written one by one")
	}
	return a
}

// absent is who was absent, where a fault is that ranks waited.
func (c *Case) absent(f Fault) []job.Absentee {
	if k, _ := c.kind(f); k != Collective && (f.Event != TimedOut || f.Limit == InitLimit) && !echo(k) {
		return nil
	}
	if c.Absent != nil {
		if list := c.Absent(); len(list) > 0 {
			return list
		}
	}
	if !c.looked(f) {
		return nil
	}
	return c.Look.Away
}

// deviceLines tell of a process's devices.
func (c *Case) deviceLines(f Fault) (lines []string) {
	for _, d := range c.devices[f.ID] {
		if s := d.String(); s != "" {
			lines = append(lines, f.Host+": "+s)
		}
	}
	return lines
}

// cutShort tells of ranks that were killed when the time was up that they had to save.
func (c *Case) cutShort() []string {
	if c.cut == 0 {
		return nil
	}
	who := c.cutFirst.Process.String() + " on " + c.cutFirst.Host
	if c.cut > 1 {
		who += fmt.Sprintf(" and %d more", c.cut-1)
	}
	within := map[bool]string{false: ", within the pod's terminationGracePeriodSeconds"}[c.Bare]
	return []string{who + " had not ended when the time was up, and mpiup killed what was left: give ranks more (--term-grace" + within +
		"), or let them save less"}
}

// speaks says that what the rank wrote tells why it ended: it was no signal from elsewhere, and no agent said why.
func (f Fault) speaks() bool {
	return (f.Event == Ended || f.Event == Raised) && f.Text == "" && !f.OOM && !f.broke() && (!f.Unfinalized || f.Exit.Status() != 0) && !f.Uncalled && !f.Left &&
		(f.Exit.Signal == 0 || f.Exit.Signal == job.SIGABRT || f.Exit.Signal == job.SIGINT)
}

// advice is what to do about it, by what the rank said where that is known.
func (c *Case) advice(f Fault, said Finding, spoke bool) string {
	switch k, _, device := c.broken(f); {
	case device && f.Event == Ended && !f.broke() && !f.OOM: // whatever the program made of it
		return Advice(k, "", c.Bare)[0]
	case c.Sent.Contains(f.Exit.Signal):
		return ""
	case f.OOM && !f.broke():
		return f.rankHint(c.Bare)
	case spoke && f.speaks() && f.Exit.Signal == job.SIGINT:
		return "see whether the program raised it there itself; else somebody on " + f.Host + " sent SIGINT to the rank"
	case spoke && f.speaks() && c.looked(f) && c.Look.Found:
		return adviceAway
	case spoke && f.speaks() && c.looked(f) && c.Look.Differ:
		return Advice(CollectiveMismatch, said.Text, c.Bare)[0]
	case spoke && f.speaks() && c.losesNone(f.ID):
		return adviceNoneLost
	case spoke && f.speaks():
		if do := Advice(said.Kind, said.Text, c.Bare); said.Text != "" && len(do) > 0 {
			return do[0]
		}
		return "" // the line says all that is known
	case spoke && f.Event == Aborted && (said.Echo || said.Kind == PeerLost || said.Kind == MPIError || said.Kind == InitFailed):
		return "its MPI library ended the job, after " + said.Line
	case spoke && f.Event == Aborted && said.Kind != Abort: // whose line says that it aborts
		return "the program ended the job itself, after " + said.Line
	}
	return f.hint(c.Bare)
}

// others tells of up to three more faults, those before the cause first.
func (c *Case) others(cause Fault) []string {
	const most = 3
	var out []string
	if only := c.Toll.consequence(); only != "" {
		out = append(out, only)
	}
	n := 0
	for _, f := range c.faults {
		if by, ok := c.interrupted(f); ok && cause.Event == Signalled && f.Event == Ended && (f.Exit.Status() == 128+by.Code || job.Interrupts(by.Code)) {
			continue // as it was told to
		}
		if f.Event == Signalled || f.Event == cause.Event && f.ID == cause.ID && f.Node == cause.Node {
			continue
		}
		if f.ID == cause.ID && (f.Event == NotWired || f.Event == Ended && cause.Event == Aborted) {
			continue // it ended because it aborted, and its PMI connection with it
		}
		if cause.preempted() && c.Passed != 0 && (f.Event == NotWired || f.Event == Ended && f.Exit.Status() == 128+c.Passed) {
			continue // as it was told to, which ends its PMI connection too
		}
		if c.Toll.echoed(f) || c.fellAlike(cause, f) {
			continue // which was said
		}
		if n++; n > most {
			continue
		}
		out = append(out, map[bool]string{false: "then: ", true: "before that: "}[f.At < cause.At]+f.Sentence())
	}
	if n > most {
		out = append(out, fmt.Sprintf("and %d more failures", n-most))
	}
	atOnce := slices.DeleteFunc(slices.Clone(c.beside), func(f Fault) bool { // which may have failed by themselves
		return cause.Event != Ended && cause.Event != Aborted || f.At-cause.At > abortEcho || f.ID == cause.ID || c.Toll.echoed(f) || c.fellAlike(cause, f)
	})
	if len(atOnce) > 0 {
		more := map[bool]string{true: fmt.Sprintf(", as did %d more", len(atOnce)-1)}[len(atOnce) > 1]
		out = append(out, atOnce[0].Sentence()+" as mpiup began to stop it"+more)
	}
	return out
}

// Sentence names rank, host and cause, without what to do.
func (f Fault) Sentence() string {
	who := f.Process.String() + " on " + f.Host
	if f.ID < 0 {
		who = f.Host
	} else if f.Command {
		who = "the command on " + f.Host
	}
	switch f.Event {
	case Ended:
		if f.broke() {
			return who + " " + f.Text + "; mpiup killed it"
		}
		if f.OOM {
			return who + " " + f.ended() + f.starvation()
		}
		return who + " " + f.ended() + visible.Colon(f.Text)
	case Raised:
		return who + " failed" + visible.Colon(f.Text)
	case Aborted:
		code, text := fmt.Sprintf("code %d", f.Code), f.Text
		if exit := f.Status(); exit != f.Code { // of which there are 8 bits (_exit(2))
			code += fmt.Sprintf(" (exit code %d)", exit)
		}
		if text == "N/A" { // Open MPI's, where it has nothing to say (ompi_mpi_abort)
			text = ""
		}
		if f.OOM {
			return fmt.Sprintf("%s called MPI_Abort with %s%s", who, code, f.starvation())
		}
		if f.Whom != "" {
			return fmt.Sprintf("%s has ended %s, with %s%s", who, f.Whom, code, visible.Colon(text))
		}
		return fmt.Sprintf("%s called MPI_Abort with %s%s", who, code, visible.Colon(text))
	case NotStarted:
		what := map[bool]string{false: " could not be started", true: " could not be prepared"}
		return who + what[f.Init] + visible.Colon(f.Text)
	case HostLost:
		what := map[bool]string{false: "was lost", true: "does not answer"}
		return fmt.Sprintf("host %s with %s %s%s", f.Host, f.Ranks, what[f.Mute], visible.Colon(f.Text))
	case HostTaken:
		switch f.By {
		case ByLauncher:
			return fmt.Sprintf("a newer launcher of this job took over host %s with %s%s", f.Host, f.Ranks, visible.Colon(f.Text))
		case ByShutdown:
			return fmt.Sprintf("host %s with %s was %s", f.Host, f.Ranks, f.Text)
		}
		return fmt.Sprintf("host %s with %s is being taken away%s", f.Host, f.Ranks, visible.Colon(f.Text))
	case LauncherTaken:
		return fmt.Sprintf("the launcher on %s got SIGTERM%s", f.Host, visible.Colon(f.Text))
	case NotWired:
		if f.Stranded == job.StrandedByLeaving {
			return who + " " + f.Text
		}
		return who + " cannot go on" + visible.Colon(f.Text)
	case TimedOut:
		return passed[f.Limit] + f.Text
	case Signalled:
		if f.Unread {
			return fmt.Sprintf("mpiup got %s, and nobody reads its output any more", job.SignalName(f.Code))
		}
		return fmt.Sprintf("mpiup got %s and ended the ranks", job.SignalName(f.Code))
	case Elsewhere:
		return f.Text
	case ReaderGone:
		return "nobody reads standard output any more (broken pipe)"
	case Alone:
		return f.Text
	}
	return happened[f.Event] + visible.Colon(f.Text)
}

// happened is the sentences of events that are no rank's or host's; the limits that a run may pass have theirs.
var (
	happened = map[Event]string{
		Orphaned:   "the launcher before this one was lost, and what only it knew",
		NotWritten: "output could not be written",
		NotCopied:  "files could not be copied",
		Mixed:      "these MPI libraries cannot talk to each other",
		Internal:   "internal error",
	}
	passed = map[Limit]string{
		WholeLimit: "the job ran longer than --timeout ",
		StallLimit: "no rank has worked for --stall-timeout ",
		InitLimit:  "ranks waited in MPI_Init for --init-timeout ",
	}
)

// starvation says of a rank's end that it came of want of memory.
func (f Fault) starvation() string {
	if f.Unsure {
		return ", probably out of memory"
	}
	return ", out of memory"
}

func (f Fault) ended() string {
	switch {
	case f.Left && f.Ranks != "":
		return "exited with code 0, as ranks " + f.Ranks + " did, of which others probably lost one too early"
	case f.Left:
		return "exited with code 0 and is probably the one that others lost too early"
	case f.Uncalled && f.Ranks != "":
		return "exited with code 0 without having called MPI_Init, as ranks " + f.Ranks + " did, and others wait for them there"
	case f.Uncalled:
		return "exited with code 0 without having called MPI_Init, and others wait for it there"
	case f.Unfinalized && f.Exit.Status() == 0:
		return "exited with code 0 after MPI_Init without MPI_Finalize, which counts as failure 1"
	case f.Exit.Signal != 0 && f.Exit.Core:
		return fmt.Sprintf("was killed by signal %d (%s), core dumped", f.Exit.Signal, job.SignalName(f.Exit.Signal))
	case f.Exit.Signal != 0:
		return fmt.Sprintf("was killed by signal %d (%s)", f.Exit.Signal, job.SignalName(f.Exit.Signal))
	}
	return fmt.Sprintf("exited with code %d", f.Exit.Code)
}

// hint is what to do about it; "" where the sentence says all. bare says that no host is a pod of Kubernetes.
func (f Fault) hint(bare bool) string {
	switch f.Event {
	case Ended:
		return f.rankHint(bare)
	case Aborted:
		if f.Whom != "" {
			return "the program ended these ranks itself, and the others went on: see what it wrote before"
		}
		return "the program ended the job itself: see what it wrote before"
	case HostLost:
		why := "why the pod or its agent ended: kubectl describe pod " + hostlist.Pod(f.Host)
		return "see " + map[bool]string{false: why, true: "by the host's log why it or its agent ended"}[bare] + "; mpiup peers"
	case HostTaken:
		switch {
		case f.By == ByLauncher:
			return "this launcher was replaced by a newer one, which runs the job"
		case f.By == ByShutdown:
			return "see who ended the agents there, and why: mpiup shutdown does so while a job runs, too; start them, and run the job again"
		}
		why := " (deletion, preemption or a drained node): kubectl describe pod " + hostlist.Pod(f.Host)
		return "its agent got SIGTERM" + map[bool]string{false: why, true: ": see by the host's log who ended it"}[bare] + "; run the job again"
	case Orphaned:
		return "run the job again: the ranks could not go on without it"
	case LauncherTaken:
		why := "kubectl describe pod " + hostlist.Pod(f.Host) + " says why (deletion, preemption or a drained node)"
		return map[bool]string{false: why, true: "see who ended the launcher"}[bare] + "; run the job again"
	case NotWired:
		switch f.Stranded {
		case job.StrandedByLimit: // which says what to do
			return ""
		case job.StrandedByLeaving: // which is no failure to meet the others
			return "MPI ends by MPI_Finalize alone: see what the rank wrote, and what ended it or closed its descriptors"
		}
		return "the ranks of an MPI program start together: see what the one that is missing wrote, and that it calls MPI_Init"
	case Elsewhere:
		pod := map[bool]string{false: " (kubectl logs of its pod)"}[bare]
		return "see what that node's torchrun wrote" + pod + ": the ranks here were ended with it"
	case Alone:
		return "what they wrote is the result of as many runs of one rank; where that is meant, say --alone-ok"
	case Mixed:
		return "nothing was started: build all programs with one MPI library, and use one image on all hosts"
	case TimedOut:
		return "" // its kind's advice is all that there is
	case NotWritten:
		return WriteHint
	case Internal:
		return "this is a fault of mpiup: please report it with the lines above"
	}
	return ""
}

// moreMemory is what to do where a container has too little.
func moreMemory(bare bool) string {
	return "raise " + map[bool]string{false: "resources.limits.memory", true: "the memory limit"}[bare] + ", or put fewer ranks on a host (--ppn)"
}

func (f Fault) rankHint(bare bool) string {
	switch {
	case f.Broke == job.BreachPMIx:
		return "its library must be an Open MPI with PMIx 3.1 to 7.0; if it is, this is a fault of mpiup: please report it"
	case f.Broke == job.BreachVersion: // whose text says what to do
		return ""
	case f.broke():
		return "its library must speak PMI-1 or PMI-2 (MPICH, MVAPICH, Intel MPI), and nothing else may write to the descriptor PMI_FD"
	case f.OOM:
		if f.Helper {
			return moreMemory(bare) + ", or load data with fewer workers"
		}
		return moreMemory(bare)
	case f.Left:
		return "see why it ended before the others: a rank has to stay as long as another one needs it"
	case f.Uncalled:
		return "see what it wrote, and that each rank takes a way to MPI_Init"
	case f.Unfinalized && f.Exit.Status() == 0:
		return "call MPI_Finalize on every way out of the program"
	}
	switch f.Exit.Signal {
	case 0:
	case job.SIGKILL:
		tells := map[bool]string{false: "kubectl describe pod " + hostlist.Pod(f.Host), true: "dmesg there says whether the kernel did it"}
		return fmt.Sprintf("something on %s killed it; out of memory is the usual reason: %s", f.Host, tells[bare])
	case job.SIGSEGV, job.SIGBUS, job.SIGILL, job.SIGFPE, job.SIGABRT, job.SIGTRAP, job.SIGSYS:
		return map[bool]string{false: crashHint, true: dumpedHint}[f.Exit.Core]
	default:
		return cmp.Or(job.OwnSignal(f.Exit.Signal), "the signal did not come from mpiup: look for who sent it on "+f.Host)
	}
	if shellSays(f.Exit.Code) {
		return fmt.Sprintf("if the program is a shell script, a command in it was not found or not executable on %s", f.Host)
	}
	return codeHint
}

// What to do about a crash, before and after it is known in which functions.
const (
	crashHint   = "the program crashed: see what it wrote before; a core file needs ulimit -c"
	dumpedHint  = "the program crashed: see what it wrote before, and its core file"
	crashedHint = "the program crashed: see what it wrote before, and in which function"
)

// codeHint is what to do about an exit code, before it is known what the program said of it.
const codeHint = "the code is the program's own: see what it wrote before"

// WriteHint is what to do where output cannot be written.
const WriteHint = "make room there, or choose a place that can be written, and run the job again"
