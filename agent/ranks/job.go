package ranks

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/mpiup/mpiup/agent/copies"
	"github.com/mpiup/mpiup/agent/gloo"
	"github.com/mpiup/mpiup/agent/host"
	"github.com/mpiup/mpiup/agent/outfit"
	"github.com/mpiup/mpiup/agent/stdio"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/pmi"
	"github.com/mpiup/mpiup/pmi/kvs"
	"github.com/mpiup/mpiup/pmi/pmix"
)

// Job is one job's processes on this host: what a Launch asked for.
type Job struct {
	s        *Shared
	Launch   *outfit.Launch
	Since    time.Time        // when it came
	apps     []*apiv1.App     // of launch, with copied files in their places once receive has returned
	copies   *copies.Set      // nil: no files come
	files    string           // where they are; "": nowhere
	space    *kvs.Space       // nil without PMI
	unfit    error            // why space could not be made
	pmix     *pmix.Server     // nil unless ranks here speak PMIx
	server   *pmi.Server      // nil unless ranks here speak PMI
	programs []outfit.Program // by program: what was found out of it; none before choose
	shards   []bool           // by program: its ranks are told apart on purpose, and meet nowhere
	outfit   *outfit.Outfit   // what its processes are started with
	awaits   bool             // the launcher's word on that, before anything is started
	word     chan string      // that word: why not to start, or ""
	port     *pmiPort         // nil unless ranks connect by TCP
	hint     hint             // what ranks are told of the machine
	gloo     *gloo.Server     // where Horovod's ranks meet; nil: nobody is told of it
	meets    attendance       // who has come to where frameworks meet
	tee      *stdio.Tee       // nil: output goes to the launcher only
	oom      uint64           // OOM kills of the container before the start

	ctx  context.Context // ends what serves the processes: PMI, pumps
	kill context.CancelFunc
	may  context.Context // ends when no further process is to be started
	halt context.CancelFunc
	wg   sync.WaitGroup // everything that serves the processes
	over chan struct{}  // closed when start has returned

	mu      sync.Mutex
	procs   map[uint32]*Process // started, by rank in the job, guarded by mu
	noted   chan struct{}       // closed and replaced when procs grows, guarded by mu
	stopped bool                // no further process is started, guarded by mu

	bound    func() *outfit.Bound // which CPUs the ranks have; looked up once
	together func() bool          // ranks stay in one process session; found out once
	user     func() host.Account  // whose shell runs what Exec.shell hands over; looked up once
}

// New makes the job's part here, which is known to other hosts' ranks before it is started.
func New(s *Shared, l *outfit.Launch, tee *stdio.Tee) *Job {
	st := &Job{s: s, Launch: l, tee: tee, Since: time.Now(), apps: l.Apps, procs: make(map[uint32]*Process), noted: make(chan struct{}), word: make(chan string, 1), over: make(chan struct{})}
	st.bound = sync.OnceValue(st.binding)
	// See reap.Command.SameSession; a container has a CPU cgroup. Open MPI's ranks yield where they are too many; MPICH's do
	// not, and together they would have one session's share of the CPUs for all of them.
	st.together = sync.OnceValue(func() bool {
		return l.Exec == nil && !l.Exec.GetTerminal() && s.Crowded() && s.Host.Cgroups().Autogrouped()
	})
	st.user = sync.OnceValue(func() host.Account { return host.AccountOf(os.DirFS("/"), os.Getuid()) })
	st.ctx, st.kill = context.WithCancel(context.Background())
	st.may, st.halt = context.WithCancel(st.ctx)
	st.copies = st.newCopies()
	st.gloo = st.newGloo()
	if l.Exec == nil && l.Job.Pmi != apiv1.Pmi_PMI_NONE {
		st.space, st.unfit = newSpace(s, l.Launch)
	}
	return st
}

// newSpace is the job's PMI data on this host.
func newSpace(s *Shared, l *apiv1.Launch) (*kvs.Space, error) {
	// The name is one for the job and no other's: a launcher's sessions begin alike on all hosts.
	j := kvs.Job{Number: int(l.Job.Number), Base: int(l.Job.Base), Size: int(l.Job.Size), KVSName: "mpiup-" + s.ID[:16]}
	if l.Job.Number > 0 {
		j.KVSName += "-" + strconv.FormatUint(uint64(l.Job.Number), 10)
	}
	for _, p := range l.Procs {
		j.Local = append(j.Local, int(p.Rank))
	}
	for _, kv := range l.Preput {
		j.Preput = append(j.Preput, job.Pair{Key: kv.Key, Value: kv.Value})
	}
	return s.Engine.Add(j)
}

// Start starts the processes in order and tells the launcher of each. The first that cannot
// be started ends the attempt: the launcher will stop the rest.
func (st *Job) Start() {
	defer close(st.over)
	l := st.Launch
	st.oom, _ = st.s.Host.Cgroups().OOMKills()
	if failed := st.receive(); failed != nil {
		if !st.isStopped() {
			st.send(failed.Frame())
		}
		return
	}
	if failed := st.checkpoints(); failed != nil {
		st.send(failed.Frame())
		return
	}
	dirs := st.directories()
	st.choose(dirs)
	err := st.prepare()
	if err == nil {
		err = st.openGloo(dirs)
	}
	if err != nil {
		st.unprepared(err)
		return
	}
	if err := st.awaitWord(); err != nil {
		st.unprepared(err)
		return
	}
	if len(l.Procs) > 0 && l.Exec == nil {
		st.s.Metrics.Jobs.Inc()
	}
	if l.Job.ActivityMs > 0 && len(l.Procs) > 0 && l.Exec == nil && l.Job.Explain == 0 {
		st.wg.Go(func() { watchActivity(st) })
	}
	if st.watches() && len(l.Procs) > 0 {
		st.wg.Go(st.watchMeeting)
	}
	stdin := make(map[uint32]bool, len(l.Stdin))
	for _, id := range l.Stdin {
		stdin[id] = l.Job.Number == 0
	}
	for _, p := range l.Procs {
		if st.isStopped() {
			return
		}
		pr := newProc(st, p, dirs[p.App], stdin[l.Job.Base+p.Rank])
		if failed := pr.start(); failed != nil && !st.isStopped() {
			st.send(failed.Frame())
			return
		}
	}
}

// unprepared tells the launcher why nothing can be started here; where nothing was to be, ranks of
// other jobs cannot reach the job from here.
func (st *Job) unprepared(err error) {
	if len(st.Launch.Procs) == 0 {
		st.Notice(true, "job %d: %v", st.Launch.Job.Number, err)
		return
	}
	st.send((&apiv1.StartFailed{
		Rank: st.Launch.Job.Base + st.Launch.Procs[0].Rank, Phase: apiv1.StartPhase_START_INIT, Text: err.Error()}).Frame())
}

// prepare makes what the ranks share: the servers of the protocols that they speak, and a port when
// they want one.
func (st *Job) prepare() error {
	l := st.Launch
	if len(l.Procs) > 0 {
		st.s.Audit(l.Launch, false)
	}
	st.hint = st.topologyHint()
	var err error
	if err := st.dress(); err != nil {
		return err
	}
	switch {
	case st.unfit != nil:
		return fmt.Errorf("PMI: %w", st.unfit)
	case st.space == nil || len(l.Procs) == 0:
		return nil
	}
	if l.Job.Size > 1 {
		st.wg.Go(st.watchUnspoken)
	}
	if st.speaks(apiv1.Pmi_PMI_PMIX) {
		if st.pmix, err = st.s.Session.PMIx(st); err != nil {
			return fmt.Errorf("PMIx: %w", err)
		}
	}
	if st.speaks(apiv1.Pmi_PMI_PORT) {
		if st.port, err = newPMIPort(st); err != nil {
			return fmt.Errorf("PMI port: %w", err)
		}
	}
	if st.speaks(apiv1.Pmi_PMI_FD, apiv1.Pmi_PMI_PORT, apiv1.Pmi_PMI_2) {
		st.server = st.newPMI()
	}
	return nil
}

// directories is the working directory of each program of the launch.
func (st *Job) directories() []string {
	dirs := make([]string, len(st.apps))
	for i, a := range st.apps {
		dirs[i] = a.Wdir
		if a.Wdir == "" {
			dirs[i] = st.ownDir()
			continue
		}
		if a.WdirExplicit {
			continue // a missing one is the start's error
		}
		if err := host.DirExists(a.Wdir); err != nil {
			dirs[i] = st.s.Dir
			st.Notice(true, "the launcher's working directory %s is not there (%v), so %s is used; set --wdir to choose",
				a.Wdir, errors.Unwrap(err), dirs[i])
		}
	}
	return dirs
}

// ownDir is where a program runs that was not told: where the container starts, a shell at home.
func (st *Job) ownDir() string {
	if !st.Launch.Exec.GetShell() {
		return st.s.Dir
	}
	if home := st.user().HomeIn(st.s.Env); host.DirExists(home) == nil {
		return home
	}
	return st.s.Dir
}

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
	if st.stopped {
		p.mu.Lock()
		p.ours = true
		p.mu.Unlock()
	}
	return st.stopped
}

// isStopped tells that a stop has begun: what cannot be started any more is no failure.
func (st *Job) isStopped() bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.stopped
}

func (st *Job) All() []*Process {
	st.mu.Lock()
	defer st.mu.Unlock()
	list := make([]*Process, 0, len(st.procs))
	for _, p := range st.procs {
		list = append(list, p)
	}
	return list
}

// Abandon gives up what the processes have written and nobody will take; they have ended before.
func (st *Job) Abandon() { st.kill() }

// MarkStopped: no further process is started, and the ends that follow are not the processes' own
// doing; those that do not end are sent SIGKILL at kill.
func (st *Job) MarkStopped(kill time.Time) {
	st.halt() // before the stop looks for processes: one that is about to be forked is not, or is waited for
	st.mu.Lock()
	defer st.mu.Unlock()
	st.stopped = true
	for _, p := range st.procs {
		p.markStopped(kill)
	}
}

// Wait returns when all processes have ended and all that served them has.
func (st *Job) Wait() {
	<-st.over
	for _, p := range st.All() {
		<-p.done
	}
	st.release()
	st.wg.Wait()
}

// release ends what serves the processes.
func (st *Job) release() {
	if st.space != nil {
		st.space.Close(errors.New("the job has ended"))
	}
	st.kill()
}

// End is the first id above those of the job.
func (st *Job) End() uint32 { return st.Launch.Job.Base + st.Launch.Job.Size }

// id is a rank's in the run.
func (st *Job) id(rank int) int { return int(st.Launch.Job.Base) + rank }

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

// send queues a frame for the launcher.
func (st *Job) send(f *apiv1.Frame) { st.s.Session.Send(f) }

// Notice tells the user something, once. The launcher puts our host's name before it, but only
// the first host's that says the same.
func (st *Job) Notice(warning bool, format string, args ...any) {
	st.send((&apiv1.Notice{Text: fmt.Sprintf(format, args...), Warning: warning}).Frame())
}

// Cancel takes the place of start in a job that is not started.
func (st *Job) Cancel() { close(st.over) }

// Refuse takes the place of start in a job of which nothing is started, as if its program were not there.
func (st *Job) Refuse(why string) {
	defer st.Cancel()
	st.send((&apiv1.StartFailed{
		Rank: st.Launch.Job.Base + st.Launch.Procs[0].Rank, Phase: apiv1.StartPhase_START_EXEC, Errno: int32(syscall.EPERM), Text: why}).Frame())
}

// Served says that the job has PMI data here.
func (st *Job) Served() bool { return st.space != nil }

// Get is a value that a rank here has put.
func (st *Job) Get(rank int, key string) ([]byte, bool) {
	if st.space == nil {
		return nil, false
	}
	return st.space.LocalGet(rank, key)
}

// Await waits for a value of a rank here.
func (st *Job) Await(rank int, key, not string) ([]byte, bool, error) {
	if st.space == nil {
		return nil, false, nil
	}
	return st.space.LocalAwait(st.ctx, rank, key, not)
}

// SetPMI notes how far a rank's library has come: an end without finalize is a failure.
func (st *Job) SetPMI(rank int, state apiv1.PmiState) {
	if p := st.started(uint32(rank)); p != nil {
		p.pmi.Store(int32(state))
	}
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

// Show shows what a rank wants shown with its output in the worker's log too.
func (st *Job) Show(id int, stream job.Stream, data []byte) {
	if st.tee != nil {
		st.tee.Write(id, stream, data)
	}
}

// MachineXML is hwloc's text of the machine, as the job's ranks are handed it.
func (st *Job) MachineXML() string { return st.hint.xml }
