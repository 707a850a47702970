package pmix

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mpiup/mpiup/pmi/pmix/bfrops"
)

// namespace is a job as the server keeps it.
type namespace struct {
	Job
	cfg    *Config
	local  map[int]int   // local rank (place on its host) of this host's ranks
	ranks  map[int]*rank // this host's; guarded by Server.mu in what they point to
	parent bfrops.Proc   // that spawned it, where Parent is set
	data   jobData

	over   bool    // guarded by Server.mu; no process of it is left anywhere
	mute   bool    // guarded by Server.mu; and none had connected
	caller *caller // guarded by Server.mu; nil: no rank of this host waits for its call
}

// Add makes a job known, before its ranks start. Jobs without a rank here are added as well, so
// that ranks here can connect to them. It fails on a job that no launcher would send.
func (s *Server) Add(job Job) error {
	if err := job.validate(); err != nil {
		return err
	}
	ns := &namespace{Job: job, cfg: &s.cfg, local: map[int]int{}, ranks: map[int]*rank{}}
	ns.data.job = ns
	if job.Here >= 0 {
		for i, r := range job.Hosts[job.Here].Ranks {
			ns.local[r] = i
			ns.ranks[r] = &rank{}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return errors.New("the PMIx server has ended")
	}
	for _, other := range s.jobs {
		if other.Number == job.Number || other.Namespace == job.Namespace {
			return fmt.Errorf("PMIx job %d is known already", job.Number)
		}
	}
	if p := job.Parent; p != nil {
		parent := s.jobs[p.Job]
		if parent == nil || p.Rank < 0 || p.Rank >= parent.Size {
			return fmt.Errorf("PMIx job %d was spawned by rank %d of job %d, which is not known", job.Number, p.Rank, p.Job)
		}
		ns.parent = parent.proc(p.Rank)
	}
	s.jobs[job.Number] = ns
	close(s.added)
	s.added = make(chan struct{})
	if job.Here >= 0 {
		s.work.Go(func() { ns.data.packed(jobDataKind{dialect: bfrops.Canonical()}) }) // before the first rank asks
	}
	return nil
}

// gone wakes who waits for what only a process that is gone could have committed.
func (s *Server) gone(id int, _ string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, ns := range s.jobs {
		if rk := ns.ranks[id-ns.Base]; rk != nil {
			rk.wake()
		}
	}
}

func (s *Server) job(number int) *namespace {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ns := s.jobs[number]; ns != nil {
		return ns
	}
	if i := slices.IndexFunc(s.ended, func(ns *namespace) bool { return ns.Number == number }); i >= 0 {
		return s.ended[i]
	}
	return nil
}

// called finds a job by its namespace, in a time that does not tell a stranger how much of a
// guess is right.
func (s *Server) called(name string) *namespace {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calledLocked(name)
}

func (s *Server) calledLocked(name string) (found *namespace) {
	look := func(ns *namespace) {
		if subtle.ConstantTimeCompare([]byte(ns.Namespace), []byte(name)) == 1 {
			found = ns
		}
	}
	for _, ns := range s.jobs {
		look(ns)
	}
	for _, ns := range s.ended {
		look(ns)
	}
	return found
}

// addTime bounds the wait for a job that another host knows already.
const addTime = 10 * time.Second

// await is called for a namespace that a rank names: the launcher may have told another host of
// the job first. nil after addTime, or when ctx ends.
func (s *Server) await(ctx context.Context, namespace string) *namespace {
	t := time.NewTimer(addTime)
	defer t.Stop()
	for {
		s.mu.Lock()
		ns, added := s.calledLocked(namespace), s.added
		s.mu.Unlock()
		if ns != nil {
			return ns
		}
		select {
		case <-added:
		case <-t.C:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

// proc names a process of the run; false if no job has it.
func (s *Server) proc(id int) (bfrops.Proc, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, ns := range s.jobs {
		if ns.has(id) {
			return ns.proc(id - ns.Base), true
		}
	}
	return bfrops.Proc{}, false
}

func (ns *namespace) proc(rank int) bfrops.Proc {
	return bfrops.Proc{Namespace: ns.Namespace, Rank: uint32(rank)}
}

// Who is a rank in an error.
type Who struct {
	ID        int // in the run
	Job, Rank int
}

// String says the rank of the first job as users know it.
func (w Who) String() string {
	if w.Job == 0 {
		return fmt.Sprintf("rank %d", w.Rank)
	}
	return fmt.Sprintf("rank %d of spawned job %d", w.Rank, w.Job)
}

func (ns *namespace) who(rank int) Who { return Who{ns.Base + rank, ns.Number, rank} }
