package agent

import (
	"errors"
	"fmt"
	"slices"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
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
	byNumber map[uint32]*step
	byBase   []*step // ascending
}

// check says whether the job of a Launch that checkLaunch has passed may join the others.
func (j *jobs) check(l *apiv1.Launch) error {
	first := j.byNumber[0]
	switch {
	case j.byNumber[l.Job.Number] != nil:
		return fmt.Errorf("launch: job %d is there already", l.Job.Number)
	case l.Job.Number > 0 && first == nil:
		return fmt.Errorf("launch of job %d before job 0", l.Job.Number)
	case first != nil && (first.launch.Exec != nil || l.Exec != nil):
		return errors.New("launch: a command is a session's only job")
	case first != nil && first.launch.Number != l.Number:
		return fmt.Errorf("launch of job %d with number %d; the session's is %d", l.Job.Number, l.Number, first.launch.Number)
	case l.Job.Spawned && j.of(l.Job.Parent) == nil:
		return fmt.Errorf("launch of job %d: process %d, which spawned it, belongs to no job", l.Job.Number, l.Job.Parent)
	case len(j.byBase) >= maxJobs:
		return fmt.Errorf("launch of more than %d jobs in one session", maxJobs)
	}
	i := j.above(l.Job.Base)
	if i > 0 && j.byBase[i-1].end() > l.Job.Base || i < len(j.byBase) && l.Job.Base+l.Job.Size > j.byBase[i].launch.Job.Base {
		return fmt.Errorf("launch of job %d: ids %d to %d belong to another job too", l.Job.Number, l.Job.Base, l.Job.Base+l.Job.Size-1)
	}
	return nil
}

// add takes a job that check has passed.
func (j *jobs) add(st *step) {
	if j.byNumber == nil {
		j.byNumber = map[uint32]*step{}
	}
	j.byNumber[st.launch.Job.Number] = st
	j.byBase = slices.Insert(j.byBase, j.above(st.launch.Job.Base), st)
}

// remove forgets a job.
func (j *jobs) remove(st *step) {
	delete(j.byNumber, st.launch.Job.Number)
	j.byBase = slices.DeleteFunc(j.byBase, func(other *step) bool { return other == st })
}

// above is the index of the first job whose ids begin above id.
func (j *jobs) above(id uint32) int {
	i, _ := slices.BinarySearchFunc(j.byBase, id, func(st *step, id uint32) int {
		if st.launch.Job.Base > id {
			return 1
		}
		return -1
	})
	return i
}

// of is the job that a process belongs to, nil for an id of none.
func (j *jobs) of(id uint32) *step {
	if i := j.above(id); i > 0 && id < j.byBase[i-1].end() {
		return j.byBase[i-1]
	}
	return nil
}

// end is the first id above those of the job.
func (st *step) end() uint32 { return st.launch.Job.Base + st.launch.Job.Size }

// id is a rank's in the run.
func (st *step) id(rank int) int { return int(st.launch.Job.Base) + rank }

// job is the session's job of a number, nil if there is none.
func (s *session) job(number uint32) *step {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.jobs.byNumber[number]
}

// jobOf is the job that a process belongs to, nil for an id of none.
func (s *session) jobOf(id uint32) *step {
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
		st.wait()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.jobs.remove(st)
	})
}

// steps is the session's jobs in the order of their ids.
func (s *session) steps() []*step {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.jobs.byBase)
}

// proc is a process here that was started, nil for any other id.
func (s *session) proc(id uint32) *proc {
	if st := s.jobOf(id); st != nil {
		return st.proc(id - st.launch.Job.Base)
	}
	return nil
}

// procs is all processes of the session that were started.
func (s *session) procs() (all []*proc) {
	for _, st := range s.steps() {
		all = append(all, st.all()...)
	}
	return all
}

// crowded says that the session's jobs have more processes here than there are processors: those
// that wait should yield.
func (s *session) crowded() bool {
	n := 0
	for _, st := range s.steps() {
		n += st.live()
	}
	return n > s.agent.cfg.Inventory.CPUs
}

// live is how many of the job's processes here run, or are to be started.
func (st *step) live() int {
	n := len(st.launch.Procs)
	for _, p := range st.all() {
		select {
		case <-p.told:
			n--
		default:
		}
	}
	return n
}
