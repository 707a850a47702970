package pmix

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/pmi/pmix/bfrops"
)

// abort is MPI_Abort; the process ends by itself once it has the answer. One that names others only
// goes on: MPI libraries do not, but clients that call PMIx_Abort may.
func (c *conn) abort(ctx context.Context, r *bfrops.Reader) (*bfrops.Writer, error) {
	code := bfrops.One[int64](r, bfrops.Status)
	text := bfrops.One[string](r, bfrops.String)
	procs := bfrops.Counted[bfrops.Proc](r, bfrops.ProcType)
	if r.Err() != nil {
		return nil, r.Err()
	}
	for _, p := range procs { // it is no time to wait for a job that may come
		if c.s.called(p.Namespace) == nil {
			return nil, errNotFound
		}
	}
	all, st := c.s.party(ctx, c, procs)
	if st != success {
		return nil, st
	}
	var targets []int // nil: the caller's job
	if len(all) != 1 || all[0].ns != c.ns || all[0].ranks != nil {
		targets = all.set().Slice()
	}
	if targets == nil || slices.Contains(targets, c.id()) {
		c.s.stop(c) // what follows is no unfinished rank
		c.ns.RankGone(c.rank, "has called MPI_Abort")
	}
	if f := c.s.cfg.Hooks.OnAbort; f != nil {
		f(ctx, c.id(), int(code), printable(text), targets)
	}
	return nil, success
}

// Aborted is told of processes, by id, that another process has ended: barriers with them are
// answered with errAborted, and are nobody's failure.
func (s *Server) Aborted(ids idset.Set) {
	s.mu.Lock()
	s.aborted = s.aborted.Union(ids)
	all := slices.Collect(maps.Values(s.jobs))
	s.mu.Unlock()
	for _, ns := range all {
		for r := range ns.Size {
			if ids.Contains(ns.Base + r) {
				ns.RankGone(r, "was ended by another process")
			}
		}
	}
}

// withoutAborted is the error of a barrier of all, which is the answer where a process of it was
// ended by another.
func (s *Server) withoutAborted(all party, err error) error {
	var st status
	if err == nil || errors.As(err, &st) {
		return err
	}
	s.mu.Lock()
	aborted := s.aborted
	s.mu.Unlock()
	if aborted.Overlaps(all.set()) {
		return errAborted
	}
	return err
}
