package launcher

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/launcher/remains/report"
	"github.com/mpiup/mpiup/launcher/verdict"
)

// deliver takes a frame from host h's connection, on its reading goroutine. Output goes on
// from here; all else to the loop. It returns no error: a connection cannot be resumed out of
// a frame that makes no sense, the loop ends the job over it.
func (r *run) deliver(h int, f *apiv1.Frame) error {
	switch b := f.Body.(type) {
	case *apiv1.Frame_Output:
		o := b.Output
		if r.places.owns(h, o.Rank) && (o.Stream == apiv1.Stream_STDOUT || o.Stream == apiv1.Stream_STDERR) {
			r.sink.Write(int(o.Rank), job.Stream(o.Stream), o.Data, o.Partial, time.Unix(0, o.TimeNs))
			return nil
		}
	case *apiv1.Frame_OutputEnd:
		if r.places.owns(h, b.OutputEnd.Rank) {
			r.sink.End(int(b.OutputEnd.Rank))
		}
	case *apiv1.Frame_Credit:
		if r.places.owns(h, b.Credit.Rank) && r.input != nil {
			r.input.Grant(int(b.Credit.Rank), int(b.Credit.Bytes))
			return nil
		}
	case *apiv1.Frame_CopyCredit:
		if b.CopyCredit.Job == 0 {
			r.copier.Grant(h, int(min(b.CopyCredit.Bytes, apiv1.CopyWindow)))
			return nil
		}
	}
	r.mail.put(event{host: h, frame: f, at: r.clock.Now()})
	return nil
}

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

// handle does what one event asks for.
func (r *run) handle(e event) {
	switch {
	case e.do != nil:
		e.do()
	case e.frame != nil:
		if rank, ok := rankOf(e.frame); ok && !r.places.owns(e.host, rank) {
			r.nonsense(e.host, fmt.Errorf("a frame about rank %d, which is not there", rank))
			return
		}
		r.frame(e)
	case e.end:
		r.hostEnded(e.host, e.err)
	case e.err != nil:
		r.outputBroken(e.err)
	}
}

func (r *run) frame(e event) {
	h := e.host
	var err error
	switch b := e.frame.Body.(type) {
	case *apiv1.Frame_Started:
		err = r.onStarted(h, b.Started)
	case *apiv1.Frame_StartFailed:
		err = r.onStartFailed(h, b.StartFailed)
	case *apiv1.Frame_Exited:
		err = r.onExited(h, b.Exited, e.at)
	case *apiv1.Frame_OutputEnd:
		r.onOutputEnd(h, b.OutputEnd)
	case *apiv1.Frame_Aborted:
		err = r.onAborted(h, b.Aborted, e.at)
	case *apiv1.Frame_Control:
		err = r.onControl(b.Control)
	case *apiv1.Frame_Waits:
		err = r.onWaits(h, b.Waits)
	case *apiv1.Frame_Met:
		err = r.onMet(h, b.Met)
	case *apiv1.Frame_WireupFailed:
		r.onWireupFailed(h, b.WireupFailed, e.at)
	case *apiv1.Frame_Chosen:
		err = r.onChosen(h, b.Chosen)
	case *apiv1.Frame_Notice:
		r.notice(h, b.Notice)
	case *apiv1.Frame_Ending:
		r.remains.Event(report.Stopping, r.host(h).Name, b.Ending.Why)
		r.onEnding(h, b.Ending.Why, e.at)
	case *apiv1.Frame_Closed:
		r.onClosed(h, b.Closed, e.at)
	case *apiv1.Frame_FenceEnter:
		r.sayStar()
		out, wired, wrong := r.exchange.Enter(h, b.FenceEnter)
		r.sendOut(out)
		if err = wrong; wired {
			r.move(jobWired)
		}
	case *apiv1.Frame_NameRequest:
		r.sendOut(r.exchange.Name(h, b.NameRequest))
	case *apiv1.Frame_FetchRequest:
		r.sendOut(r.exchange.Fetch(h, b.FetchRequest))
	case *apiv1.Frame_FetchResult:
		r.sendOut(r.exchange.Answered(h, b.FetchResult))
	case *apiv1.Frame_SpawnRequest:
		err = r.onSpawn(h, b.SpawnRequest)
	case *apiv1.Frame_Event:
		r.forward(h, b.Event)
	case *apiv1.Frame_Rendezvous:
		r.rendezvous(h, b.Rendezvous)
	case *apiv1.Frame_Credit: // of input, from a host whose rank gets none
	default:
		err = fmt.Errorf("a frame %T, which is not for a launcher", b)
	}
	if err != nil {
		r.nonsense(h, err)
	}
	r.idle(h)
}

// nonsense is an agent that does not keep to the protocol.
func (r *run) nonsense(h int, err error) {
	r.fail(verdict.Fault{Event: verdict.Internal, Host: r.host(h).Name, Node: h, ID: -1, Text: fmt.Sprintf("host %s: %v", r.host(h).Name, err)})
}

func (r *run) rank(rank uint32, e rankEvent) error {
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
func (r *run) feedInput(rank int) {
	if r.input == nil {
		return
	}
	if r.ranks[rank].state.over() {
		r.input.Gone(rank)
	}
	if r.hungry[rank] {
		if delete(r.hungry, rank); len(r.hungry) == 0 {
			close(r.feed)
		}
	}
}

func (r *run) onStarted(h int, m *apiv1.Started) error {
	if err := r.rank(m.Rank, rankStarted); err != nil {
		return err
	}
	r.exec.started()
	r.ranks[m.Rank].pid = m.Pid
	r.remains.Started(r.process(int(m.Rank)), int(m.Pid))
	r.ranks[m.Rank].output = true
	r.at[h].created--
	r.at[h].running++
	r.at[h].outputs++
	j := r.jobOf(int(m.Rank))
	r.reportBinding(j, int(m.Rank), m.Pid)
	if j.dropped || r.ranks[m.Rank].wanted {
		r.end(int(m.Rank))
	}
	r.heard(j)
	return nil
}

// heard counts a process that has started.
func (r *run) heard(j *jobRun) {
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

func (r *run) move(e jobEvent) {
	if next, ok := r.job.next(e); ok {
		r.job = next
		r.cfg.Log.Debug("job", "state", next.String(), "after", time.Since(r.begun))
	}
}

func (r *run) onStartFailed(h int, m *apiv1.StartFailed) error {
	if err := r.rank(m.Rank, rankDidNotStart); err != nil {
		return err
	}
	r.at[h].created--
	if r.job == jobStopping { // it was told not to start any more
		return nil
	}
	f := r.about(verdict.NotStarted, h, int(m.Rank))
	f.Text = m.Text
	f.Init = m.Phase == apiv1.StartPhase_START_INIT || m.Phase == apiv1.StartPhase_START_DIR
	f.Errno = unix.ErrnoName(syscall.Errno(m.Errno))
	if f.Text == "" {
		f.Text = fmt.Sprintf("%s: %v", m.Path, syscall.Errno(m.Errno))
	}
	r.remains.NotStarted(r.process(int(m.Rank)), f.Text)
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

func (r *run) onExited(h int, m *apiv1.Exited, at time.Duration) error {
	was := r.ranks[m.Rank].state
	if err := r.rank(m.Rank, rankDidExit); err != nil {
		return err
	}
	if was == rankRunning {
		r.at[h].running--
	} else {
		r.at[h].created--
		r.heard(r.jobOf(int(m.Rank)))
	}
	r.remains.Ended(r.process(int(m.Rank)), job.Exit{Code: int(m.Code), Signal: int(m.Signal)})
	r.noteAlone(m)
	r.noteEnded(m)
	f := r.about(verdict.Ended, h, int(m.Rank))
	f.At, f.Text, f.TimeNS, f.OOM = at, m.Text, m.TimeNs, m.Oom
	f.Exit = job.Exit{Code: int(m.Code), Signal: int(m.Signal), Core: m.Core}
	f.Unfinalized = m.Pmi == apiv1.PmiState_PMI_RUNNING
	r.verdict.Lacks(f.ID, m.Lacking)
	f.Broke = m.Text != "" && f.Exit.Signal == int(syscall.SIGKILL)
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
		r.goneRank(f)
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

// about is the beginning of a fault of one process.
func (r *run) about(what verdict.Event, h, id int) verdict.Fault {
	j := r.jobOf(id)
	return verdict.Fault{Event: what, Host: r.host(h).Name, Node: h, ID: id, Process: job.Process{Job: j.number, Rank: id - j.base}, Piped: !r.cfg.pty()}
}

func (r *run) onWireupFailed(h int, m *apiv1.WireupFailed, at time.Duration) {
	if r.excused(int(m.Rank)) || r.cfg.Recover && r.ranks[m.Rank].state.over() { // an end without MPI_Finalize
		return
	}
	f := r.about(verdict.NotWired, h, int(m.Rank))
	f.At, f.Text = at, m.Text
	r.fail(f)
}

func (r *run) onOutputEnd(h int, m *apiv1.OutputEnd) {
	r.remains.Last(r.process(int(m.Rank)), r.sink.Tail(int(m.Rank)))
	s := &r.ranks[m.Rank]
	if s.output {
		s.output = false
		r.at[h].outputs--
	}
	if m.Cut && (r.exec == nil || !r.exec.Keep) {
		r.say("%s on %s: a process it left behind still holds its output, which ends here", r.rankName(int(m.Rank)), r.host(h).Name)
	}
}

// busy says that something is still to come of the host.
func (r *run) busy(h int) bool {
	return r.at[h].created+r.at[h].running+r.at[h].outputs > 0 || r.at[h].dropped
}

// idle says goodbye to a host of which nothing more is to come. A host that was told to stop
// starts no more ranks and does not speak of those it did not start.
func (r *run) idle(h int) {
	waiting := r.at[h].running + r.at[h].outputs
	if r.job != jobStopping {
		waiting += r.at[h].created
	}
	if waiting > 0 || r.at[h].bye || r.at[h].dropped && r.job != jobStopping {
		return
	}
	r.at[h].bye = true
	r.sendOut(r.exchange.HostDone(h))
	r.send(h, (&apiv1.Bye{}).Frame())
	if !slices.ContainsFunc(r.at, func(s hostState) bool { return !s.bye }) {
		r.timers.bound.Reset(r.cfg.Grace + stopBound) // what the ranks left behind is ended too
	}
}

func (r *run) outputBroken(err error) {
	f := verdict.Fault{Event: verdict.ReaderGone, Node: -1, ID: -1, Text: err.Error()}
	if !errors.Is(err, syscall.EPIPE) {
		f.Event = verdict.NotWritten
	}
	r.fail(f)
}
