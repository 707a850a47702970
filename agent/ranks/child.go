package ranks

import (
	"cmp"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/mpiup/mpiup/agent/checkup"
	"github.com/mpiup/mpiup/agent/metrics"
	"github.com/mpiup/mpiup/agent/outfit"
	"github.com/mpiup/mpiup/agent/reap"
	"github.com/mpiup/mpiup/agent/stdio"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/awake"
	"github.com/mpiup/mpiup/internal/bounded"
	"github.com/mpiup/mpiup/internal/job"
	"golang.org/x/sys/unix"
)

func newProc(st *Job, spec *apiv1.Proc, dir string, held *bounded.Dir, stdin bool) *Process {
	return &Process{
		Job:     st,
		Spec:    spec,
		ID:      st.Launch.Job.Base + spec.Rank,
		dir:     dir,
		held:    held,
		stdin:   stdin,
		changed: make(chan struct{}, 1),
		over:    make(chan struct{}),
		told:    make(chan struct{}),
		done:    make(chan struct{}),
	}
}

// start makes the process and what serves it. An error is for the launcher to tell.
func (p *Process) start() (err error) {
	l, app := p.Job.Launch, p.Job.apps[p.Spec.App]
	switch {
	case l.Exec.GetTerminal():
		p.files, err = stdio.Pty(uint16(l.Exec.GetRows()), uint16(l.Exec.GetColumns()))
	case l.Job.Pty:
		p.files, err = stdio.PipesAndPty(p.stdin, uint16(l.Job.PtyRows), uint16(l.Job.PtyColumns))
	default:
		p.files, err = stdio.Pipes(p.stdin)
	}
	if err != nil && l.Job.Pty { // a container may have none to give, and ranks write as well to a pipe
		p.Job.s.Notice(true, "ranks' standard output is a pipe in place of a terminal: %v", err)
		p.files, err = stdio.Pipes(p.stdin)
	}
	if err != nil {
		return err
	}
	child := p.files.Child[:]
	w, err := p.wire()
	if err != nil {
		p.files.Close()
		return err
	}
	if w.theirs != nil {
		defer w.theirs.Close()
		child = append(child, w.theirs)
	}
	with := p.Job.outfit.Of(p.Spec, outfit.Way{Wire: w.env, Gloo: p.Job.horovod.port(p.Spec.Rank)})
	p.Job.meeting.at(with.Env)
	env := p.Job.trails.Environment(p.ID, p.Job.Waits.Environment(p.ID, p.Spec.App, p, cmp.Or(with.Path, with.Argv[0]), with.Env))
	p.key = keyOf([]byte(strings.Join(env, "\x00")))
	p.wired = wiredBy(env)
	p.searched, p.venv = searchedBy(env)
	p.process, err = p.Job.s.Super.Start(p.Job.may, reap.Command{
		Argv:     with.Argv,
		Path:     with.Path,
		Look:     app.Path,
		AlsoDir:  app.AlsoWdir,
		ByShell:  l.Job.ShellTexts,
		Env:      env,
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
		return err
	}
	p.begun = time.Now()
	p.files.CloseChild()
	verifyBinding(p)
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
		Emit:   p.emit, Exited: p.over, ExitedAt: p.outputSince, Tee: st.tee,
	})
	if p.files.In != nil {
		p.input = stdio.NewInput(stdio.InputConfig{Rank: int(p.ID), File: p.files.In,
			Terminal: p.files.Terminal, Exited: p.over,
			Done: func(n int) { st.send((&apiv1.Credit{Rank: p.ID, Bytes: uint32(n)}).Frame()) }})
		st.wg.Go(func() {
			if err := p.input.Run(st.ctx); err != nil {
				st.s.Notice(true, "%v", err)
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
		serve := st.server.Meet(pmiConn, int(p.Spec.Rank)) // before anybody follows its end
		st.wg.Go(func() { p.servePMI(pmiConn, serve) })
	}
	st.wg.Go(p.follow)
}

// follow waits for the process's end, and then for the end of its output.
func (p *Process) follow() {
	defer close(p.done)
	st := p.Job
	cut, drained := false, make(chan struct{})
	st.wg.Go(func() {
		defer close(drained)
		var err error
		cut, err = p.pump.Run(st.ctx)
		if err != nil {
			st.s.Log.Debug("output ended", "rank", p.ID, "cause", err)
		}
	})
	<-p.process.Done()
	p.clients.outlive(st.s.Lives)
	p.settle()
	p.awaitClients(drained)
	p.settle() // a client that went on has had its last word since
	p.clients.close()
	close(p.over)
	failed := p.sendExited()
	frames := lookAtCore(p)
	var troubles []checkup.Trouble
	if failed {
		troubles = st.Devices.Later(st.ctx, p.GPUNames())
	}
	<-drained
	p.cut.Store(cut)
	if st.tee != nil {
		st.tee.End(int(p.ID))
	}
	end := &apiv1.OutputEnd{Rank: p.ID, Cut: cut, Frames: frames, Devices: told(troubles)}
	if failed {
		ex, _ := p.exit()
		end.Placed = p.placed(ex)
	}
	st.send(end.Frame())
}

// settleBound is how long the last word of a process that has ended is waited for. It ends with its connection, and comes at once where this
// process has CPU.
const settleBound = 10 * time.Second

// settle waits until the servers have read what the process said before it ended. On a busy host that lies there: a rank that has sent its
// finalize may end before it was read (libpmix waits for the answer for two seconds only), and one that aborts before the abort was.
func (p *Process) settle() {
	late, cancel := awake.Within(p.Job.ctx, settleBound)
	defer cancel()
	if s := p.Job.server; s != nil {
		s.Settle(late, int(p.Spec.Rank))
	}
	if s := p.Job.pmix; s != nil {
		s.Settle(late, int(p.ID))
	}
}

// sendExited tells of the end. failed: the rank failed by itself.
func (p *Process) sendExited() (failed bool) {
	st := p.Job
	st.meeting.last()
	st.sendDumps()
	st.trails.Last(p.ID, st.send)
	st.Waits.Last(p.ID, st.send)
	ex, at := p.exit()
	p.mu.Lock()
	p.ended = true
	x := &apiv1.Exited{Rank: p.ID, Code: int32(ex.Code), Signal: int32(ex.Signal), Core: ex.Core,
		Pmi: apiv1.PmiState(p.pmi.Load()), TimeNs: at.UnixNano(), StoppedByUs: p.ours && !p.killed(ex, at),
		Text: p.failure, Breach: apiv1.Breach(p.breach), MemoryPeak: p.process.Peak()}
	p.mu.Unlock()
	x.Memory = st.memory.ended(time.Now())
	if ex.Signal == int(unix.SIGKILL) && !x.StoppedByUs && killedRank(x.Memory, p.ID) {
		x.Oom = true
		x.MemoryLimit = x.Memory.Limit
	}
	if ex.Status() != 0 {
		st.s.Metrics.Failed.WithLabelValues(how(x)).Inc()
		if failed = !x.StoppedByUs || p.aborted.Load(); failed {
			tellLack(p, ex, x)
			x.Path, x.Venv = p.searched, p.venv
			x.Devices = told(st.Devices.AtOnce(p.GPUNames(), time.Since(p.begun)))
		}
	} else {
		x.Library, x.Alone = unspoken(p), p.alone.Load()
	}
	st.send(x.Frame())
	close(p.told)
	if st.space != nil {
		st.space.RankGone(int(p.Spec.Rank), "has ended with "+ex.String())
	}
	return failed
}

// told is troubles as they are told of.
func told(list []checkup.Trouble) (errs []*apiv1.DeviceError) {
	for _, t := range list {
		errs = append(errs, &apiv1.DeviceError{What: apiv1.DeviceFault(t.What), Device: t.Device, Number: t.Number, Seconds: uint32(t.Ago.Seconds())})
	}
	return errs
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
	if c.Stream == job.Stderr {
		p.heard.Take(c.Data)
	}
	back := c.Release
	if st.s.Embedded { // the launcher has got the data itself
		back = nil
	}
	st.s.Session.Lend((&apiv1.Output{Rank: p.ID,
		Stream: apiv1.Stream(c.Stream), Data: c.Data, Partial: c.Partial, TimeNs: c.Time.UnixNano()}).Frame(), back)
}
