package pmix

import (
	"context"
	"slices"
	"strings"

	"github.com/mpiup/mpiup/pmi/pmix/bfrops"
	"github.com/mpiup/mpiup/pmi/pmix/modex"
)

// Scopes of values (pmix_scope_t). A client sends global values in both sections.
const (
	scopeLocal  = 1
	scopeRemote = 2
)

// commit takes in what the rank put so far. One without anything still says that it has committed. Several connections
// of a rank share what it has put.
func commit(_ context.Context, c *conn, r *bfrops.Reader) (*bfrops.Writer, error) {
	var local, remote []bfrops.KVal
	for r.More() {
		scope := bfrops.One[uint64](r, bfrops.Scope)
		pairs, err := modex.ReadPairs(r.Sub(bfrops.One[bfrops.Buffer](r, bfrops.BufferType)))
		if r.Err() != nil {
			return nil, r.Err()
		}
		if err != nil {
			return nil, err
		}
		switch scope {
		case scopeLocal:
			local = append(local, pairs...)
		case scopeRemote:
			remote = append(remote, pairs...)
		default:
			return nil, bfrops.ErrBadParam
		}
	}
	return nil, c.ns.puts.Commit(c.rank, local, remote)
}

// get answers with everything that the asked rank has committed for this host, since the client
// keeps it all and asks once per rank then. It waits for a rank that has not committed yet, and for
// a while for a key that the rank may commit later (modex). Job data of the client's own job is
// never asked for: it has it already (REQ).
func get(ctx context.Context, c *conn, r *bfrops.Reader) (w *bfrops.Writer, err error) {
	q := question{namespace: bfrops.One[string](r, bfrops.String), rank: bfrops.One[uint64](r, bfrops.ProcRank)}
	infos := r.Infos()
	if r.More() {
		q.Key = bfrops.One[string](r, bfrops.String)
	}
	if r.Err() != nil {
		return nil, r.Err()
	}
	q.Wait = !bfrops.IsTrue(infos, "pmix.immediate") && !bfrops.IsTrue(infos, "pmix.optional")
	q.Fresh = bfrops.IsTrue(infos, "pmix.get.refresh")
	q.Bounded = seconds(infos) > 0
	q.Qualifiers = slices.DeleteFunc(slices.Clone(infos), func(i bfrops.Info) bool { return i.Flags&bfrops.InfoQualifier == 0 })
	ctx, cancel := within(ctx, infos)
	defer cancel()
	ns := c.host.jobs.called(q.namespace)
	if ns == nil && q.Wait {
		ns = c.host.jobs.await(ctx, q.namespace)
	}
	if ns == nil {
		return nil, bfrops.ErrNotFound
	}
	if q.rank, err = await(ctx, c, ns, q); err != nil {
		return nil, err
	}
	if err := c.takeTurn(ctx); err != nil {
		return nil, err
	}
	q.Wait, q.Fresh = false, false // what was waited for is here, or was
	values, err := find(ctx, c, ns, q)
	if err == nil {
		var packed []byte
		if packed, err = values.Bytes(); err == nil {
			w = c.success()
			w.Group(bfrops.ByteObject, packed)
			return w, nil
		}
	}
	c.giveTurn()
	return nil, err
}

// question is what a GET asks.
type question struct {
	modex.Question
	namespace string
	rank      uint64
}

// reserved says whether the key is of the job data, which servers make: groups put keys of such a
// name for their members.
func (q *question) reserved() bool {
	return strings.HasPrefix(q.Key, "pmix.") && !strings.HasPrefix(q.Key, "pmix.grp.")
}

// await returns once there is an answer, and whose it is; status.ErrNotFound. The answer itself is looked for anew, by find: it
// may be large, and there may be many who wait.
func await(ctx context.Context, c *conn, ns *namespace, q question) (rank uint64, err error) {
	switch {
	case q.reserved() && ns == c.ns:
		return 0, bfrops.ErrNotFound
	case q.ofJob(c, ns):
		return q.rank, nil
	case q.rank == bfrops.RankUndef && q.Key != "":
		n, err := ns.puts.Anyone(ctx, q.Question)
		if err != nil {
			return 0, err
		}
		q.rank = uint64(n)
	case q.rank >= uint64(ns.Size):
		return 0, bfrops.ErrNotFound
	}
	if q.reserved() {
		return q.rank, nil
	}
	_, err = ns.puts.Section(ctx, int(q.rank), q.Question)
	if err != nil && c.host.jobs.isOver(ns) {
		err = bfrops.ErrNotFound
	}
	return q.rank, err
}

// ofJob says whether a rank of another job asks for what no rank of this one has for itself.
func (q *question) ofJob(c *conn, ns *namespace) bool {
	return q.rank >= uint64(ns.Size) && (q.reserved() || q.Key == "") && ns != c.ns
}

// find returns the process that has the answer and all its values, of a question that await has answered; status.ErrNotFound.
func find(ctx context.Context, c *conn, ns *namespace, q question) (*bfrops.Writer, error) {
	rank := int(q.rank)
	switch {
	case q.ofJob(c, ns):
		values := c.section()
		ns.PackJob(values)
		return values, nil
	case q.reserved():
		values := c.section()
		ns.PackRank(values, rank)
		return values, nil
	}
	sec, err := ns.puts.Section(ctx, rank, q.Question)
	if err != nil {
		if c.host.jobs.isOver(ns) {
			return nil, bfrops.ErrNotFound
		}
		return nil, err
	}
	values := c.section()
	values.Group(bfrops.ProcType, ns.Proc(rank))
	return values, sec.AppendTo(values, c.desc)
}
