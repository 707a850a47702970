package pmix

import (
	"context"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/pmi/pmix/bfrops"
)

// fence returns when all its ranks are in, and their data is here if it collects. Over several jobs
// nothing is collected: what is asked for is fetched.
func (c *conn) fence(ctx context.Context, r *bfrops.Reader) (*bfrops.Writer, error) {
	if _, err := c.barrier(ctx, r, true); err != nil {
		return nil, err
	}
	return nil, success
}

// barrier reads a list of processes and attributes, and is over when all of them are in it.
func (c *conn) barrier(ctx context.Context, r *bfrops.Reader, mayCollect bool) (party, error) {
	procs := bfrops.Counted[bfrops.Proc](r, bfrops.ProcType)
	infos := r.Infos()
	if r.Err() != nil {
		return nil, r.Err()
	}
	ctx, cancel := within(ctx, infos)
	defer cancel()
	all, st := c.s.party(ctx, c, procs)
	if st != success {
		return nil, st
	}
	return all, c.meet(ctx, all, "", mayCollect && isTrue(infos, "pmix.collect"))
}

// turn is a process's place in the barriers of one set and tag.
type turn struct {
	id  int
	set string
}

// meet enters c's rank into the barrier of a party and waits for it. Barriers of one set with
// different tags are apart. A rank whose threads are in several of one tag is in one after the
// other: all its ranks enter as many.
func (c *conn) meet(ctx context.Context, all party, tag string, collect bool) error {
	if !all.has(c.ns, c.rank) {
		return errBadParam
	}
	var set idset.Set // empty: the whole job
	if len(all) > 1 || all[0].ranks != nil {
		set = all.set()
	}
	release, err := c.s.turns.Take(ctx, turn{c.id(), set.String() + "#" + tag})
	if err != nil {
		return err
	}
	defer release()
	return c.s.withoutAborted(all, c.ns.Fence(ctx, c.rank, set, tag, collect))
}
