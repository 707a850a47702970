package pmix

import (
	"context"
	"strconv"
	"strings"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/pmi/pmix/bfrops"
	"github.com/mpiup/mpiup/pmi/pmix/modex"
)

// fence returns when all its ranks are in, and their data is here if it collects. Over several jobs
// nothing is collected: what is asked for is fetched.
func fence(ctx context.Context, c *conn, r *bfrops.Reader) (*bfrops.Writer, error) {
	if _, err := barrier(ctx, c, r, true); err != nil {
		return nil, err
	}
	return nil, bfrops.Success
}

// barrier reads a list of processes and attributes, and is over when all of them are in it.
func barrier(ctx context.Context, c *conn, r *bfrops.Reader, mayCollect bool) (party, error) {
	procs := bfrops.Counted[bfrops.Proc](r, bfrops.ProcType)
	infos := r.Infos()
	if r.Err() != nil {
		return nil, r.Err()
	}
	ctx, cancel := within(ctx, infos)
	defer cancel()
	all, st := c.host.jobs.partyOf(ctx, c.ns, procs)
	if st != bfrops.Success {
		return nil, st
	}
	return all, meet(ctx, c, all, "", mayCollect && bfrops.IsTrue(infos, "pmix.collect"))
}

// meet enters c's rank into the barrier of a party and waits for it. Barriers of one set with
// different tags are apart. A rank whose threads are in several of one tag is in one after the
// other: all its ranks enter as many.
func meet(ctx context.Context, c *conn, all party, tag string, collect bool) error {
	if !all.has(c.ns, c.rank) {
		return bfrops.ErrBadParam
	}
	var set idset.Set // empty: the whole job
	if len(all) > 1 || all[0].ranks != nil {
		set = all.set()
	}
	release, err := c.host.turns.Take(ctx, turn{c.id(), set.String() + "#" + tag})
	if err != nil {
		return err
	}
	defer release()
	return c.host.withoutAborted(all.set, c.ns.space.Fence(ctx, c.rank, set, tag, collect))
}

// connect is a barrier of the listed processes, in any order on each side. Each client is told
// about the jobs of the others: that is all the difference that being connected makes.
func connect(ctx context.Context, c *conn, r *bfrops.Reader) (*bfrops.Writer, error) {
	all, err := barrier(ctx, c, r, false)
	if err != nil {
		return nil, err
	}
	w := c.success()
	for _, m := range all {
		if m.ns == c.ns {
			continue
		}
		about, err := m.ns.told.packed(toldAs{c.dialect, c.desc, true})
		if err != nil {
			return nil, err
		}
		w.Group(bfrops.ByteObject, about)
	}
	return w, nil
}

func disconnect(ctx context.Context, c *conn, r *bfrops.Reader) (*bfrops.Writer, error) {
	_, err := barrier(ctx, c, r, false)
	if err != nil {
		return nil, err
	}
	return nil, bfrops.Success
}

// constructGroup is a barrier of the members (MPI sessions). All get one context id. Members list all
// members: groups whose leaders add the others (libpmix 5 and later), who list none, are refused.
func constructGroup(ctx context.Context, c *conn, r *bfrops.Reader) (*bfrops.Writer, error) {
	name := bfrops.One[string](r, bfrops.String)
	procs := bfrops.Counted[bfrops.Proc](r, bfrops.ProcType)
	infos := r.Infos()
	if r.Err() != nil {
		return nil, r.Err()
	}
	if len(procs) == 0 || has(infos, "pmix.grp.btstrp") || has(infos, "pmix.grp.add") {
		return nil, bfrops.ErrNotSupported
	}
	ctx, cancel := within(ctx, infos)
	defer cancel()
	all, st := c.host.jobs.partyOf(ctx, c.ns, procs)
	if st != bfrops.Success {
		return nil, st
	}
	var number uint64
	room, ids := false, all.set()
	c.host.withGroups(func(g *modex.Groups) { number, room = g.ContextID(c.id(), name, all[0].ns.Namespace, ids) })
	if !room {
		return nil, bfrops.ErrOutOfResource
	}
	if shared := modex.Shared(number, infos); len(shared) > 0 {
		if err := c.ns.puts.Share(c.rank, shared); err != nil {
			return nil, err
		}
	}
	if err := meet(ctx, c, all, modex.Tag(name), false); err != nil {
		return nil, err
	}
	c.host.withGroups(func(g *modex.Groups) { g.Joined(name, ids, c.id()) })
	if err := c.takeTurn(ctx); err != nil {
		return nil, err
	}
	w := c.success()
	major := majorVersion(c.version)
	if major >= 5 {
		bfrops.PutCounted(w, bfrops.ProcType, all.procs())
	}
	if major >= 6 {
		w.Group(bfrops.Bool, true)
	}
	w.Group(bfrops.Size, number)
	return w, nil
}

// destructGroup has nothing to undo but that the group is known: it is its members' business.
func destructGroup(_ context.Context, c *conn, r *bfrops.Reader) (*bfrops.Writer, error) {
	name := bfrops.One[string](r, bfrops.String)
	if r.Err() != nil {
		return nil, r.Err()
	}
	c.host.withGroups(func(g *modex.Groups) { g.Quit(name, c.id()) })
	return nil, bfrops.Success
}

func majorVersion(version string) int {
	major, _, _ := strings.Cut(version, ".")
	n, _ := strconv.Atoi(major)
	return n
}

func has(infos []bfrops.Info, key string) bool {
	_, ok := bfrops.Attribute(infos, key)
	return ok
}
