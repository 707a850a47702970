package run

import (
	"fmt"
	"slices"
	"strings"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/launcher/hang"
	"github.com/mpiup/mpiup/launcher/report"
	"github.com/mpiup/mpiup/launcher/run/model"
	"github.com/mpiup/mpiup/launcher/verdict"
)

// judge stops the job after the first verdict.Fault. Ranks that are given time to save what they have, after a Ctrl-C or
// before their pods go, keep it whatever becomes of others meanwhile.
func (r *Run) judge() {
	if r.job == jobStopping || !r.verdict.Any() || r.inquiry.last && r.inquiry.open != nil ||
		(r.job == jobLeaving || r.interrupted) && !r.verdict.Urgent() || r.cfg.Linger && r.verdict.OnlyRanks() {
		return
	}
	if r.looksForAway() {
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
	r.cutLook()
	r.endAway()
	if r.job == jobStopping && !now {
		return
	}
	r.move(jobFailed)
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
	if r.job >= jobLeaving || r.verdict.Any() || slices.ContainsFunc(r.ranks, over) {
		return
	}
	r.grows = e
	r.stop(model.Came(e.Hosts), false)
}

// abandon gives up hosts that did not do what they were told in time, or ended ranks and do not say why.
func (r *Run) abandon() {
	for i, h := range r.hosts {
		if (r.job == jobStopping || h.state.told() || h.state.dropped()) && !h.state.finished() {
			r.say("host %s did not end what it runs within %v; it is left to its lease", h.Name, r.cfg.Grace+stopBound)
			h.lost = &model.Lost{Unsure: true, Since: r.now.Clock}
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
			r.interrupted = true
			r.set(Grace, r.cfg.Grace)
		}
	}
	if sig == job.SIGHUP && r.job == jobStopping { // as in the pause that may follow, nothing is to start again
		r.fail(verdict.Fault{Event: verdict.Signalled, ID: -1, Node: -1, Code: sig})
	}
	r.verdict.Sent = r.verdict.Sent.Union(idset.Of(a.forward...))
	r.forwardSignals(a.forward)
	if a.kill {
		r.stop("the launcher was told to kill", true)
		r.give(Unblock{})
	}
}

// taken: our own pod is being taken away. A run whose ranks have all ended has nothing to lose, and ends as they did.
func (r *Run) taken(signals []int) {
	if !slices.ContainsFunc(r.hosts, func(h *host) bool { return h.created+h.running > 0 }) {
		return
	}
	f := verdict.Fault{Event: verdict.LauncherTaken, ID: -1, Node: -1, Host: r.cfg.Pod, Text: "its pod is being taken away, or somebody ends the job"}
	if r.cfg.Bare {
		f.Text = ""
	}
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
	if r.job == jobLaunching {
		r.stop(cause, false)
	}
	if !r.move(jobLeaves) {
		return
	}
	r.verdict.Passed = r.cfg.Preempt.Signal
	r.verdict.Toll.Leaves(len(slices.DeleteFunc(slices.Clone(r.ranks), func(p process) bool { return p.state.over() })), r.now.Clock, r.cfg.TermGrace)
	r.say("%s", how)
	r.forwardSignals(signals)
	r.set(Grace, r.cfg.TermGrace)
}

// resize has the ranks' terminals follow our own; those of jobs that are spawned later begin with that size.
func (r *Run) resize(rows, columns uint16) {
	if !r.cfg.Pty || rows == r.cfg.Rows && columns == r.cfg.Columns {
		return
	}
	r.cfg.Rows = rows
	r.cfg.Columns = columns
	for h, at := range r.hosts {
		if at.running > 0 || r.job == jobLaunching {
			r.send(h, (&apiv1.Resize{Rows: uint32(rows), Columns: uint32(columns)}).Frame())
		}
	}
}

// forwardSignals sends signals to all ranks; an agent that is being ended has sent its own that says so.
func (r *Run) forwardSignals(signals []int) {
	for _, s := range signals {
		once := r.job == jobLeaving && s == r.cfg.Preempt.Signal
		for h, at := range r.hosts {
			if (at.running > 0 || r.job == jobLaunching) && !(at.state.ending() && s == r.cfg.Preempt.Signal) {
				r.send(h, (&apiv1.Signal{Number: int32(s), Once: once}).Frame())
			}
		}
	}
}

// giveUp ends a run that does not go on, or whose time is up, when it is known who waits for whom.
func (r *Run) giveUp(f verdict.Fault) {
	r.fail(f)
	if r.job == jobStopping {
		return
	}
	if r.inquiry.asksAway() {
		r.judge()
		return
	}
	r.inquiry.last = true
	if r.inquiry.ask(whoWaits) {
		r.inquired()
	}
}

// inquired: the hosts have answered who waits for whom, or their time is up.
func (r *Run) inquired() {
	switch what := r.inquiry.what; {
	case r.inquiry.open == nil:
	case what == whereTheyAre:
		r.looked()
	case what == whoIsAway:
		r.endAway()
		r.judge()
	case what == whySlow:
		r.stalls.opine(r.now.Clock)
	case what == whetherStalled || what == whetherInInit:
		silent := r.inquiry.open
		if f, s, blame := r.stalls.conclude(r.now.Clock); f != nil {
			facts, names := r.stalls.facts(r.now.Clock, r.cfg.Stall.After), r.names()
			tell := func(seen []hang.Stack) (hang.Blame, []string) {
				facts.Stacks = seen
				b := r.stalls.blame(facts)
				return b, b.Lines(names)
			}
			r.inquiry.look = look{hung: f, stall: s, lines: blame.Lines(names), blame: blame, tell: tell}
			r.lookBefore(silent)
		}
	case r.inquiry.last:
		silent := r.inquiry.open
		all := r.inquiry.close()
		away, unmet, met := r.meet.missing(r.now.Wall)
		facts := r.stalls.facts(r.now.Clock, hang.Brief)
		facts.Unmet, facts.Met = unmet, met
		tell := func(seen []hang.Stack) (hang.Blame, []string) {
			facts.Stacks = seen
			b := r.stalls.blame(facts)
			return b, facts.Barriers.Tell(b, away, r.inquiry.words(), r.names())
		}
		blame, lines := tell(nil)
		if len(lines) == 0 && all {
			mpi := slices.ContainsFunc(r.jobs, func(j *jobRun) bool { return j.usesMPI })
			lines = r.inquiry.picture.All(r.inquiry.words(), mpi)
		}
		r.inquiry.look = look{blame: blame, lines: lines, tell: tell}
		r.lookBefore(silent)
	case what == whoSlows:
		r.inquiry.close()
		r.stalls.tellHeld(r.stalls.slow.Tardy(r.flights.records.All(), r.flights.owner))
	default:
		r.inquiry.close()
		r.inquiry.tell()
	}
}

// lookBefore looks where ranks are before the run is ended: by a fault, or since its time is up. Hosts that have just not answered are not asked.
func (r *Run) lookBefore(silent map[int]bool) {
	q := &r.inquiry
	q.look.begun = r.now.Clock
	running := r.running()
	for h := range silent {
		running = running.Sub(r.who.On(h))
	}
	ids, all := hang.LookAt(q.look.blame.IDs(), running, r.who.HostOf)
	q.look.all = all && len(silent) == 0
	if r.cfg.Exec != nil || r.cfg.Linger || q.askStacks(whereTheyAre, ids, lookBound) {
		r.looked()
	}
}

// looked: the hosts have said where ranks are, or their time is up.
func (r *Run) looked() {
	q := &r.inquiry
	l := &q.look
	answered := len(q.open) == 0
	if l.seen != nil && l.asked.Empty() { // the pause is over
		if q.askStacks(whereTheyAre, l.again, l.left(r.now.Clock)) {
			r.looked()
		}
		return
	}
	mixed := hang.Calls(nil)
	if answered && l.all && len(l.found) == l.asked.Len() && !l.blame.Sure {
		mixed = hang.Mixed(l.found)
	}
	if l.seen == nil || !l.mixed.Same(mixed) {
		l.mixed = nil
	}
	if l.seen == nil {
		l.mixed = mixed
	}
	doubt := ""
	switch {
	case !l.stall.Busy.Empty():
		if doubt = l.stall.DoubtBy(l.found, r.names()); doubt == "" && l.seen == nil {
			l.again = hang.Waiting(l.found).Intersect(l.stall.Busy)
		}
	case l.seen != nil:
		l.blame = l.outside.Blame(hang.ByStacks(l.found, r.places()))
	case answered && l.all && len(l.blame.Odd) == 0 && len(l.found) == l.asked.Len():
		if l.outside = hang.ByStacks(l.found, r.places()); !l.outside.IDs.Empty() {
			l.again = l.outside.Again(l.found)
		}
	}
	if l.seen == nil && l.mixed != nil {
		l.again = l.asked
	}
	switch {
	case doubt != "":
		was := *l
		q.close()
		q.look = look{}
		if r.stalls.still(r.now.Clock, was.hung, was.blame) {
			r.stalls.doubt(r.now.Clock, was.stall, was.blame, doubt)
		}
		return
	case l.seen == nil && !l.again.Empty() && l.left(r.now.Clock) > 2*lookPause:
		l.seen, l.asked = l.found, idset.Set{}
		q.open = map[int]bool{}
		q.set(Answers, lookPause)
		return
	case l.seen == nil && !answered:
		l.notes = append(l.notes, fmt.Sprintf("%s did not say within %v where ranks are", q.unanswered(), lookBound))
	}
	r.endHung()
}

// endHung ends the run after the look, unless it goes on.
func (r *Run) endHung() {
	q := &r.inquiry
	q.close()
	l := q.look
	q.look = look{}
	if l.hung != nil {
		if !r.stalls.still(r.now.Clock, l.hung, l.blame) {
			return
		}
		r.fail(*l.hung)
	}
	lines, twice := l.lines, l.seen != nil
	if !twice {
		l.seen = l.found
	}
	if news := q.picture.See(l.seen); news || len(l.blame.Odd) == 0 && len(l.blame.Doubts) > 0 {
		if b, told := l.tell(l.seen); len(b.Odd) > 0 {
			l.blame, lines = b, told
		} else if len(told) > 0 && l.hung == nil {
			lines = told
		}
	}
	if b := l.blame.Seen(l.seen); len(b.Odd) != len(l.blame.Odd) || twice && len(b.Odd) > 0 {
		l.blame, lines = b, b.Lines(r.names())
	}
	if l.all && hang.Alike(l.seen) {
		l.blame.Sure = false
	}
	if twice && l.mixed != nil {
		l.blame, lines = hang.Blame{}, []string{"ranks are in different collectives: " + l.mixed.Text(r.named)}
		r.verdict.Mixed()
	}
	groups, more := hang.Grouped(l.seen)
	for _, g := range groups {
		r.verdict.Stacks = append(r.verdict.Stacks, g.Told())
	}
	if more > 0 {
		l.notes = append(l.notes, fmt.Sprintf("and ranks are at %d more places", more))
	}
	r.verdict.Holdup = r.stalls.holdup(r.now.Clock, l.blame.Sure, lines, l.notes)
	r.accuse(l.blame)
	r.judge()
}

// cutLook ends the look, since something else ends the run, which does not wait for it.
func (r *Run) cutLook() {
	q := &r.inquiry
	if q.open == nil || q.what != whereTheyAre {
		return
	}
	q.close()
	l := q.look
	q.look = look{}
	if l.hung == nil {
		r.verdict.Holdup = r.stalls.holdup(r.now.Clock, l.blame.Sure, l.lines)
		r.accuse(l.blame)
	}
}

// accuse hands the verdict who is waited for.
func (r *Run) accuse(b hang.Blame) {
	ids := b.IDs()
	switch {
	case ids.Len() == 1:
		r.verdict.Waited(r.about(verdict.TimedOut, r.who.HostOf(ids.First()), ids.First()), "", b.Sure)
	case !ids.Empty() && ids.Last() < r.jobs[0].Size():
		r.verdict.Waited(verdict.Fault{ID: -1, Node: -1}, ids.String(), b.Sure)
	}
}

// heldUp is who was waited for when the run is ended from outside: hosts are not asked, since that takes time.
func (r *Run) heldUp() []string {
	lines, _, _ := r.meet.missing(r.now.Wall)
	facts := r.stalls.facts(r.now.Clock, hang.Brief)
	facts.Barriers = nil
	if blame := r.stalls.blame(facts); len(lines) == 0 && len(blame.Odd) > 0 {
		lines = blame.Lines(r.names())
	}
	return r.stalls.holdup(r.now.Clock, true, lines)
}

// onAborted is MPI_Abort, which ends the run, or a PMIx_Abort of certain processes: those are
// killed, on whatever hosts, and the others go on. The run fails then in the end, with the abort's code.
func (r *Run) onAborted(h int, m *apiv1.Aborted, at time.Duration) error {
	if m.Id != 0 {
		r.send(h, (&apiv1.AbortNoted{Id: m.Id}).Frame())
	}
	if r.excused(int(m.Rank)) {
		return nil
	}
	if m.Targets != "" {
		targets, err := r.wished(h, int(m.Rank), m.Targets, "PMIx_Abort")
		if err == nil {
			r.endWanted(int(m.Rank), targets, wish{how: "PMIx_Abort", text: m.Text, code: m.Code, exit: int(m.Code)})
			r.signalTo(targets, job.SIGKILL)
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
func (r *Run) onControl(h int, m *apiv1.Control) error {
	if m.Signal < 1 || m.Signal > maxSignal {
		return fmt.Errorf("processes are to get signal %d", m.Signal)
	}
	targets, err := r.wished(h, int(m.Rank), m.Targets, "PMIx_Job_control")
	if err != nil {
		return err
	}
	switch signal := int(m.Signal); {
	case m.End, signal == job.SIGKILL: // which ends them whatever its sender calls it
		r.endWanted(int(m.Rank), targets, wish{how: "PMIx_Job_control", exit: 128 + signal})
	case !targets.Empty():
		r.once(fmt.Sprintf("control %d %d", m.Rank, signal), fmt.Sprintf("%s on %s has sent %s to %s with PMIx_Job_control",
			r.rankName(int(m.Rank)), r.hosts[h].Name, job.SignalName(signal), r.named(targets)))
	}
	r.signalTo(targets, int(m.Signal))
	return nil
}

// wished are the processes that a wish of a process to end or to signal others is about, as far as it counts: they are of its own job, they run or
// are to, and speak PMIx as it does, by what the hosts of either have chosen. The wish of another process is made up by its agent.
func (r *Run) wished(h, by int, targets, how string) (ids idset.Set, err error) {
	left, err := r.left(targets)
	if err != nil {
		return ids, err
	}
	protocol, told := r.speaks(by)
	inherited := !told && r.cfg.Adopted && r.gone.pmix // its host has told the launcher before this one
	if protocol != job.PMIx && !inherited {
		return ids, fmt.Errorf("%s is to end or signal others with %s, and does not speak PMIx", r.rankName(by), how)
	}

	if r.ranks[by].state != rankRunning {
		r.debug("a wish of a rank that does not run", "rank", r.rankName(by), "how", how)
		return ids, nil
	}

	first, end := r.jobOf(by).IDs()
	for id := range left.All() {
		protocol, told := r.speaks(id)
		if id >= first && id < end && (!told || protocol == job.PMIx) {
			ids.Add(id)
		}
	}
	if ids.Len() < left.Len() {
		r.once("wish of others", fmt.Sprintf("%s on %s may not end or signal %s with %s: these are of another job, or speak no PMIx",
			r.rankName(by), r.hosts[h].Name, r.named(left.Sub(ids)), how))
	}
	return ids, nil
}

// A wish is how a process wants others ended.
type wish struct {
	how, text string
	code      int32 // that their peers are told
	exit      int   // that the run ends with
}

// endWanted notes processes that a process wants ended, which is not their failure. All hosts are told
// before they end, so that those who wait for them there are answered, and not a failure either. The run goes on, and fails at its end.
func (r *Run) endWanted(by int, ids idset.Set, w wish) {
	if ids.Empty() || r.job == jobStopping {
		return
	}
	r.succession.withdraw("a rank has ended another")
	r.say("%s on %s has ended %s with %s%s", r.rankName(by), r.hosts[r.who.HostOf(by)].Name, r.named(ids), w.how, visible.Colon(w.text))
	for id := range ids.All() {
		r.ranks[id].wanted = true
	}
	if r.culled == nil {
		f := r.about(verdict.Aborted, r.who.HostOf(by), by)
		f.At, f.Code, f.Text = r.now.Clock, w.exit, strings.Clone(w.text[:min(len(w.text), maxFault)])
		f.Whom = r.named(ids) + " with " + w.how
		r.culled = &f
	}
	for _, h := range r.live() {
		r.send(h, (&apiv1.Gone{Ids: ids.String(), Code: w.code, Aborted: true, Wanted: true}).Frame())
	}
}

// judgeCulled fails a run that ended otherwise well although a rank has ended another: what was asked for is not what happened.
func (r *Run) judgeCulled() {
	if _, failed := r.verdict.Cause(); r.culled != nil && !failed {
		r.fail(*r.culled)
	}
}

// signalTo sends a signal to processes that run. Those that are to end and do not run yet are killed
// once they do.
func (r *Run) signalTo(ids idset.Set, signal int) {
	to := map[int][]uint32{}
	for id := range ids.All() {
		if r.ranks[id].state == rankRunning {
			h := r.who.HostOf(id)
			to[h] = append(to[h], uint32(id))
		}
	}
	for h, ranks := range to {
		r.send(h, (&apiv1.Signal{Number: int32(signal), Ranks: ranks}).Frame())
	}
}
