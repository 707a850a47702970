package pmix

import (
	"context"
	"crypto/subtle"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/mpiup/mpiup/internal/awake"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/pmi/kvs"
	"github.com/mpiup/mpiup/pmi/pmix/bfrops"
	"github.com/mpiup/mpiup/pmi/pmix/jobdata"
	"github.com/mpiup/mpiup/pmi/pmix/modex"
)

// namespace is a job as the server keeps it.
type namespace struct {
	jobdata.Job
	span   job.Span
	number int
	space  *kvs.Space
	puts   *modex.Job
	told   told

	over   bool    // guarded by jobs.mu; no process of it is left anywhere
	mute   bool    // guarded by jobs.mu; and none had connected
	caller *caller // guarded by jobs.mu; nil: no rank of this host waits for its call
}

// caller is the rank that spawned a job, and where it waits for the job's first call.
type caller struct {
	*jobdata.Caller
	who   modex.Process
	asked job.Process
}

// newNamespace fails on a job that no launcher would send.
func newNamespace(j Job, machine jobdata.Machine, log *slog.Logger) (*namespace, error) {
	if j.Space == nil {
		return nil, fmt.Errorf("a PMIx job without a key-value space")
	}
	j.Size = j.Space.Size
	if err := j.Validate(); err != nil {
		return nil, err
	}
	ns := &namespace{Job: j.Job, number: j.Space.Number, span: job.Span{Base: j.Space.Base, Size: j.Size}, space: j.Space}
	ns.puts = modex.New(j.Space, log.With("job", ns.number))
	ns.told = told{job: &ns.Job, machine: machine}
	return ns, nil
}

// process is a rank as names know it.
func (ns *namespace) process(rank int) modex.Process {
	return modex.Process{ID: ns.span.Base + rank, Job: ns.number, Proc: ns.Proc(rank)}
}

// told is a job's name and what ranks are told of it, packed once for each dialect and kind of buffer that clients of this host use.
type told struct {
	job     *jobdata.Job
	machine jobdata.Machine

	mu   sync.Mutex
	made map[toldAs][]byte // guarded by mu
}

type toldAs struct {
	dialect *bfrops.Dialect
	desc    bool
	others  bool // for ranks of other jobs: without what is theirs already
}

func (t *told) packed(k toldAs) ([]byte, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if b, ok := t.made[k]; ok {
		return b, nil
	}
	w, machine := bfrops.NewWriter(k.dialect, k.desc, nil), &t.machine
	if k.others {
		machine = nil
	}
	w.Group(bfrops.String, t.job.Namespace)
	t.job.Pack(w, machine)
	b, err := w.Bytes()
	if err != nil {
		return nil, err
	}
	if t.made == nil {
		t.made = map[toldAs][]byte{}
	}
	t.made[k] = b
	return b, nil
}

// jobs are those of the run. newJobs makes them.
type jobs struct {
	mu      sync.Mutex
	running map[int]*namespace // guarded by mu; by number
	ended   []*namespace       // guarded by mu; the last that are over, oldest first
	added   chan struct{}      // guarded by mu; closed and replaced when a job is added
}

// maxEnded is how many jobs that are over can still be asked for: who spawned them, or had connected
// to them, may be slow. A run may have many thousands.
const maxEnded = 64

func newJobs() jobs { return jobs{running: map[int]*namespace{}, added: make(chan struct{})} }

// add makes a job known. Who spawned it is known already.
func (j *jobs) add(ns *namespace, by *job.Process) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, other := range j.running {
		if other.number == ns.number || other.Namespace == ns.Namespace {
			return fmt.Errorf("PMIx job %d is known already", ns.number)
		}
	}
	if by != nil {
		parent := j.running[by.Job]
		if parent == nil || by.Rank < 0 || by.Rank >= parent.Size {
			return fmt.Errorf("PMIx job %d was spawned by rank %d of job %d, which is not known", ns.number, by.Rank, by.Job)
		}
		ns.Parent = parent.Proc(by.Rank)
	}
	j.running[ns.number] = ns
	close(j.added)
	j.added = make(chan struct{})
	return nil
}

// end moves a job to those that are over, and returns it and who waits for its call; nil: it is not known, or is over.
func (j *jobs) end(number int, mute bool) (*namespace, *caller) {
	j.mu.Lock()
	defer j.mu.Unlock()
	ns := j.running[number]
	if ns == nil {
		return nil, nil
	}
	delete(j.running, number)
	if j.ended = append(j.ended, ns); len(j.ended) > maxEnded {
		j.ended = slices.Delete(j.ended, 0, 1)
	}
	ns.over, ns.mute = true, mute
	return ns, ns.caller
}

// isOver says whether end was called for the job.
func (j *jobs) isOver(ns *namespace) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return ns.over
}

// expectCall notes who waits for the first call of a job that it has spawned. late: the job has ended without one.
func (j *jobs) expectCall(ns *namespace, by *caller) (late bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	ns.caller = by
	return ns.mute
}

// numbered finds a job by its number, also one that is over; nil: it is not known.
func (j *jobs) numbered(number int) *namespace {
	j.mu.Lock()
	defer j.mu.Unlock()
	if ns := j.running[number]; ns != nil {
		return ns
	}
	if i := slices.IndexFunc(j.ended, func(ns *namespace) bool { return ns.number == number }); i >= 0 {
		return j.ended[i]
	}
	return nil
}

// called finds a job by its namespace, in a time that does not tell a stranger how much of a
// guess is right.
func (j *jobs) called(name string) *namespace {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.calledLocked(name)
}

func (j *jobs) calledLocked(name string) (found *namespace) {
	for _, ns := range slices.AppendSeq(slices.Clone(j.ended), maps.Values(j.running)) {
		if subtle.ConstantTimeCompare([]byte(ns.Namespace), []byte(name)) == 1 {
			found = ns
		}
	}
	return found
}

// addTime bounds the wait for a job that another host knows already.
const addTime = 10 * time.Second

// await is called for a namespace that a rank names: the launcher may have told another host of
// the job first. nil after addTime, or when ctx ends.
func (j *jobs) await(ctx context.Context, namespace string) *namespace {
	ctx, cancel := awake.Within(ctx, addTime)
	defer cancel()
	for {
		j.mu.Lock()
		ns, added := j.calledLocked(namespace), j.added
		j.mu.Unlock()
		if ns != nil {
			return ns
		}
		select {
		case <-added:
		case <-ctx.Done():
			return nil
		}
	}
}

// inOrder is the run's jobs, in the order of their numbers.
func (j *jobs) inOrder() []*namespace {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.SortedFunc(maps.Values(j.running), func(a, b *namespace) int { return a.number - b.number })
}

// of is the job that a process belongs to; nil: no job has it.
func (j *jobs) of(id int) *namespace {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, ns := range j.running {
		if ns.span.Has(id) {
			return ns
		}
	}
	return nil
}
