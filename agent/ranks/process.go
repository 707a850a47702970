package ranks

import (
	"context"
	"errors"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/mpiup/mpiup/agent/host"
	"github.com/mpiup/mpiup/agent/incoming"
	"github.com/mpiup/mpiup/agent/look"
	"github.com/mpiup/mpiup/agent/reap"
	"github.com/mpiup/mpiup/agent/reap/program"
	"github.com/mpiup/mpiup/agent/stdio"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/bounded"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/pmi/client"
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
	Job      *Job
	Spec     *apiv1.Proc
	ID       uint32 // in the run
	dir      string
	held     *bounded.Dir // that, held open since before the start; nil: it was not to be had
	stdin    bool
	files    *stdio.Files
	process  *reap.Process
	begun    time.Time
	pump     *stdio.Pump
	input    *stdio.Input           // nil: /dev/null
	pmi      atomic.Int32           // apiv1.PmiState
	wrote    atomic.Int64           // wall clock of its last output, ns; 0: none
	heard    look.Ear               // what comes on standard error
	aborted  atomic.Bool            // it called MPI_Abort through PMI-1 or PMI-2
	second   atomic.Bool            // it was told that a second process wanted to be this rank
	mapped   atomic.Pointer[string] // the MPI library that it has mapped; nil: none was seen
	key      string                 // of the variables that tell its processes from those of other ranks
	clients  clients                // who is in MPI for it
	changed  chan struct{}          // capacity 1; its library has come further
	over     chan struct{}          // closed when its first process has ended and nobody goes on for it
	cut      atomic.Bool            // its output was given up, which another process held open
	alone    atomic.Bool            // it was seen to have called MPI_Init without a word to us (alone.go)
	searched string                 // PATH of its environment
	venv     string                 // its virtual environment; "": none
	wired    map[string]string      // of its environment: what tells an MPI library whom to speak with
	told     chan struct{}          // closed when Exited was sent
	done     chan struct{}          // closed when OutputEnd was sent

	mu      sync.Mutex
	ours    bool       // we stopped it, guarded by mu
	kill    time.Time  // when that comes to SIGKILL, guarded by mu
	ended   bool       // guarded by mu
	failure string     // what was wrong besides how it ended, guarded by mu
	breach  job.Breach // what kind of thing failure is, guarded by mu
}

// String is how users know it: "rank 3", or "rank 0 of spawned job 1".
func (p *Process) String() string {
	return job.Process{Job: int(p.Job.Launch.Job.Number), Rank: int(p.Spec.Rank)}.String()
}

// markStopped: what follows is not the process's own doing. It is sent SIGKILL only at kill.
func (p *Process) markStopped(kill time.Time) {
	if p.process.Dying() && !p.goesOn() { // others may fail of that, and the stop may be of theirs
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
func (p *Process) Fail(how job.Breach, text string) {
	p.mu.Lock()
	if p.failure == "" {
		p.breach, p.failure = how, text
	}
	p.mu.Unlock()
	p.Signal(syscall.SIGKILL)
}

// Grant lets the process's output flow on.
func (p *Process) Grant(bytes uint32) { p.pump.Grant(int(min(bytes, maxWindow))) }

// Resize tells the process's terminal its size.
func (p *Process) Resize(r *apiv1.Resize) { p.files.Resize(uint16(r.Rows), uint16(r.Columns)) }

// Signal sends a signal; one that has ended needs none.
func (p *Process) Signal(sig syscall.Signal) {
	if p.process.Over() {
		p.signalOthers(sig)
		return
	}
	p.process.Signal(sig)
}

// Ask asks the process to end by a signal, if it was not asked by that before.
func (p *Process) Ask(sig syscall.Signal) {
	again := p.process.Asked(sig)
	p.process.Ask(sig)
	if !again && p.process.Over() {
		p.signalOthers(sig)
	}
}

// Pid is the number of the process that was started, or of the one that goes on for it.
func (p *Process) Pid() int {
	if p.process.Over() && p.goesOn() {
		return p.clients.last().PID
	}
	return p.process.Pid()
}

// Leader is the process, with the one that is in MPI for the rank.
func (p *Process) Leader() look.Leader { return look.Leader{PID: p.Pid(), Main: p.Client()} }

// Client is the number of the process that is, or was, in MPI for the rank last; 0: nobody that is known.
func (p *Process) Client() int { return p.clients.last().PID }

// Gone says that the process has ended, and nobody goes on for it.
func (p *Process) Gone() bool { return p.process.Over() && !p.goesOn() }

// goesOn says that the process has ended and another one, which lives, is in MPI for the rank.
func (p *Process) goesOn() bool {
	if p.clients.isOver() || p.process.Exit().Status() != 0 {
		return false
	}
	who := p.clients.last()
	return who.Known() && who.PID != p.process.Pid() && p.Job.s.Lives(who)
}

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
	if list, ok := host.Lookup("CUDA_VISIBLE_DEVICES", p.Job.outfit.GPUs(p.Spec.Rank)); ok {
		return strings.Split(list, ",")
	}
	return nil
}

// Hear has f told what the rank writes, until the function that it returns is called.
func (p *Process) Hear(f func([]byte)) (end func()) { return p.heard.To(f) }

func (st *Job) Process(rank uint32) *Process {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.procs[rank]
}

// started is a rank's process once its start is noted, before which it may speak already. nil: its
// job is over, or it was never started.
func (st *Job) started(rank uint32) *Process {
	for {
		st.mu.Lock()
		p, noted := st.procs[rank], st.noted
		st.mu.Unlock()
		if p != nil {
			return p
		}
		select {
		case <-noted:
		case <-st.over:
			return st.Process(rank)
		case <-st.ctx.Done():
			return nil
		}
	}
}

// note enters a process that was started, and says whether a stop has begun. Such a process may have been killed at its
// birth, before it is noted here: its end is the stop's, however soon it came.
func (st *Job) note(p *Process) (stopped bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.procs[p.Spec.Rank] = p
	close(st.noted)
	st.noted = make(chan struct{})
	if stopped = st.isStopped(); stopped {
		p.mu.Lock()
		p.ours = true
		p.mu.Unlock()
	}
	return stopped
}

func (st *Job) All() []*Process {
	st.mu.Lock()
	defer st.mu.Unlock()
	return slices.Collect(maps.Values(st.procs))
}

// leaders are the processes that run, by id.
func (st *Job) leaders() map[uint32]look.Leader {
	leaders := map[uint32]look.Leader{}
	for _, p := range st.All() {
		if !p.Gone() {
			leaders[p.ID] = p.Leader()
		}
	}
	return leaders
}

// MarkStopped: no further process is started, and the ends that follow are not the processes' own
// doing; those that do not end are sent SIGKILL at kill. Why is for the agent's log.
func (st *Job) MarkStopped(kill time.Time, why string) {
	st.halt(errors.New(why)) // before the stop looks for processes: one that is about to be forked is not, or is waited for
	st.mu.Lock()
	defer st.mu.Unlock()
	for _, p := range st.procs {
		p.markStopped(kill)
	}
}

// Wait returns when all processes have ended and all that served them has.
func (st *Job) Wait() {
	<-st.over
	all := st.All()
	for _, p := range all {
		<-p.done
	}
	st.logEnds(all)
	if st.space != nil {
		st.space.Close(errors.New("the job has ended"))
	}
	st.kill()
	st.wg.Wait()
	st.releaseDirs()
}

// logEnds tells the agent's log how the ranks ended: those that failed by themselves one by one, and all by number.
// One that was asked by a signal to end, as at the launcher's SIGTERM, and ended by that or with a code was stopped.
func (st *Job) logEnds(all []*Process) {
	if st.Launch.Exec != nil || len(all) == 0 {
		return
	}
	const most = 8 // told one by one
	number := int(st.Launch.Job.Number)
	var failed, stopped, ended int
	for _, p := range all {
		ex, at := p.exit()
		p.mu.Lock()
		ours, why := p.ours && !p.killed(ex, at), p.failure
		p.mu.Unlock()
		switch {
		case ours:
			ended++
			stopped++
		case ex.Status() != 0 && p.process.Asked(syscall.Signal(ex.Signal)):
			stopped++
		case ex.Status() != 0:
			if failed++; failed <= most {
				st.s.Log.Warn("a rank failed", "job", number, "rank", p.Spec.Rank, "pid", p.Pid(), "end", ex.String(), "why", why)
			}
		}
	}
	why := map[bool]string{true: "the launcher passed a signal on"}[stopped > 0]
	if cause := context.Cause(st.may); ended > 0 && cause != nil {
		why = cause.Error()
	}
	st.s.Log.Info("ranks ended", "job", number, "well", len(all)-failed-stopped, "failed", failed, "stopped", stopped, "why", why)
}

// Live is how many of the job's processes here run, or are to be started.
func (st *Job) Live() int {
	n := len(st.Launch.Procs)
	for _, p := range st.All() {
		select {
		case <-p.told:
			n--
		default:
		}
	}
	return n
}

// Completed says that all processes have ended by themselves, and their output with them.
func (st *Job) Completed() bool {
	if st.isStopped() {
		return false
	}
	for _, p := range st.All() {
		select {
		case <-p.done:
		default:
			return false
		}
	}
	return true
}

// Cut says that output of one of the job's processes was given up, which another process held open.
func (st *Job) Cut() bool {
	return slices.ContainsFunc(st.All(), func(p *Process) bool { return p.cut.Load() })
}

// SetPMI notes how far a rank's library has come, and which process's that is, where it begins: an end without finalize
// is a failure.
func (st *Job) SetPMI(rank int, state apiv1.PmiState, who client.Process) {
	p := st.started(uint32(rank))
	if p == nil {
		return
	}
	p.followClient(who)
	p.pmi.Store(int32(state))
	if state != apiv1.PmiState_PMI_NEVER {
		p.useMPI("")
	}
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

// mute says that a process has not spoken, and still may.
func (p *Process) mute() bool {
	select {
	case <-p.over:
		return false
	default:
		return apiv1.PmiState(p.pmi.Load()) == apiv1.PmiState_PMI_NEVER
	}
}

// maySpeak is MaySpeak for a rank's own port.
func (st *Job) maySpeak(ctx context.Context, rank int, c net.Conn) error {
	if p := st.Process(uint32(rank)); p != nil {
		_, err := st.s.MaySpeak(ctx, p.process, c)
		return err
	}
	_, err := st.s.MaySpeak(ctx, nil, c) // it is being started
	return err
}

// searchedBy is the PATH of an environment, and its virtual environment, as far as they are worth telling.
func searchedBy(env []string) (path, venv string) {
	const most = 4096
	path, _ = host.Lookup("PATH", env)
	venv, _ = host.Lookup("VIRTUAL_ENV", env)
	if venv == "" {
		venv, _ = host.Lookup("CONDA_PREFIX", env)
	}
	return path[:min(len(path), most)], venv[:min(len(venv), most)]
}

// startFailed is the error of a start as the launcher is told of it.
func startFailed(id uint32, err error) *apiv1.StartFailed {
	f := &apiv1.StartFailed{Rank: id, Phase: apiv1.StartPhase_START_INIT, Text: err.Error()}
	var failed *program.Error
	var file *incoming.Error
	switch {
	case errors.As(err, &failed):
		f.Path, f.Errno, f.Text, f.Phase = failed.Path, int32(failed.Errno), failed.Error(), apiv1.StartPhase(failed.Phase)
		if failed.NoProgram { // ENOEXEC means another processor's program to whoever reads it
			f.Errno = 0
			return f
		}
	case errors.As(err, &file):
		f.Path = file.Name
	case errors.Is(err, unix.ENODEV): // of a GPU that is not there
		f.Errno = int32(unix.ENODEV)
	}
	var errno syscall.Errno
	if f.Errno == 0 && errors.As(err, &errno) {
		f.Errno = int32(errno)
	}
	return f
}
