package agent

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/mpiup/mpiup/agent/outfit"
	"github.com/mpiup/mpiup/agent/reap"
	"github.com/mpiup/mpiup/agent/reap/program"
	"github.com/mpiup/mpiup/agent/stdio"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/job"
	"golang.org/x/sys/unix"
)

// proc is one process of a step.
//
//	start ──▶ running ──process ends──▶ Exited sent ──pipes drained──▶ OutputEnd sent, done closed
type proc struct {
	step    *step
	spec    *apiv1.Proc
	id      uint32 // in the run
	dir     string
	stdin   bool
	files   *stdio.Files
	process *reap.Process
	begun   time.Time
	pump    *stdio.Pump
	input   *stdio.Input                 // nil: /dev/null
	pmi     atomic.Int32                 // apiv1.PmiState
	wrote   atomic.Int64                 // wall clock of its last output, ns; 0: none
	heard   atomic.Pointer[func([]byte)] // gets what comes on standard error; nil: nobody listens
	aborted atomic.Bool                  // it called MPI_Abort through PMI-1 or PMI-2
	mapped  atomic.Pointer[string]       // the MPI library that it has mapped; nil: none was seen
	told    chan struct{}                // closed when Exited was sent
	done    chan struct{}                // closed when OutputEnd was sent

	mu      sync.Mutex
	ours    bool      // we stopped it, guarded by mu
	kill    time.Time // when that comes to SIGKILL, guarded by mu
	ended   bool      // guarded by mu
	failure string    // what was wrong besides how it ended, guarded by mu
}

func newProc(st *step, spec *apiv1.Proc, dir string, stdin bool) *proc {
	return &proc{step: st, spec: spec, id: st.launch.Job.Base + spec.Rank, dir: dir, stdin: stdin, told: make(chan struct{}), done: make(chan struct{})}
}

// start makes the process and what serves it. A failure is for the launcher to tell.
func (p *proc) start() *apiv1.StartFailed {
	l, app := p.step.launch, p.step.apps[p.spec.App]
	failed := func(err error) *apiv1.StartFailed {
		return &apiv1.StartFailed{Rank: p.id, Phase: apiv1.StartPhase_START_INIT, Text: err.Error()}
	}
	var err error
	switch {
	case l.Exec.GetTerminal():
		p.files, err = stdio.Pty(uint16(l.Exec.GetRows()), uint16(l.Exec.GetColumns()))
	case l.Job.Pty:
		p.files, err = stdio.PipesAndPty(p.stdin)
	default:
		p.files, err = stdio.Pipes(p.stdin)
	}
	if err != nil && l.Job.Pty { // a container may have none to give, and ranks write as well to a pipe
		p.step.s.notice(true, "ranks' standard output is a pipe in place of a terminal: %v", err)
		p.files, err = stdio.Pipes(p.stdin)
	}
	if err != nil {
		return failed(err)
	}
	child := p.files.Child[:]
	w, err := p.wire()
	if err != nil {
		p.files.Close()
		return failed(err)
	}
	if w.theirs != nil {
		defer w.theirs.Close()
		child = append(child, w.theirs)
	}
	with := p.step.outfit.Of(p.spec, outfit.Way{Wire: w.env, Gloo: p.step.glooPort(p.spec.Rank)})
	p.step.meetsAt(with.Env)
	p.process, err = p.step.s.agent.super.Start(p.step.may, reap.Command{
		Argv:     with.Argv,
		Path:     with.Path,
		Look:     app.Path,
		AlsoDir:  app.AlsoWdir,
		Env:      with.Env,
		Dir:      p.dir,
		Files:    child,
		Terminal: l.Exec.GetTerminal(), SameSession: p.step.together() && p.step.protocolOf(p.spec.App) == apiv1.Pmi_PMI_PMIX,
		Session: p.step.s.id,
		CPUs:    with.CPUs.Slice(),
		Memory:  with.Memory,
	})
	if err != nil {
		p.files.Close()
		if w.ours != nil {
			w.ours.Close()
		}
		return p.startFailed(err)
	}
	p.begun = time.Now()
	p.files.CloseChild()
	p.verifyBinding()
	p.serve(w.ours)
	return nil
}

// serve starts what accompanies the running process.
func (p *proc) serve(pmiConn net.Conn) {
	st := p.step
	l := st.launch
	p.pump = stdio.NewPump(stdio.Config{
		Rank: int(p.id), Out: p.files.Out, Err: p.files.Err,
		Window: int(min(max(l.Job.Window, minWindow), maxWindow)),
		Emit:   p.emit, Exited: p.process.Done(), Tee: st.tee,
	})
	if p.files.In != nil {
		p.input = stdio.NewInput(stdio.InputConfig{Rank: int(p.id), File: p.files.In,
			Terminal: p.files.Terminal, Exited: p.process.Done(), Done: p.tookInput})
		st.wg.Go(func() {
			if err := p.input.Run(st.ctx); err != nil {
				st.s.notice(true, "%v", err)
			}
		})
	}
	stopped := st.note(p)
	st.s.agent.metrics.Started.Inc()
	st.s.send((&apiv1.Started{Rank: p.id, Pid: int32(p.process.Pid())}).Frame())
	if stopped { // a stop came while it was being started, and may have missed it
		p.process.Signal(syscall.SIGKILL)
	}
	if pmiConn != nil {
		st.wg.Go(func() { p.servePMI(pmiConn) })
	}
	st.wg.Go(p.follow)
}

// follow waits for the process's end, and then for the end of its output.
func (p *proc) follow() {
	defer close(p.done)
	st := p.step
	drained := make(chan bool, 1)
	st.wg.Go(func() {
		cut, err := p.pump.Run(st.ctx)
		if err != nil {
			st.s.agent.cfg.Log.Debug("output ended", "rank", p.id, "cause", err)
		}
		drained <- cut
	})
	<-p.process.Done()
	p.sendExited(p.process.Ended())
	cut := <-drained
	if st.tee != nil {
		st.tee.End(int(p.id))
	}
	st.s.send((&apiv1.OutputEnd{Rank: p.id, Cut: cut}).Frame())
}

func (p *proc) sendExited(at time.Time) {
	st := p.step
	st.lastMeetingLook()
	ex := p.process.Exit()
	p.mu.Lock()
	p.ended = true
	x := &apiv1.Exited{Rank: p.id, Code: int32(ex.Code), Signal: int32(ex.Signal), Core: ex.Core,
		Pmi: apiv1.PmiState(p.pmi.Load()), TimeNs: at.UnixNano(), StoppedByUs: p.ours && !p.killed(ex, at),
		Text: p.failure}
	p.mu.Unlock()
	if ex.Signal == int(unix.SIGKILL) && !x.StoppedByUs {
		if n, err := st.s.agent.host.Cgroups().OOMKills(); err == nil && n > st.oom {
			x.Oom = true
		}
	}
	if ex.Status() != 0 {
		st.s.agent.metrics.Failed.Inc()
		if !x.StoppedByUs || p.aborted.Load() {
			x.Lacking = p.lacking(ex)
		}
	} else {
		x.Library = p.unspoken()
	}
	st.s.send(x.Frame())
	close(p.told)
	if st.space != nil {
		st.space.RankGone(int(p.spec.Rank), "has ended with "+ex.String())
	}
}

// emit sends a piece of output.
func (p *proc) emit(c stdio.Chunk) {
	st := p.step
	st.s.agent.metrics.OutBytes.Add(float64(len(c.Data)))
	p.wrote.Store(c.Time.UnixNano())
	if f := p.heard.Load(); f != nil && c.Stream == job.Stderr {
		(*f)(c.Data)
	}
	back := c.Release
	if st.s.agent.cfg.Embedded { // the launcher has got the data itself
		back = nil
	}
	err := st.s.link.Lend((&apiv1.Output{Rank: p.id,
		Stream: apiv1.Stream(c.Stream), Data: c.Data, Partial: c.Partial, TimeNs: c.Time.UnixNano()}).Frame(), back)
	if err != nil {
		st.s.end("the launcher takes no frames: " + err.Error())
	}
}

func (p *proc) tookInput(n int) {
	p.step.s.send((&apiv1.Credit{Rank: p.id, Bytes: uint32(n)}).Frame())
}

// markStopped: what follows is not the process's own doing. It is sent SIGKILL only at kill.
func (p *proc) markStopped(kill time.Time) {
	if p.process.Over() {
		return
	}
	p.mu.Lock()
	if !p.ended && (!p.ours || kill.Before(p.kill)) {
		p.ours, p.kill = true, kill
	}
	p.mu.Unlock()
}

// killed says that somebody else ended a process that we were stopping. One that gets SIGKILL closes its
// connections before it has ended: its peers abort over the loss, and the stop comes in between.
// mu is held.
func (p *proc) killed(ex job.Exit, at time.Time) bool {
	return ex.Signal == int(unix.SIGKILL) && at.Before(p.kill) && p.failure == ""
}

// fail ends a process that broke a rule; its exit will carry the text.
func (p *proc) fail(text string) {
	p.mu.Lock()
	if p.failure == "" {
		p.failure = text
	}
	p.mu.Unlock()
	p.process.Signal(syscall.SIGKILL)
}

// startFailed turns a start's error into what the launcher is told.
func (p *proc) startFailed(err error) *apiv1.StartFailed {
	f := &apiv1.StartFailed{Rank: p.id, Phase: apiv1.StartPhase_START_INIT, Text: err.Error()}
	var se *program.Error
	if !errors.As(err, &se) {
		return f
	}
	f.Path, f.Errno, f.Text = se.Path, int32(se.Errno), se.Error()
	switch se.Phase {
	case program.PhaseExec:
		f.Phase = apiv1.StartPhase_START_EXEC
	case program.PhaseDir:
		f.Phase = apiv1.StartPhase_START_DIR
	case program.PhaseTimeout:
		f.Phase = apiv1.StartPhase_START_TIMEOUT
	}
	return f
}
