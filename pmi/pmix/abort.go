package pmix

import (
	"context"
	"slices"

	"github.com/mpiup/mpiup/pmi/pmix/bfrops"
)

// abort is MPI_Abort; the process ends by itself once it has the answer.
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
		c.ns.Engine.RankGone(c.rank, "has called MPI_Abort")
	}
	if f := c.s.cfg.Hooks.OnAbort; f != nil {
		f(c.id(), int(code), printable(text), targets)
	}
	return nil, success
}
