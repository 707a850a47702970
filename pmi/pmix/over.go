package pmix

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/mpiup/mpiup/pmi/kvs"
	"github.com/mpiup/mpiup/pmi/pmix/bfrops"
)

// maxEnded is how many jobs that are over can still be asked for: who spawned them, or had connected
// to them, may be slow. A run may have many thousands.
const maxEnded = 64

// caller is the rank that spawned a job, and where it waits for the job's first call.
type caller struct {
	who     process
	port    string
	ompi5   bool   // it reads lists of processes as Open MPI 5 writes them
	program string // for people
	asked   Who
}

// JobOver is told of a job of which no process is left on any host: what it held is let go. mute says
// that none of its processes ever connected.
func (s *Server) JobOver(number int, mute bool) {
	s.mu.Lock()
	ns := s.jobs[number]
	if ns == nil {
		s.mu.Unlock()
		return
	}
	delete(s.jobs, number)
	if s.ended = append(s.ended, ns); len(s.ended) > maxEnded {
		s.ended = slices.Delete(s.ended, 0, 1)
	}
	ns.over, ns.mute = true, mute
	by := ns.caller
	for k := range s.group {
		if ns.has(k.id) {
			delete(s.group, k)
		}
	}
	s.known.forget(ns)
	s.mu.Unlock()
	s.start(func() {
		if by != nil && mute {
			s.callForJob(s.ctx, by)
		}
		for r := range ns.ranks {
			s.names.ended(s.ctx, ns.Base+r)
		}
		if err := s.cleanupOf(number); err != nil {
			s.log.Info("what ranks asked to be removed", "job", number, "cause", err)
		}
	})
}

// has says whether a process is of the job.
func (ns *namespace) has(id int) bool { return id >= ns.Base && id < ns.Base+ns.Size }

// isOver says whether JobOver was told of the job.
func (s *Server) isOver(ns *namespace) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return ns.over
}

// expectCall notes who waits for the first call of a job that it has spawned. A program that is not
// MPI's never calls, and would be waited for without end, as under mpirun.
func (s *Server) expectCall(ctx context.Context, ns *namespace, by *caller) {
	s.mu.Lock()
	ns.caller = by
	late := ns.mute
	s.mu.Unlock()
	if late {
		s.callForJob(ctx, by)
	}
}

// callForJob answers in place of a job that has ended without a call: MPI_Comm_spawn fails.
func (s *Server) callForJob(ctx context.Context, by *caller) {
	if f := s.cfg.Hooks.OnLog; f != nil {
		f(by.who.id, true, printable(fmt.Sprintf("mpiup: MPI_Comm_spawn of %.200s by %s: it has ended without MPI_Init\n", by.program, by.asked)))
	}
	if err := s.release(ctx, by); err != nil {
		s.log.Info("MPI_Comm_spawn", "id", by.who.id, "cause", err)
	}
}

// The name of no job: to connect with it fails at once. Open MPI 4 needs a number for it, which no
// job's is: it makes them from hashes of names, without the highest bit (OPAL_HASH_JOBID of
// opal/mca/pmix/base/base.h would have it clear).
const (
	refusedNamespace = "mpiup-refused"
	refusedNumber    = "4294901760"
)

// release answers at the port in place of new ranks, with a list of processes that is one of no job:
// the root of the spawn takes it and tells the others, and all of them fail to connect with it
// (ompi_dpm_connect_accept of ompi/dpm/dpm.c).
func (s *Server) release(ctx context.Context, by *caller) error {
	list := refusedNumber + ".0:" + refusedNamespace
	if by.ompi5 {
		list = refusedNamespace + ".0"
	}
	err := s.names.publish(ctx, reachProc, by.who, publication{
		data:    bfrops.PData{Proc: by.who.Proc, Key: by.port + ":connect", Value: bfrops.Value{Type: bfrops.String, Data: list}},
		persist: persistFirstRead,
	})
	if errors.Is(err, kvs.ErrExists) {
		return nil
	}
	return err
}

// ended takes back what a rank of a job that is over has published for as long as the job lives.
func (n *names) ended(ctx context.Context, id int) {
	if err := n.unpublishAll(ctx, id, func(persist uint64) bool { return persist == persistProc || persist == persistApp }); err != nil {
		return // the run ends
	}
	n.mu.Lock()
	delete(n.mine, id)
	n.mu.Unlock()
}
