package ranks

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/mpiup/mpiup/agent/host"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/job"
)

// maxJobs bounds the jobs of one session that are not over: its first and those that ranks spawned.
const maxJobs = 4096

// Jobs are those of one session. A job without processes on this host is there too: ranks of other jobs may ask for it. The zero
// value is empty and ready for use, by several goroutines.
type Jobs struct {
	mu       sync.Mutex
	byNumber map[uint32]*Job // guarded by mu
	byID     job.Table[*Job] // guarded by mu
}

// Check says why the job of a Launch, whose numbers are within bounds, may not join the others; nil: it may.
func (j *Jobs) Check(l *apiv1.Launch) error {
	j.mu.Lock()
	defer j.mu.Unlock()
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
	case l.Job.Spawned && j.byID.Of(int(l.Job.Parent)) == nil:
		return fmt.Errorf("launch of job %d: process %d, which spawned it, belongs to no job", l.Job.Number, l.Job.Parent)
	case len(j.byID) >= maxJobs:
		return fmt.Errorf("launch of more than %d jobs in one session", maxJobs)
	}
	if !j.byID.Free(span(l.Job)) {
		return fmt.Errorf("launch of job %d: ids %d to %d belong to another job too", l.Job.Number, l.Job.Base, l.Job.Base+l.Job.Size-1)
	}
	return nil
}

// Add takes a job that Check has passed.
func (j *Jobs) Add(st *Job) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.byNumber == nil {
		j.byNumber = map[uint32]*Job{}
	}
	j.byNumber[st.Launch.Job.Number] = st
	j.byID.Add(st)
}

// Remove forgets a job.
func (j *Jobs) Remove(st *Job) {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.byNumber, st.Launch.Job.Number)
	j.byID.Remove(st)
}

// Of is the job that a process belongs to, nil for an id of none.
func (j *Jobs) Of(id uint32) *Job {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.byID.Of(int(id))
}

// Number is the job of a number, nil if there is none.
func (j *Jobs) Number(n uint32) *Job {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.byNumber[n]
}

// All is the jobs in the order of their ids.
func (j *Jobs) All() []*Job {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.byID)
}

// Process is a process here that was started, nil for any other id.
func (j *Jobs) Process(id uint32) *Process {
	if st := j.Of(id); st != nil {
		return st.Process(id - st.Launch.Job.Base)
	}
	return nil
}

// Tag is a process as the launcher tags its output: its rank, of a spawned job with the job's number before it.
func (j *Jobs) Tag(id int) string {
	p := job.Process{Rank: id}
	if st := j.Of(uint32(id)); st != nil {
		p = job.Process{Job: int(st.Launch.Job.Number), Rank: id - int(st.Launch.Job.Base)}
	}
	return p.Tag()
}

// Processes is all processes of the session that were started.
func (j *Jobs) Processes() (all []*Process) {
	for _, st := range j.All() {
		all = append(all, st.All()...)
	}
	return all
}

// Crowded says that the session has more processes here, or that are to be started, than there are processors: those that wait should yield.
func (s *Shared) Crowded() bool {
	n := 0
	for _, st := range s.Jobs.All() {
		n += st.Live()
	}
	return n > s.Inventory.CPUs
}

// Variable is what the user exported for the command line's programs, else the container's.
func (s *Shared) Variable(name string) string {
	var exported []string
	if first := s.Jobs.Number(0); first != nil && len(first.Launch.Apps) > 0 {
		exported = first.Launch.Apps[0].Env
	}
	value, _ := host.Lookup(name, exported, s.Env)
	return value
}
