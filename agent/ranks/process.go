package ranks

import (
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/mpiup/mpiup/agent/metrics"
	"github.com/mpiup/mpiup/agent/outfit"
	"github.com/mpiup/mpiup/agent/reap"
	"github.com/mpiup/mpiup/agent/reap/program"
	"github.com/mpiup/mpiup/agent/stdio"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/job"
	"golang.org/x/sys/unix"
)

// Bounds of the bytes of output in flight per process.
const (
	minWindow = 4 << 10
	maxWindow = 4 << 20
)

// Process is one process of a step.
//
//	start ──▶ running ──process ends──▶ Exited sent ──pipes drained──▶ OutputEnd sent, done closed
type Process struct {
	Job     *Job
	Spec    *apiv1.Proc
	ID      uint32 // in the run
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

func newProc(st *Job, spec *apiv1.Proc, dir string, stdin bool) *Process {
	return &Process{Job: st, Spec: spec, ID: st.Launch.Job.Base + spec.Rank, dir: dir, stdin: stdin, told: make(chan struct{}), done: make(chan struct{})}
}

// start makes the process and what serves it. A failure is for the launcher to tell.
func (p *Process) start() *apiv1.StartFailed {
	l, app := p.Job.Launch, p.Job.apps[p.Spec.App]
	failed := func(err error) *apiv1.StartFailed {
		return &apiv1.StartFailed{Rank: p.ID, Phase: apiv1.StartPhase_START_INIT, Text: err.Error()}
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
		p.Job.Notice(true, "ranks' standard output is a pipe in place of a terminal: %v", err)
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
	with := p.Job.outfit.Of(p.Spec, outfit.Way{Wire: w.env, Gloo: p.Job.glooPort(p.Spec.Rank)})
	p.Job.meetsAt(with.Env)
	p.process, err = p.Job.s.Super.Start(p.Job.may, reap.Command{
		Argv:     with.Argv,
		Path:     with.Path,
		Look:     app.Path,
		AlsoDir:  app.AlsoWdir,
		Env:      with.Env,
		Dir:      p.dir,
		Files:    child,
		Terminal: l.Exec.GetTerminal(), SameSession: p.Job.together() && p.Job.protocolOf(p.Spec.App) == apiv1.Pmi_PMI_PMIX,
		Session: p.Job.s.ID,
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
func (p *Process) serve(pmiConn net.Conn) {
	st := p.Job
	l := st.Launch
	p.pump = stdio.NewPump(stdio.Config{
		Rank: int(p.ID), Out: p.files.Out, Err: p.files.Err,
		Window: int(min(max(l.Job.Window, minWindow), maxWindow)),
		Emit:   p.emit, Exited: p.process.Done(), Tee: st.tee,
	})
	if p.files.In != nil {
		p.input = stdio.NewInput(stdio.InputConfig{Rank: int(p.ID), File: p.files.In,
			Terminal: p.files.Terminal, Exited: p.process.Done(), Done: p.tookInput})
		st.wg.Go(func() {
			if err := p.input.Run(st.ctx); err != nil {
				st.Notice(true, "%v", err)
			}
		})
	}
	stopped := st.note(p)
	st.s.Metrics.Started.Inc()
	st.send((&apiv1.Started{Rank: p.ID, Pid: int32(p.process.Pid())}).Frame())
	if stopped { // a stop came while it was being started, and may have missed it
		p.process.Signal(syscall.SIGKILL)
	}
	if pmiConn != nil {
		st.wg.Go(func() { p.servePMI(pmiConn) })
	}
	st.wg.Go(p.follow)
}

// follow waits for the process's end, and then for the end of its output.
func (p *Process) follow() {
	defer close(p.done)
	st := p.Job
	drained := make(chan bool, 1)
	st.wg.Go(func() {
		cut, err := p.pump.Run(st.ctx)
		if err != nil {
			st.s.Log.Debug("output ended", "rank", p.ID, "cause", err)
		}
		drained <- cut
	})
	<-p.process.Done()
	p.sendExited(p.process.Ended())
	p.lookAtCore()
	cut := <-drained
	if st.tee != nil {
		st.tee.End(int(p.ID))
	}
	st.send((&apiv1.OutputEnd{Rank: p.ID, Cut: cut}).Frame())
}

func (p *Process) sendExited(at time.Time) {
	st := p.Job
	st.lastMeetingLook()
	ex := p.process.Exit()
	p.mu.Lock()
	p.ended = true
	x := &apiv1.Exited{Rank: p.ID, Code: int32(ex.Code), Signal: int32(ex.Signal), Core: ex.Core,
		Pmi: apiv1.PmiState(p.pmi.Load()), TimeNs: at.UnixNano(), StoppedByUs: p.ours && !p.killed(ex, at),
		Text: p.failure}
	p.mu.Unlock()
	if ex.Signal == int(unix.SIGKILL) && !x.StoppedByUs {
		if n, err := st.s.Host.Cgroups().OOMKills(); err == nil && n > st.oom {
			x.Oom = true
		}
	}
	if ex.Status() != 0 {
		st.s.Metrics.Failed.WithLabelValues(how(x)).Inc()
		if !x.StoppedByUs || p.aborted.Load() {
			x.Lacking = p.lacking(ex)
		}
	} else {
		x.Library = p.unspoken()
	}
	st.send(x.Frame())
	close(p.told)
	if st.space != nil {
		st.space.RankGone(int(p.Spec.Rank), "has ended with "+ex.String())
	}
}

// how is the way in which a process failed, for metrics.
func how(x *apiv1.Exited) string {
	switch {
	case x.StoppedByUs:
		return metrics.Stopped
	case x.Oom:
		return metrics.ByOOM
	case x.Signal != 0:
		return metrics.BySignal
	}
	return metrics.ByCode
}

// emit sends a piece of output.
func (p *Process) emit(c stdio.Chunk) {
	st := p.Job
	st.s.Metrics.OutBytes.Add(float64(len(c.Data)))
	p.wrote.Store(c.Time.UnixNano())
	if f := p.heard.Load(); f != nil && c.Stream == job.Stderr {
		(*f)(c.Data)
	}
	back := c.Release
	if st.s.Embedded { // the launcher has got the data itself
		back = nil
	}
	st.s.Session.Lend((&apiv1.Output{Rank: p.ID,
		Stream: apiv1.Stream(c.Stream), Data: c.Data, Partial: c.Partial, TimeNs: c.Time.UnixNano()}).Frame(), back)
}

func (p *Process) tookInput(n int) {
	p.Job.send((&apiv1.Credit{Rank: p.ID, Bytes: uint32(n)}).Frame())
}

// markStopped: what follows is not the process's own doing. It is sent SIGKILL only at kill.
func (p *Process) markStopped(kill time.Time) {
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
func (p *Process) killed(ex job.Exit, at time.Time) bool {
	return ex.Signal == int(unix.SIGKILL) && at.Before(p.kill) && p.failure == ""
}

// Fail ends a process that broke a rule; its exit will carry the text.
func (p *Process) Fail(text string) {
	p.mu.Lock()
	if p.failure == "" {
		p.failure = text
	}
	p.mu.Unlock()
	p.process.Signal(syscall.SIGKILL)
}

// startFailed turns a start's error into what the launcher is told.
func (p *Process) startFailed(err error) *apiv1.StartFailed {
	f := &apiv1.StartFailed{Rank: p.ID, Phase: apiv1.StartPhase_START_INIT, Text: err.Error()}
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

// Grant lets the process's output flow on.
func (p *Process) Grant(bytes uint32) { p.pump.Grant(int(min(bytes, maxWindow))) }

// Resize tells the process's terminal its size.
func (p *Process) Resize(r *apiv1.Resize) { p.files.Resize(uint16(r.Rows), uint16(r.Columns)) }

// Signal sends a signal; one that has ended needs none.
func (p *Process) Signal(sig syscall.Signal) { p.process.Signal(sig) }

// Ask asks the process to end by a signal, if it was not asked by that before.
func (p *Process) Ask(sig syscall.Signal) { p.process.Ask(sig) }

// Pid is the process's number.
func (p *Process) Pid() int { return p.process.Pid() }

// Gone says that the process has ended.
func (p *Process) Gone() bool { return p.process.Over() }

// State is how far the rank's library has come.
func (p *Process) State() apiv1.PmiState { return apiv1.PmiState(p.pmi.Load()) }

// Take writes to the process's standard input, if it has one.
func (p *Process) Take(in *apiv1.Input) error {
	if p.input == nil {
		return nil
	}
	if len(in.Data) > 0 {
		if err := p.input.Write(in.Data); err != nil {
			return err
		}
	}
	if in.Eof {
		p.input.CloseWrite()
	}
	return nil
}

// Program is what the process was started with.
func (p *Process) Program() string {
	if argv := p.Job.apps[p.Spec.App].Argv; len(argv) > 0 {
		return argv[0]
	}
	return ""
}

// Released says that what serves the job's processes has been told to end.
func (p *Process) Released() bool { return p.Job.ctx.Err() != nil }

// Quiet is when the rank last wrote; begun says that it has not yet, and when it was started.
func (p *Process) Quiet() (since int64, wrote bool) {
	at := p.wrote.Load()
	return max(at, p.begun.UnixNano()), at > 0
}

// GPUNames are the UUIDs of the GPUs that the rank sees, where those are some of its host's only.
func (p *Process) GPUNames() []string {
	for _, kv := range p.Job.outfit.GPUs(p.Spec.Rank) {
		if list, ok := strings.CutPrefix(kv, "CUDA_VISIBLE_DEVICES="); ok {
			return strings.Split(list, ",")
		}
	}
	return nil
}

// Speaks says that the rank is offered a server to speak with.
func (p *Process) Speaks() bool { return p.Job.protocolOf(p.Spec.App) != apiv1.Pmi_PMI_NONE }

// Silent says that the rank has not spoken, and could and still may.
func (p *Process) Silent() bool { return p.Speaks() && p.mute() }

// Hear has f told what the rank writes, until the function that it returns is called.
func (p *Process) Hear(f func([]byte)) (end func()) {
	p.heard.Store(&f)
	return func() { p.heard.Store(nil) }
}

// Phase is how far the rank's MPI library has come; inFence are ids that wait for others.
func (p *Process) Phase(inFence idset.Set) apiv1.RankPhase {
	if !p.Speaks() {
		return apiv1.RankPhase_PHASE_NONE
	}
	if inFence.Contains(int(p.ID)) {
		return apiv1.RankPhase_PHASE_FENCE
	}
	switch p.State() {
	case apiv1.PmiState_PMI_RUNNING:
		return apiv1.RankPhase_PHASE_RUNNING
	case apiv1.PmiState_PMI_FINALIZED:
		return apiv1.RankPhase_PHASE_FINALIZED
	}
	return apiv1.RankPhase_PHASE_NEVER
}
