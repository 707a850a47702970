package run

import (
	"fmt"
	"slices"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/launcher/placement"
	"github.com/mpiup/mpiup/launcher/remains/report"
	"github.com/mpiup/mpiup/launcher/verdict"
)

// rankOf is the rank that a frame speaks of, if it speaks of one.
func rankOf(f *apiv1.Frame) (uint32, bool) {
	switch b := f.Body.(type) {
	case *apiv1.Frame_Output:
		return b.Output.Rank, true
	case *apiv1.Frame_Started:
		return b.Started.Rank, true
	case *apiv1.Frame_StartFailed:
		return b.StartFailed.Rank, true
	case *apiv1.Frame_OutputEnd:
		return b.OutputEnd.Rank, true
	case *apiv1.Frame_Exited:
		return b.Exited.Rank, true
	case *apiv1.Frame_Aborted:
		return b.Aborted.Rank, true
	case *apiv1.Frame_Control:
		return b.Control.Rank, true
	case *apiv1.Frame_WireupFailed:
		return b.WireupFailed.Rank, true
	case *apiv1.Frame_Credit:
		return b.Credit.Rank, true
	}
	return 0, false
}

// onFrame does what a host's frame asks for.
func (r *Run) onFrame(e Frame) {
	if rank, ok := rankOf(e.Frame); ok && !r.owns(e.Host, rank) {
		r.nonsense(e.Host, fmt.Errorf("a frame about rank %d, which is not there", rank))
		return
	}
	if err := r.frame(e); err != nil {
		r.nonsense(e.Host, err)
	}
	r.idle(e.Host)
}

func (r *Run) frame(e Frame) error {
	h := e.Host
	switch b := e.Frame.Body.(type) {
	case *apiv1.Frame_Started:
		return r.onStarted(h, b.Started)
	case *apiv1.Frame_StartFailed:
		return r.onStartFailed(h, b.StartFailed)
	case *apiv1.Frame_Exited:
		return r.onExited(h, b.Exited, e.At)
	case *apiv1.Frame_OutputEnd:
		r.onOutputEnd(h, b.OutputEnd)
	case *apiv1.Frame_Aborted:
		return r.onAborted(h, b.Aborted, e.At)
	case *apiv1.Frame_Control:
		return r.onControl(b.Control)
	case *apiv1.Frame_Waits:
		done, err := r.inquiry.hear(h, b.Waits)
		if done {
			r.inquired()
		}
		return err
	case *apiv1.Frame_Activity:
		return r.hang.hear(r.now.Clock, h, b.Activity)
	case *apiv1.Frame_Met:
		return r.meet.hear(r.now.Wall, h, b.Met)
	case *apiv1.Frame_WireupFailed:
		r.onWireupFailed(h, b.WireupFailed, e.At)
	case *apiv1.Frame_Chosen:
		return r.onChosen(h, b.Chosen)
	case *apiv1.Frame_Notice:
		r.notice(h, b.Notice)
	case *apiv1.Frame_Ending:
		r.give(Note{report.Stopping, r.hosts[h].Name, b.Ending.Why})
		r.onEnding(h, b.Ending.Why, e.At)
	case *apiv1.Frame_Closed:
		r.onClosed(h, b.Closed, e.At)
	case *apiv1.Frame_FenceEnter:
		r.sayStar()
		out, wired, wrong := r.exchange.Enter(h, b.FenceEnter)
		r.sendOut(out)
		if wired {
			r.move(jobWired)
		}
		return wrong
	case *apiv1.Frame_NameRequest:
		r.sendOut(r.exchange.Name(h, b.NameRequest))
	case *apiv1.Frame_FetchRequest:
		r.sendOut(r.exchange.Fetch(h, b.FetchRequest))
	case *apiv1.Frame_FetchResult:
		r.sendOut(r.exchange.Answered(h, b.FetchResult))
	case *apiv1.Frame_SpawnRequest:
		return r.onSpawn(h, b.SpawnRequest)
	case *apiv1.Frame_Event:
		r.gone.forward(h, b.Event)
	case *apiv1.Frame_Rendezvous:
		r.rendezvous(h, b.Rendezvous)
	case *apiv1.Frame_Credit: // of input, from a host whose rank gets none
	default:
		return fmt.Errorf("a frame %T, which is not for a launcher", b)
	}
	return nil
}

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
	r.give(Started{r.process(int(m.Rank)), int(m.Pid)})
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
		r.answer(j.asked, j.number, "")
		return
	}
	r.move(jobStarted)
	if len(j.hosts) == 1 || r.cfg.PMI == apiv1.Pmi_PMI_NONE {
		r.move(jobWired)
	}
}

func (r *Run) onStartFailed(h int, m *apiv1.StartFailed) error {
	if err := r.rank(m.Rank, rankDidNotStart); err != nil {
		return err
	}
	r.hosts[h].created--
	if r.job == jobStopping { // it was told not to start any more
		return nil
	}
	f := r.about(verdict.NotStarted, h, int(m.Rank))
	f.Text = m.Text
	f.Init = m.Phase == apiv1.StartPhase_START_INIT || m.Phase == apiv1.StartPhase_START_DIR
	name, text := r.cfg.Errno(m.Errno)
	f.Errno = name
	if f.Text == "" {
		f.Text = fmt.Sprintf("%s: %s", m.Path, text)
	}
	r.give(NotStarted{f.Process, f.Text})
	r.sendOut(r.exchange.Over(int(m.Rank), f.Sentence()))
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
	r.give(Exited{r.process(int(m.Rank)), job.Exit{Code: int(m.Code), Signal: int(m.Signal)}})
	r.alone.note(m)
	r.meet.noteEnded(m)
	f := r.about(verdict.Ended, h, int(m.Rank))
	f.At, f.Text, f.TimeNS, f.OOM = at, m.Text, m.TimeNs, m.Oom
	f.Exit = job.Exit{Code: int(m.Code), Signal: int(m.Signal), Core: m.Core}
	f.Unfinalized = m.Pmi == apiv1.PmiState_PMI_RUNNING
	r.verdict.Lacks(f.ID, m.Lacking)
	f.Broke = m.Text != "" && f.Exit.Signal == job.SIGKILL
	bad := f.Exit.Status() != 0 || f.Unfinalized
	if r.cfg.KeepOn && f.Exit.Code != 0 && f.Exit.Signal == 0 {
		bad = false
	}
	switch {
	case r.excused(f.ID):
	case m.StoppedByUs:
		r.verdict.Stopped = true
		r.unasked(h, f.ID)
	case bad:
		r.gone.ended(f)
		if !r.cfg.Recover {
			r.fail(f)
		}
	}
	r.sendOut(r.exchange.Over(int(m.Rank), f.Sentence()))
	j := r.jobOf(f.ID)
	j.spoke = j.spoke || m.Pmi != apiv1.PmiState_PMI_NEVER
	r.settled(j, 1)
	r.spawns.Ended()
	r.serveSpawns()
	return nil
}

func (r *Run) onWireupFailed(h int, m *apiv1.WireupFailed, at time.Duration) {
	if r.excused(int(m.Rank)) || r.cfg.Recover && r.ranks[m.Rank].state.over() { // an end without MPI_Finalize
		return
	}
	f := r.about(verdict.NotWired, h, int(m.Rank))
	f.At, f.Text = at, m.Text
	r.fail(f)
}

func (r *Run) onOutputEnd(h int, m *apiv1.OutputEnd) {
	r.give(Silent{int(m.Rank), r.process(int(m.Rank))})
	s := &r.ranks[m.Rank]
	if s.output {
		s.output = false
		r.hosts[h].outputs--
	}
	if m.Cut && !r.cfg.Exec.GetKeep() {
		r.say("%s on %s: a process it left behind still holds its output, which ends here", r.rankName(int(m.Rank)), r.hosts[h].Name)
	}
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

// notice shows what an agent says, once, however many hosts say it, as the first one's. What is no
// warning is for -v.
func (r *Run) notice(h int, m *apiv1.Notice) {
	if m.Warning || r.cfg.Verbose {
		r.once(m.Text, "host "+r.hosts[h].Name+": "+m.Text)
	}
}

// reportBinding says where a rank that has just started is bound, in Open MPI's words.
func (r *Run) reportBinding(j *jobRun, id int, pid int32) {
	if !r.cfg.ReportBindings {
		return
	}
	pl := j.plan.Placements[id-j.base]
	host := j.plan.Hosts[pl.Host]
	what := "is not bound (or bound to all available processors)"
	if host.Layout != nil && !pl.CPUs.Empty() {
		what = "bound to " + r.cfg.Policy.Bound(host.Layout, pl.CPUs, ": ")
	}
	who := fmt.Sprintf("MCW rank %d", pl.Rank)
	if r.cfg.Policy.Rules == placement.OpenMPI5 {
		who = fmt.Sprintf("Rank %d", pl.Rank)
	}
	if j.number > 0 {
		who = r.rankName(id)
	}
	r.give(Print{fmt.Sprintf("[%s:%05d] %s %s", visible.Line(host.Name), pid, who, what)})
}

// rendezvous passes what Horovod's ranks on one host put on to the job's other hosts, which check it.
func (r *Run) rendezvous(from int, m *apiv1.Rendezvous) {
	if int(m.Job) >= len(r.jobs) {
		return
	}
	for _, h := range r.live() {
		if h != from && slices.Contains(r.jobs[m.Job].hosts, h) {
			r.send(h, m.Frame())
		}
	}
}
