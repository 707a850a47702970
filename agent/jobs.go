package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/mpiup/mpiup/agent/gpuwatch"
	"github.com/mpiup/mpiup/agent/ranks"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/pmi/pmix"
)

// maxJobs bounds the jobs of one session that are not over: its first and those that ranks spawned.
const maxJobs = 4096

// jobs is a session's jobs. Every process of the run has an id, the base of its job plus its rank
// there:
//
//	ids   0 ........ 7   8 .. 9   10 ....... 17
//	      job 0          job 1    job 2
//
// A job without processes on this host is there too: ranks of other jobs may ask for it. The zero
// value is empty and ready for use.
type jobs struct {
	byNumber map[uint32]*ranks.Job
	byBase   []*ranks.Job // ascending
}

// check says whether the job of a Launch that checkLaunch has passed may join the others.
func (j *jobs) check(l *apiv1.Launch) error {
	first := j.byNumber[0]
	switch {
	case j.byNumber[l.Job.Number] != nil:
		return fmt.Errorf("launch: job %d is there already", l.Job.Number)
	case l.Job.Number > 0 && first == nil:
		return fmt.Errorf("launch of job %d before job 0", l.Job.Number)
	case first != nil && (first.Launch.Exec != nil || l.Exec != nil):
		return errors.New("launch: a command is a session's only job")
	case first != nil && first.Launch.Number != l.Number:
		return fmt.Errorf("launch of job %d with number %d; the session's is %d", l.Job.Number, l.Number, first.Launch.Number)
	case l.Job.Spawned && j.of(l.Job.Parent) == nil:
		return fmt.Errorf("launch of job %d: process %d, which spawned it, belongs to no job", l.Job.Number, l.Job.Parent)
	case len(j.byBase) >= maxJobs:
		return fmt.Errorf("launch of more than %d jobs in one session", maxJobs)
	}
	i := j.above(l.Job.Base)
	if i > 0 && j.byBase[i-1].End() > l.Job.Base || i < len(j.byBase) && l.Job.Base+l.Job.Size > j.byBase[i].Launch.Job.Base {
		return fmt.Errorf("launch of job %d: ids %d to %d belong to another job too", l.Job.Number, l.Job.Base, l.Job.Base+l.Job.Size-1)
	}
	return nil
}

// add takes a job that check has passed.
func (j *jobs) add(st *ranks.Job) {
	if j.byNumber == nil {
		j.byNumber = map[uint32]*ranks.Job{}
	}
	j.byNumber[st.Launch.Job.Number] = st
	j.byBase = slices.Insert(j.byBase, j.above(st.Launch.Job.Base), st)
}

// remove forgets a job.
func (j *jobs) remove(st *ranks.Job) {
	delete(j.byNumber, st.Launch.Job.Number)
	j.byBase = slices.DeleteFunc(j.byBase, func(other *ranks.Job) bool { return other == st })
}

// above is the index of the first job whose ids begin above id.
func (j *jobs) above(id uint32) int {
	i, _ := slices.BinarySearchFunc(j.byBase, id, func(st *ranks.Job, id uint32) int {
		if st.Launch.Job.Base > id {
			return 1
		}
		return -1
	})
	return i
}

// of is the job that a process belongs to, nil for an id of none.
func (j *jobs) of(id uint32) *ranks.Job {
	if i := j.above(id); i > 0 && id < j.byBase[i-1].End() {
		return j.byBase[i-1]
	}
	return nil
}

// job is the session's job of a number, nil if there is none.
func (s *session) job(number uint32) *ranks.Job {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.jobs.byNumber[number]
}

// jobOf is the job that a process belongs to, nil for an id of none.
func (s *session) jobOf(id uint32) *ranks.Job {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.jobs.of(id)
}

// jobOver lets a spawned job go, of which nothing is left anywhere, once its output is out.
func (s *session) jobOver(o *apiv1.JobOver) {
	st := s.job(o.Job)
	if st == nil || o.Job == 0 {
		return
	}
	s.pmix.forget(o)
	s.while(func() {
		st.Wait()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.jobs.remove(st)
	})
}

// steps is the session's jobs in the order of their ids.
func (s *session) steps() []*ranks.Job {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.jobs.byBase)
}

// proc is a process here that was started, nil for any other id.
func (s *session) proc(id uint32) *ranks.Process {
	if st := s.jobOf(id); st != nil {
		return st.Process(id - st.Launch.Job.Base)
	}
	return nil
}

// procs is all processes of the session that were started.
func (s *session) procs() (all []*ranks.Process) {
	for _, st := range s.steps() {
		all = append(all, st.All()...)
	}
	return all
}

// crowded says that the session's jobs have more processes here than there are processors: those
// that wait should yield.
func (s *session) crowded() bool {
	n := 0
	for _, st := range s.steps() {
		n += st.Live()
	}
	return n > s.agent.cfg.Inventory.CPUs
}

// forJobs is the session as its jobs see it.
type forJobs struct{ *session }

func (s forJobs) Send(f *apiv1.Frame) { s.send(f) }

func (s forJobs) Lend(f *apiv1.Frame, back func()) {
	if err := s.link.Lend(f, back); err != nil {
		s.end("the launcher takes no frames: " + err.Error())
	}
}

func (s forJobs) Job(id uint32) *ranks.Job { return s.jobOf(id) }

func (s forJobs) Spawn(ctx context.Context, number int, r job.Spawn) (int, error) {
	return s.spawn(ctx, number, r)
}

func (s forJobs) PMIx(st *ranks.Job) (*pmix.Server, error) { return s.startPMIx(st) }

// sharedByJobs is what the session's jobs share.
func (s *session) sharedByJobs() *ranks.Shared {
	a := s.agent
	sh := &ranks.Shared{ID: s.id, Log: s.log, Engine: s.engine, Host: a.host, Super: a.super, Libs: a.libs, Metrics: a.metrics, Hints: &s.hints,
		Name: a.cfg.Name, Env: a.cfg.Env, Dir: a.cfg.Dir, Embedded: a.cfg.Embedded, Inventory: a.cfg.Inventory, GPUs: a.cfg.GPUs,
		Crowded: s.crowded, Variable: s.userVariable, Audit: s.auditBegin, Session: forJobs{s}}
	if a.watch != nil {
		sh.GPUUse = func() []gpuwatch.GPU { gpus, _ := a.watch.Latest(); return gpus }
	}
	return sh
}
