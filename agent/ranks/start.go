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

	"github.com/mpiup/mpiup/agent/host"
	"github.com/mpiup/mpiup/agent/outfit"
	"github.com/mpiup/mpiup/agent/reap/proctree"
	"github.com/mpiup/mpiup/agent/stdio"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/bounded"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/pmi/kvs"
)

// New makes the job's part here, which is known to other hosts' ranks before it is started.
func New(s *Shared, l *outfit.Launch, tee *stdio.Tee) *Job {
	st := &Job{
		s:      s,
		Launch: l,
		tee:    tee,
		Since:  time.Now(),
		apps:   l.Apps,
		procs:  make(map[uint32]*Process),
		noted:  make(chan struct{}),
		word:   make(chan string, 1),
		over:   make(chan struct{}),
		looks:  make(chan struct{}, maxLooks),
	}
	st.bound = sync.OnceValue(func() *outfit.Bound { return bindingOf(st) })
	// See reap.Command.SameSession; a container has a CPU cgroup. Open MPI's ranks yield where they are too many; MPICH's do
	// not, and together they would have one session's share of the CPUs for all of them.
	st.together = sync.OnceValue(func() bool {
		return l.Exec == nil && !l.Exec.GetTerminal() && s.Crowded() && s.Host.Cgroups().Autogrouped()
	})
	st.user = sync.OnceValue(func() host.Account { return host.AccountOf(bounded.Tree("/"), os.Getuid()) })
	st.ctx, st.kill = context.WithCancel(context.Background())
	st.may, st.halt = context.WithCancelCause(st.ctx)
	st.copies = st.newCopies()
	st.horovod, st.meeting = newRendezvous(st), newMeeting(st)
	if l.Exec == nil && l.Job.Pmi != apiv1.Pmi_PMI_NONE {
		st.space, st.unfit = newSpace(st)
	}
	return st
}

// newSpace is the job's PMI data on this host.
func newSpace(st *Job) (*kvs.Space, error) {
	s, l := st.s, st.Launch
	// The name is one for the job and no other's: a launcher's sessions begin alike on all hosts.
	j := kvs.Job{Number: int(l.Job.Number), Base: int(l.Job.Base), Size: int(l.Job.Size), Local: st.RanksHere(), KVSName: "mpiup-" + s.ID[:16]}
	if l.Job.Number > 0 {
		j.KVSName += "-" + strconv.FormatUint(uint64(l.Job.Number), 10)
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
	st.memory = newMemory(st.s.Host.Cgroups(), proctree.Proc{Root: "/proc"}, os.Getpid(), st.firstProcesses)
	if err := st.receive(); err != nil {
		if !st.isStopped() {
			failed := startFailed(st.first(), err)
			failed.Phase = apiv1.StartPhase_START_COPY
			st.send(failed.Frame())
		}
		return
	}
	if failed := st.checkpoints(); failed != nil {
		st.send(failed.Frame())
		return
	}
	dirs := st.directories()
	st.holdDirs(dirs)
	st.choose(dirs)
	err := st.prepare()
	if err == nil {
		err = st.horovod.open(st, dirs)
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
	if l.Job.MemoryMs > 0 && len(l.Procs) > 0 && l.Exec == nil && l.Job.Explain == 0 {
		st.wg.Go(func() { watchMemory(st) })
	}
	if st.Waits != nil {
		every := time.Duration(l.Job.WatchMs) * time.Millisecond
		st.wg.Go(func() { st.Waits.Tell(st.ctx, every, st.leaders, st.send) })
	}
	if st.trails != nil {
		st.wg.Go(func() { st.trails.Tell(st.ctx, time.Second, st.send) })
	}
	if st.meeting != nil {
		st.wg.Go(st.meeting.watch)
	}
	stdin := make(map[uint32]bool, len(l.Stdin))
	for _, id := range l.Stdin {
		stdin[id] = l.Job.Number == 0
	}
	for _, p := range l.Procs {
		if st.isStopped() {
			return
		}
		pr := newProc(st, p, dirs[p.App], st.held[p.App], stdin[l.Job.Base+p.Rank])
		if err := pr.start(); err != nil && !st.isStopped() {
			failed := startFailed(pr.ID, err)
			failed.Search, failed.Venv = pr.searched, pr.venv
			st.send(failed.Frame())
			return
		}
	}
}

// unprepared tells the launcher why nothing can be started here; where nothing was to be, ranks of
// other jobs cannot reach the job from here.
func (st *Job) unprepared(err error) {
	if len(st.Launch.Procs) == 0 {
		st.s.Notice(true, "job %d: %v", st.Launch.Job.Number, err)
		return
	}
	st.send(startFailed(st.first(), err).Frame())
}

// prepare makes what the ranks share: the servers of the protocols that they speak, and a port when
// they want one.
func (st *Job) prepare() error {
	l := st.Launch
	if len(l.Procs) > 0 {
		st.s.Audit(l.Launch, false)
	}
	st.hint = hintFor(st)
	var err error
	if err := dress(st); err != nil {
		return err
	}
	switch {
	case st.unfit != nil:
		return fmt.Errorf("PMI: %w", st.unfit)
	case st.space == nil || len(l.Procs) == 0:
		return nil
	}
	if l.Job.Size > 1 {
		st.wg.Go(func() { watchUnspoken(st) })
		if !l.Job.AloneOk {
			st.wg.Go(func() { watchAlone(st) })
		}
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
		st.server = newPMI(st)
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
			st.s.Notice(true, "the launcher's working directory %s is not there (%v), so %s is used; set --wdir to choose",
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

// Refuse takes the place of start in a job of which nothing is started, as if its program were not there.
func (st *Job) Refuse(why string) {
	defer st.Cancel()
	st.send((&apiv1.StartFailed{Rank: st.first(), Phase: apiv1.StartPhase_START_EXEC, Errno: int32(syscall.EPERM), Text: why}).Frame())
}
