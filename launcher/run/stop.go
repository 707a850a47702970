package run

import (
	"fmt"
	"slices"
	"strings"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/wording"
	"github.com/mpiup/mpiup/launcher/hang"
	"github.com/mpiup/mpiup/launcher/remains/report"
	"github.com/mpiup/mpiup/launcher/verdict"
)

// judge stops the job after the first verdict.Fault.
func (r *Run) judge() {
	if r.job == jobStopping || !r.verdict.Any() || r.inquiry.asking() || r.leaving && !r.verdict.Urgent() || r.cfg.Linger && r.verdict.OnlyRanks() {
		return
	}
	if f, ok := r.verdict.Cause(); ok {
		r.stop(f.Sentence(), false)
	}
}

// quietStop is how long a stop may take before the user is told of it.
const quietStop = time.Second

// stopBound is what an agent gets, over the grace, to end what it was told to end.
const stopBound = 15 * time.Second

// stop ends all ranks: TERM, the grace, CONT and KILL; with now at once. The second call
// matters only with now.
func (r *Run) stop(why string, now bool) {
	if r.job == jobStopping && !now {
		return
	}
	if next, ok := r.job.next(jobFailed); ok {
		r.job = next
	}
	if r.stopped.IsZero() {
		r.stopped = r.now.Wall
		r.give(Note{report.Stopping, "", why})
	}
	r.give(NoCopies{-1})
	r.give(Unset{Grace})
	r.set(Quiet, quietStop)
	r.set(Bound, r.cfg.Grace+stopBound)
	for h := range r.hosts {
		if r.succeeded { // who took a host over takes the others, too
			r.finish(h)
			continue
		}
		r.send(h, (&apiv1.Stop{Why: why, Now: now}).Frame())
		r.idle(h)
	}
}

// came ends the ranks for hosts that have come, unless some are over or are to end anyway.
func (r *Run) came(e Came) {
	over := func(p process) bool { return p.state.over() }
	if r.job == jobStopping || r.job == jobDone || r.leaving || r.verdict.Any() || slices.ContainsFunc(r.ranks, over) {
		return
	}
	r.grows = e
	r.stop(e.Sentence(), false)
}

// Sentence names the hosts.
func (c Came) Sentence() string {
	if strings.Contains(c.Hosts, ", ") {
		return "hosts " + c.Hosts + " have come"
	}
	return "host " + c.Hosts + " has come"
}

// abandon gives up hosts that did not do what they were told in time, or ended ranks and do not say why.
func (r *Run) abandon() {
	for i, h := range r.hosts {
		if (r.job == jobStopping || h.bye || h.dropped) && !h.finished {
			r.say("host %s did not end what it runs within %v; it is left to its lease", h.Name, r.cfg.Grace+stopBound)
			h.loss = Loss{Lost: true, Unsure: true, Since: r.now.Clock}
			r.finish(i)
		}
	}
}

// signal does what a signal to the launcher asks for.
func (r *Run) signal(sig int) {
	r.give(Note{report.Signal, "", job.SignalName(sig)})
	a := r.signals.on(sig, r.now.Wall.Sub(r.cfg.Begun))
	if r.cfg.Exec != nil && a.grace {
		a.say = ""
	}
	if a.say != "" {
		r.say("%s", a.say)
	}
	if a.grace && r.cfg.Exec == nil && sig == job.SIGTERM {
		r.taken(a.forward)
		return
	}
	if a.grace {
		r.fail(verdict.Fault{Event: verdict.Signalled, ID: -1, Node: -1, Code: sig})
		r.verdict.Holdup = r.heldUp()
		if r.cfg.Exec == nil || sig == job.SIGTERM { // a command may have its own use for Ctrl-C
			r.set(Grace, r.cfg.Grace)
		}
	}
	r.forwardSignals(a.forward)
	if a.kill {
		r.stop("the launcher was told to kill", true)
		r.give(Unblock{})
	}
}

// taken: our own pod is being taken away. A run whose ranks have all ended has nothing to lose, and ends as they did.
func (r *Run) taken(signals []int) {
	if !r.unfinished() {
		return
	}
	f := verdict.Fault{Event: verdict.LauncherTaken, ID: -1, Node: -1, Host: r.cfg.Pod}
	r.fail(f)
	r.verdict.Holdup = r.heldUp()
	as := ""
	if r.cfg.Preempt.Signal != job.SIGTERM {
		as = " as " + job.SignalName(r.cfg.Preempt.Signal)
	}
	r.leave(f.Sentence(), fmt.Sprintf("got SIGTERM and passed it on%s: the ranks have %v to end", as, r.cfg.TermGrace), signals...)
}

// leave begins the end of a run whose pod, or a worker's, is to be gone soon: every rank gets Config.Preempt.Signal and has the
// whole of Config.TermGrace to save what it has, whoever ends or fails first meanwhile. What is left then is killed: a
// second grace would outlast the pod. Before every rank has started, none has anything to save, and one that starts later
// would miss the signal and wait for the others: the run is stopped at once.
func (r *Run) leave(cause, how string, signals ...int) {
	if r.leaving || r.job == jobStopping {
		return
	}
	if r.job == jobLaunching {
		r.stop(cause, false)
		return
	}
	r.leaving, r.verdict.Passed = true, r.cfg.Preempt.Signal
	r.say("%s", how)
	r.forwardSignals(signals)
	r.set(Grace, r.cfg.TermGrace)
}

// forwardSignals sends signals to all ranks; an agent that is being ended has sent its own that says so.
func (r *Run) forwardSignals(signals []int) {
	for _, s := range signals {
		once := r.leaving && s == r.cfg.Preempt.Signal
		for h, at := range r.hosts {
			if (at.running > 0 || r.job == jobLaunching) && (at.ending == "" || s != r.cfg.Preempt.Signal) {
				r.send(h, (&apiv1.Signal{Number: int32(s), Once: once}).Frame())
			}
		}
	}
}

// timeToGo: the ranks have had their time after our INT, or after a TERM to us or to an agent.
func (r *Run) timeToGo() {
	why := "the launcher got " + job.SignalName(r.signals.first)
	if r.signals.first == 0 {
		why = r.sentence()
	}
	leaving := r.leaving
	r.leaving = false
	r.stop(why, leaving)
}

// timeUp is --timeout: the ranks are stopped once the hosts have said who waits for whom.
func (r *Run) timeUp() {
	r.fail(verdict.Fault{Event: verdict.TimedOut, ID: -1, Node: -1, Text: r.cfg.Timeout.String()})
	if r.job == jobStopping {
		return
	}
	r.inquiry.last = true
	if r.inquiry.ask(whoWaits) {
		r.inquired()
	}
}

// inquired: the hosts have answered who waits for whom, or their time is up.
func (r *Run) inquired() {
	switch {
	case r.inquiry.forHang():
		if f, blame := r.stalls.conclude(r.now.Clock); f != nil {
			r.fail(*f)
			r.verdict.Holdup = blame.Lines(r.names())
			r.accuse(blame)
			r.judge()
		}
	case r.inquiry.last && r.inquiry.open != nil:
		all := r.inquiry.close()
		lines, unmet := r.meet.missing(r.now.Wall)
		facts := r.stalls.facts(r.now.Clock, hang.Brief)
		facts.Unmet = unmet
		blame := facts.Blame()
		if len(lines) == 0 {
			lines = r.inquiry.picture.Waiting(r.inquiry.words(), 0)
		}
		if len(lines) == 0 && len(blame.Odd) > 0 {
			lines = blame.Lines(r.names())
		} else if len(lines) == 0 && all {
			mpi := slices.ContainsFunc(r.jobs, func(j *jobRun) bool { return j.loadsMPI })
			lines = r.inquiry.picture.All(r.inquiry.words(), mpi)
		}
		r.verdict.Holdup = append(lines, "give it more time (--timeout), or look where its ranks are while they run: mpiup stacks")
		r.accuse(blame)
		r.judge()
	case r.inquiry.open != nil:
		r.inquiry.close()
		r.inquiry.tell()
	}
}

// accuse hands the verdict who is waited for.
func (r *Run) accuse(b hang.Blame) {
	ids := b.IDs()
	switch {
	case ids.Len() == 1:
		r.verdict.Waited(r.about(verdict.TimedOut, r.hostOf(ids.First()), ids.First()), "", b.Sure)
	case !ids.Empty() && ids.Last() < r.jobs[0].size():
		r.verdict.Waited(verdict.Fault{ID: -1, Node: -1}, ids.String(), b.Sure)
	}
}

// heldUp is who was waited for when the run is ended from outside: hosts are not asked, since that takes time.
func (r *Run) heldUp() []string {
	lines, _ := r.meet.missing(r.now.Wall)
	facts := r.stalls.facts(r.now.Clock, hang.Brief)
	facts.Barriers = nil
	if blame := facts.Blame(); len(lines) == 0 && len(blame.Odd) > 0 {
		lines = blame.Lines(r.names())
	}
	return lines
}

// onAborted is MPI_Abort, which ends the run, or a PMIx_Abort of certain processes: those are
// killed, on whatever hosts, and the others go on.
func (r *Run) onAborted(h int, m *apiv1.Aborted, at time.Duration) error {
	if m.Id != 0 {
		r.send(h, (&apiv1.AbortNoted{Id: m.Id}).Frame())
	}
	if r.excused(int(m.Rank)) {
		return nil
	}
	if m.Targets != "" {
		left, err := r.left(m.Targets)
		if err == nil {
			r.endWanted(int(m.Rank), left, "PMIx_Abort"+wording.Colon(m.Text), m.Code)
			r.signalTo(left, job.SIGKILL)
		}
		return err
	}
	f := r.about(verdict.Aborted, h, int(m.Rank))
	f.At, f.Code, f.Text = at, int(m.Code), m.Text
	r.gone.note(&apiv1.Gone{Ids: idset.Of(f.ID).String(), Code: m.Code, Aborted: true})
	r.fail(f)
	return nil
}

// maxSignal is the last of Linux's signals (SIGRTMAX).
const maxSignal = 64

// onControl is a PMIx_Job_control: processes get a signal.
func (r *Run) onControl(m *apiv1.Control) error {
	left, err := r.left(m.Targets)
	if err == nil && (m.Signal < 1 || m.Signal > maxSignal) {
		err = fmt.Errorf("processes are to get signal %d", m.Signal)
	}
	if err != nil {
		return err
	}
	if m.End {
		r.endWanted(int(m.Rank), left, "PMIx_Job_control", 0)
	}
	r.signalTo(left, int(m.Signal))
	return nil
}

// endWanted notes processes that a process wants ended, which is nobody's failure. All hosts are told
// before they end, so that those who wait for them there are answered, and not a failure either.
func (r *Run) endWanted(by int, ids idset.Set, how string, code int32) {
	if ids.Empty() || r.job == jobStopping {
		return
	}
	r.heir.withdraw("a rank has ended another")
	r.say("%s on %s has ended %s with %s", r.rankName(by), r.hosts[r.hostOf(by)].Name, r.named(ids), how)
	for id := range ids.All() {
		r.ranks[id].wanted = true
	}
	for _, h := range r.live() {
		r.send(h, (&apiv1.Gone{Ids: ids.String(), Code: code, Aborted: true, Wanted: true}).Frame())
	}
}

// signalTo sends a signal to processes that run. Those that are to end and do not run yet are killed
// once they do.
func (r *Run) signalTo(ids idset.Set, signal int) {
	to := map[int][]uint32{}
	for id := range ids.All() {
		if r.ranks[id].state == rankRunning {
			h := r.hostOf(id)
			to[h] = append(to[h], uint32(id))
		}
	}
	for h, ranks := range to {
		r.send(h, (&apiv1.Signal{Number: int32(signal), Ranks: ranks}).Frame())
	}
}

// signalState turns signals that the launcher gets into what is done to the ranks.
//
//	INT, TERM        first: forwarded, TERM as Config.Preempt says, and the grace runs; second of either: killed,
//	                 but not within a moment: timeout(1), shells and mpiup launcher send one to us and to our group
//	HUP USR1 USR2 WINCH CONT   forwarded
//	TSTP             ranks get STOP; a second one lets them go on
//
// The launcher itself never stops on TSTP: its lease on the hosts would run out.
type signalState struct {
	first   int           // INT or TERM that came first; 0: none
	firstAt time.Duration // when
	stopped bool          // ranks got STOP
	pid     int           // ours, for the sentence that says how to go on
	told    int           // what ranks get for TERM
}

// signalAction is what one signal leads to.
type signalAction struct {
	forward []int  // to every rank, in this order
	grace   bool   // start the grace, after which the ranks are stopped
	kill    bool   // stop them without grace
	say     string // to the user; "" is nothing
}

// How long after the first INT or TERM the same one is taken for its double. Nobody types TERM twice.
const (
	echo     = 150 * time.Millisecond
	echoTerm = 2 * time.Second
)

// on is what to do about a signal that came at now, by any clock.
func (s *signalState) on(sig int, now time.Duration) signalAction {
	switch sig {
	case job.SIGINT, job.SIGTERM:
		return s.end(sig, now)
	case job.SIGTSTP:
		return s.toggle()
	case job.SIGCONT:
		s.stopped = false
		return signalAction{forward: []int{sig}}
	case job.SIGHUP, job.SIGUSR1, job.SIGUSR2, job.SIGWINCH:
		return signalAction{forward: []int{sig}}
	}
	return signalAction{}
}

func (s *signalState) end(sig int, now time.Duration) signalAction {
	if since := now - s.firstAt; sig == s.first && (since < echo || sig == job.SIGTERM && since < echoTerm) {
		return signalAction{}
	}
	if s.first != 0 {
		return signalAction{kill: true, say: "killing the ranks"}
	}
	s.first, s.firstAt = sig, now
	a := signalAction{forward: []int{sig}, grace: true}
	if sig == job.SIGTERM {
		a.forward[0] = s.told
	}
	if s.stopped { // a stopped process acts on the signal only when it goes on
		a.forward = append(a.forward, job.SIGCONT)
		s.stopped = false
	}
	if sig == job.SIGINT {
		a.say = "interrupting the ranks; a second Ctrl-C kills them"
	}
	return a
}

func (s *signalState) toggle() signalAction {
	if s.stopped {
		s.stopped = false
		return signalAction{forward: []int{job.SIGCONT}, say: "the ranks go on"}
	}
	s.stopped = true
	return signalAction{
		forward: []int{job.SIGSTOP},
		say: fmt.Sprintf("the ranks are stopped; mpiup keeps their hosts. Go on with Ctrl-Z again or: kill -CONT %d",
			s.pid),
	}
}
