package pmix

import (
	"context"
	"fmt"
	"slices"

	"github.com/mpiup/mpiup/pmi/pmix/bfrops"
)

// fence returns when all its ranks are in, and their data is here if it collects.
func (c *conn) fence(ctx context.Context, r *bfrops.Reader) (*bfrops.Writer, error) {
	return c.barrier(ctx, r, true)
}

// connect and disconnect are barriers of the listed processes, in any order on each side. Of one
// namespace nothing more is to be told: other namespaces come with spawning.
func (c *conn) connect(ctx context.Context, r *bfrops.Reader) (*bfrops.Writer, error) {
	return c.barrier(ctx, r, false)
}

func (c *conn) barrier(ctx context.Context, r *bfrops.Reader, mayCollect bool) (*bfrops.Writer, error) {
	procs := bfrops.Counted[bfrops.Proc](r, bfrops.ProcType)
	infos := r.Infos()
	if r.Err() != nil {
		return nil, r.Err()
	}
	set, st := c.s.members(procs)
	if st != success {
		return nil, st
	}
	ctx, cancel := within(ctx, infos)
	defer cancel()
	if err := c.s.meet(ctx, c.rank, set, mayCollect && isTrue(infos, "pmix.collect")); err != nil {
		return nil, err
	}
	return nil, success
}

// meet enters rank into the fence of set and waits for it. A rank whose threads are in several
// barriers of one set is in one after the other: all its ranks enter as many.
func (s *Server) meet(ctx context.Context, rank int, set []int, collect bool) error {
	name := ""
	if set != nil {
		slices.Sort(set)
		name = fmt.Sprint(set)
	}
	release, err := s.turns.Take(ctx, turn{rank, name})
	if err != nil {
		return err
	}
	defer release()
	return s.job.Engine.Fence(ctx, rank, set, collect)
}

// turn is a rank's place in the barriers of one set.
type turn struct {
	rank int
	set  string
}
