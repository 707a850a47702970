package run

import (
	"fmt"
	"slices"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/launcher/hang"
	"github.com/mpiup/mpiup/launcher/placement"
	"github.com/mpiup/mpiup/launcher/report"
	"github.com/mpiup/mpiup/launcher/verdict"
)

func (r *Run) rank(rank uint32, e rankEvent) error {
	s := &r.ranks[rank]
	next, ok := s.state.next(e)
	if !ok {
		return fmt.Errorf("%s: a frame out of turn in state %v", r.rankName(int(rank)), s.state)
	}
	s.state = next
	r.feedInput(int(rank))
	return nil
}

// feedInput lets standard input flow once every rank that gets it runs: an agent has no place
// for it before. A rank that is over gets none.
func (r *Run) feedInput(rank int) {
	if r.ranks[rank].state.over() {
		r.give(NoInput{rank})
	}
	if r.hungry[rank] {
		if delete(r.hungry, rank); len(r.hungry) == 0 {
			r.give(Feed{})
		}
	}
}

func (r *Run) onStarted(h int, m *apiv1.Started) error {
	if err := r.rank(m.Rank, rankStarted); err != nil {
		return err
	}
	r.give(Started{int(m.Rank), int(m.Pid)})
	r.verdict.Ran.Add(int(m.Rank))
	r.ranks[m.Rank].pid = m.Pid
	r.ranks[m.Rank].output = true
	r.hosts[h].created--
	r.hosts[h].running++
	r.hosts[h].outputs++
	j := r.jobOf(int(m.Rank))
	r.reportBinding(j, int(m.Rank), m.Pid)
	if j.dropped || r.ranks[m.Rank].wanted {
		r.end(int(m.Rank))
	}
	r.heard(j)
	return nil
}

// heard counts a process that has started.
func (r *Run) heard(j *jobRun) {
	if j.silent--; j.silent > 0 || j.dropped {
		return
	}
	if j.asked != nil {
		r.answer(j.asked, j.Number, "")
		return
	}
	r.move(jobStarted)
	if len(j.Hosts) == 1 || r.cfg.PMI == job.NoProtocol || (j.chosen || r.cfg.Adopted) && !j.usesMPI || r.succession.wired {
		r.move(jobWired)
	}
	r.succession.offer(r.now.Wall)
}

func (r *Run) onStartFailed(h int, m *apiv1.StartFailed) error {
	if err := r.rank(m.Rank, rankDidNotStart); err != nil {
		return err
	}
	r.hosts[h].created--
	f := r.about(verdict.NotStarted, h, int(m.Rank))
	f.Text = m.Text
	r.verdict.NoteStart(f.ID, startOf(m.Search, m.Venv))
	f.Dir = m.Phase == apiv1.StartPhase_START_DIR
	f.Init = m.Phase == apiv1.StartPhase_START_INIT || f.Dir
	name, text := r.cfg.Errno(m.Errno)
	f.Errno = name
	if m.Phase == apiv1.StartPhase_START_TIMEOUT && name == "" {
		f.Errno = "ETIMEDOUT"
	}
	if f.Text == "" {
		f.Text = fmt.Sprintf("%s: %s", m.Path, text)
	}
	if r.job == jobStopping { // it was told not to start any more
		r.verdict.AlsoFailed(f)
		return nil
	}
	r.give(NotStarted{f.ID, f.Text})
	r.exchange.Over(int(m.Rank), f.Sentence())
	if j := r.jobOf(int(m.Rank)); j.asked != nil {
		r.drop(j, f.Sentence())
		r.settled(j, 1)
		r.never(j, h, f.Sentence())
		return nil
	}
	r.fail(f)
	return nil
}

func (r *Run) onExited(h int, m *apiv1.Exited, at time.Duration) error {
	was := r.ranks[m.Rank].state
	if err := r.rank(m.Rank, rankDidExit); err != nil {
		return err
	}
	if was == rankRunning {
		r.hosts[h].running--
	} else {
		r.hosts[h].created--
		r.heard(r.jobOf(int(m.Rank)))
	}
	r.give(Exited{int(m.Rank), job.Exit{Code: int(m.Code), Signal: int(m.Signal)}})
	r.alone.note(m)
	r.meet.noteEnded(m)
	f := r.about(verdict.Ended, h, int(m.Rank))
	f.At, f.Text, f.TimeNS, f.OOM = at, m.Text, m.TimeNs, m.Oom
	r.verdict.NoteStart(f.ID, startOf(m.Path, m.Venv))
	memory := r.memoryOf(h, m.Memory)
	r.verdict.NoteMemory(f.ID, memory)
	bound := m.MemoryLimit
	if bound == 0 && memory.Kills > 0 {
		bound = memory.Limit
	}
	r.verdict.Toll.Ended(f, m.MemoryPeak, bound)
	f.Exit = job.Exit{Code: int(m.Code), Signal: int(m.Signal), Core: m.Core}
	f.Unfinalized = m.Pmi == apiv1.PmiState_PMI_RUNNING
	errno, _ := r.cfg.Errno(m.LackErrno)
	r.verdict.Devices(f.ID, devicesOf(m.Devices))
	r.verdict.Lacks(f.ID, verdict.Lack{What: known(m.Lack, job.LackTemp), Errno: errno, Text: m.Lacking})
	if m.Text != "" && f.Exit.Signal == job.SIGKILL {
		f.Broke = max(known(m.Breach, job.BreachVersion), job.BreachPMI) // agents of older builds do not say which
	}
	bad := f.Exit.Status() != 0 || f.Unfinalized
	if r.cfg.KeepOn && f.Exit.Code != 0 && f.Exit.Signal == 0 {
		bad = false
	}
	switch {
	case r.excused(f.ID):
	case m.StoppedByUs:
		r.verdict.Ours(f)
		r.unasked(h, f.ID)
	case bad:
		r.gone.note(&apiv1.Gone{Ids: idset.Of(f.ID).String(), Code: m.Code, Signal: m.Signal})
		if !r.cfg.Recover {
			r.fail(f)
		}
	case f.Exit.Status() == 0:
		r.verdict.Well(f)
	}
	if f.Exit.Status() == 0 && m.Pmi == apiv1.PmiState_PMI_NEVER && !m.StoppedByUs {
		r.ranks[m.Rank].mute = max(r.now.Clock, 1)
	}
	r.exchange.Over(int(m.Rank), f.Sentence())
	j := r.jobOf(f.ID)
	j.spoke = j.spoke || m.Pmi != apiv1.PmiState_PMI_NEVER
	r.settled(j, 1)
	r.spawns.Ended()
	r.serveSpawns()
	return nil
}

func (r *Run) onWireupFailed(h int, m *apiv1.WireupFailed, at time.Duration) error {
	if r.excused(int(m.Rank)) || r.cfg.Recover && r.ranks[m.Rank].state.over() { // an end without MPI_Finalize
		return nil
	}
	gone, err := idset.Within(m.Gone, len(r.ranks))
	if err != nil {
		return err
	}
	f := r.about(verdict.NotWired, h, int(m.Rank))
	f.At, f.Text, f.Stranded = at, m.Text, known(m.Cause, job.StrandedByLeaving)
	var first int
	var ranks idset.Set
	if f.Stranded == job.Stranded { // by a rank that is gone, and no limit's or a descriptor's doing
		first, ranks = r.mutes(r.jobOf(f.ID), gone)
	}
	if !ranks.Empty() {
		own := r.about(verdict.Ended, r.who.HostOf(first), first)
		own.At, own.Uncalled = at, true
		if ranks.Len() > 1 {
			own.Ranks = ranks.String()
		}
		r.fail(own)
	}
	r.fail(f)
	return nil
}

// mutes are the ranks of a job that ended with 0 and had never spoken to its agent, and the first of them, which are told of no more. Where
// others wait for them, they are the guilty ones. gone are those of whom its agent says that the wait is for them; none: it does not say, and
// the first alone is meant.
func (r *Run) mutes(j *jobRun, gone idset.Set) (first int, ranks idset.Set) {
	from, end := j.IDs()
	earliest := time.Duration(0)
	for id := from; id < end; id++ {
		at := r.ranks[id].mute
		if at == 0 || !gone.Empty() && !gone.Contains(id) {
			continue
		}
		if ranks.Empty() || at < earliest {
			first, earliest = id, at
		}
		ranks.Add(id - from)
		r.ranks[id].mute = 0
	}
	if gone.Empty() && !ranks.Empty() {
		ranks = idset.Of(first - from)
	}
	return first, ranks
}

// known is a number of a frame as this launcher knows it; another one says nothing.
func known[T ~uint8, F ~int32](number F, last T) T {
	if number < 0 || number > F(last) {
		return 0
	}
	return T(number)
}

func (r *Run) onOutputEnd(h int, m *apiv1.OutputEnd) {
	r.give(Silent{int(m.Rank), hang.CrashOf(m)})
	s := &r.ranks[m.Rank]
	if s.output {
		r.verdict.Devices(int(m.Rank), devicesOf(m.Devices))
		s.output = false
		r.hosts[h].outputs--
	}
	if m.Cut && !r.cfg.Exec.GetKeep() {
		r.once("output that is still open", fmt.Sprintf("%s on %s: its output is still open after its end, most likely in a process that it left behind: "+
			"the output ends here, and the process with the job; of other ranks that is not said again", r.rankName(int(m.Rank)), r.hosts[h].Name))
	}
}

// devicesOf is what its agent saw of a process's devices.
func devicesOf(told []*apiv1.DeviceError) (list []job.DeviceTrouble) {
	for _, d := range told[:min(len(told), 8)] {
		list = append(list, job.DeviceTrouble{What: known(d.GetWhat(), job.GPUSlow), Name: visible.Line(d.GetDevice()[:min(len(d.GetDevice()), 32)]),
			Number: int(d.GetNumber()), Ago: int(d.GetSeconds())})
	}
	return list
}

// starHosts is the number of hosts above which the user is told that the exchange is a star.
const starHosts = 32

// sayStar tells, at the first fence, that the star is used.
func (r *Run) sayStar() {
	if r.active > starHosts && !r.starred { // hosts that were let go and reached anew count once
		r.starred = true
		r.say("%d hosts: the ranks' exchange goes through the launcher (a star), which serves a few dozen hosts well", r.active)
	}
}

// reportBinding says where a rank that has just started is bound, in Open MPI's words.
func (r *Run) reportBinding(j *jobRun, id int, pid int32) {
	if !r.cfg.ReportBindings {
		return
	}
	pl := r.who.Placed(id)
	host := j.Plan.Hosts[pl.Host]
	what := "is not bound (or bound to all available processors)"
	if host.Layout != nil && !pl.CPUs.Empty() {
		what = "bound to " + r.cfg.Policy.Bound(host.Layout, pl.CPUs, ": ")
	}
	who := fmt.Sprintf("MCW rank %d", pl.Rank)
	if r.cfg.Policy.Rules == placement.OpenMPI5 {
		who = fmt.Sprintf("Rank %d", pl.Rank)
	}
	if j.Number > 0 {
		who = r.rankName(id)
	}
	r.give(Print{fmt.Sprintf("[%s:%05d] %s %s", visible.Line(host.Name), pid, who, what)})
}

// rendezvous passes what Horovod's ranks on one host put on to the job's other hosts, which bound it. A host speaks for its own ranks.
func (r *Run) rendezvous(from int, m *apiv1.Rendezvous) error {
	if int(m.Job) >= len(r.jobs) || int(m.Rank) >= r.jobs[m.Job].Size() || r.who.HostOf(r.who.ID(job.Process{Job: int(m.Job), Rank: int(m.Rank)})) != from {
		return fmt.Errorf("a rendezvous of rank %d of job %d, which is not there", m.Rank, m.Job)
	}
	for _, h := range r.live() {
		if h != from && slices.Contains(r.jobs[m.Job].Hosts, h) {
			r.send(h, m.Frame())
		}
	}
	return nil
}

// lost is a host that was given up or is being taken away. With Recover the run goes on, as long as
// there are ranks on another host and no newer launcher has taken over: who asked is told (gone).
func (r *Run) lost(f verdict.Fault) {
	other := func(s *host) bool {
		return s != r.hosts[f.Node] && s.state == hostRunning && s.created+s.running > 0
	}
	if !r.cfg.Recover || f.By == verdict.ByLauncher || r.job == jobStopping || !slices.ContainsFunc(r.hosts, other) {
		r.fail(f)
		if f.Event == verdict.HostTaken && f.By != verdict.ByLauncher && r.cfg.Exec == nil && !r.cfg.Recover {
			r.leave(f.Sentence(), fmt.Sprintf("%s; all ranks get %s and have %v to end", f.Sentence(), job.SignalName(r.cfg.Preempt.Signal),
				r.cfg.TermGrace), r.cfg.Preempt.Signal)
		}
		return
	}
	if s := r.hosts[f.Node]; !s.missed {
		s.missed = true
		r.say("%s; the other ranks go on (--enable-recovery)", f.Sentence())
	}
	if !slices.ContainsFunc(r.hosts, func(s *host) bool { return s.state.dropped() && !s.missed }) {
		r.give(Unset{Bound})
	}
}

// unasked: the agent ended a rank that we had not told it to end, since it took us for dead or
// fenced us. Why comes with its Closed or the next answer; till then the host is not done with,
// lest a job that was cut short pass for one that ended well.
func (r *Run) unasked(h, id int) {
	r.hosts[h].taken.Add(id)
	if r.job != jobStopping && r.hosts[h].move(hostUnasked) {
		r.set(Bound, r.cfg.Grace+stopBound)
	}
}

func (r *Run) onEnding(h int, m *apiv1.Ending, at time.Duration) {
	s := r.hosts[h]
	s.move(hostEnding)
	if s.created+s.running > 0 || s.state.dropped() { // one whose ranks have ended loses nothing
		by := map[bool]verdict.Taker{true: verdict.ByShutdown}[m.Shutdown]
		r.lost(verdict.Fault{Event: verdict.HostTaken, By: by, At: at, Host: r.hosts[h].Name, Node: h, ID: -1, Text: m.Why, Ranks: r.ranksOn(h)})
	}
}

func (r *Run) onClosed(h int, m *apiv1.Closed, at time.Duration) {
	if m.Refusal == apiv1.Refusal_REFUSAL_FENCED {
		r.lost(verdict.Fault{Event: verdict.HostTaken, By: verdict.ByLauncher, At: at, Host: r.hosts[h].Name, Node: h, ID: -1, Text: m.Text, Ranks: r.ranksOn(h)})
	} else if s := r.hosts[h].state; !s.told() && !s.ending() && r.busy(h) {
		r.lost(verdict.Fault{Event: verdict.HostLost, At: at, Host: r.hosts[h].Name, Node: h, ID: -1,
			Text: "its agent ended the session" + visible.Colon(m.Text), Ranks: r.ranksOn(h)})
	}
	r.finish(h)
}

// hostEnded: the host's connection is over, because all is done there or with err.
func (r *Run) hostEnded(e Ended) {
	h, was := e.Host, r.hosts[e.Host].state
	r.active--
	delete(r.files.open, h)
	r.succession.heard(h)
	r.finish(h) // nothing is sent there any more
	r.give(NoCopies{h})
	lost := e.Lost
	if lost != nil {
		r.hosts[h].lost = lost
	}
	if lost != nil && r.busy(h) {
		f := verdict.Fault{Event: verdict.HostLost, At: lost.Since, Host: r.hosts[h].Name, Node: h, ID: -1, Text: lost.Why, Ranks: r.ranksOn(h), Mute: lost.Mute}
		if lost.Succeeded { // its ranks go on, as another launcher's
			r.give(Note{report.Lost, f.Host, f.Text})
		} else {
			r.give(HostLost{f.Host, f.Text, max(r.now.Clock-lost.Since, 0)})
		}
		if lost.Fenced || was.ending() {
			f.Event, f.By = verdict.HostTaken, map[bool]verdict.Taker{true: verdict.ByLauncher}[lost.Fenced]
			r.succeeded = r.succeeded || lost.Succeeded
		}
		if lost.Told {
			r.fail(verdict.Fault{Event: verdict.Orphaned, At: lost.Since, Node: -1, ID: -1, Text: "why it told ranks to end"})
		} else {
			r.lost(r.withMemory(f))
		}
	}
	left, astray := r.hosts[h].taken, false
	for i := range r.ranks {
		s := &r.ranks[i]
		if r.who.HostOf(i) != h {
			continue
		}
		if s.output {
			r.give(EndOutput{i})
			s.output = false
		}
		if next, ok := s.state.next(rankHostLost); ok {
			s.state = next
			astray = true
			left.Add(i)
			r.feedInput(i)
			r.exchange.Over(i, fmt.Sprintf("%s on %s is gone with its host", r.rankName(i), r.hosts[h].Name))
			r.settled(r.jobOf(i), 1)
		}
	}
	if astray && lost == nil && !r.succeeded { // else they go on, as another launcher's
		why := "its agent ended the session"
		if r.hosts[h].lost != nil {
			why = "it did not end what it runs in time"
		}
		r.give(HostLost{Host: r.hosts[h].Name, Why: why})
	}
	if was.dropped() && !r.verdict.Any() {
		r.lost(verdict.Fault{Event: verdict.HostLost, At: r.now.Clock, Host: r.hosts[h].Name, Node: h, ID: -1,
			Text: "its agent ended the ranks and does not say why", Ranks: r.ranksOn(h)})
	}
	r.hosts[h].created, r.hosts[h].running, r.hosts[h].outputs = 0, 0, 0
	r.exchange.HostGone(h)
	r.notAwaited(h)
	if !left.Empty() {
		r.gone.note(&apiv1.Gone{Ids: left.String(), Host: true})
	}
}

// idle says goodbye to a host of which nothing more is to come. A host that was told to stop
// starts no more ranks and does not speak of those it did not start.
func (r *Run) idle(h int) {
	if r.files.open[h] > 0 { // until it has answered, or its time is up
		return
	}
	if r.growing != nil { // it may get processes; grown comes back to it
		return
	}
	waiting := r.hosts[h].running + r.hosts[h].outputs
	if r.job != jobStopping {
		waiting += r.hosts[h].created
	}
	if waiting > 0 || r.hosts[h].state.dropped() && r.job != jobStopping || !r.hosts[h].move(hostToldBye) {
		return
	}
	r.exchange.HostDone(h)
	r.send(h, (&apiv1.Bye{}).Frame())
	if !slices.ContainsFunc(r.hosts, func(s *host) bool { return !s.state.told() }) {
		r.set(Bound, r.cfg.Grace+stopBound) // what the ranks left behind is ended too
	}
}
