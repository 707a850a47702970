package pmix

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/mpiup/mpiup/pmi/pmix/bfrops"
)

// get answers with everything that the asked rank has committed for this host, since the client
// keeps it all and asks once per rank then. It waits for a rank that has not committed yet, and for
// a while for a key that the rank may commit later (sectionOf). Job data of the client's own job is
// never asked for: it has it already (REQ).
func (c *conn) get(ctx context.Context, r *bfrops.Reader) (w *bfrops.Writer, err error) {
	q := question{namespace: bfrops.One[string](r, bfrops.String), rank: bfrops.One[uint64](r, bfrops.ProcRank)}
	infos := r.Infos()
	if r.More() {
		q.key = bfrops.One[string](r, bfrops.String)
	}
	if r.Err() != nil {
		return nil, r.Err()
	}
	q.wait = !isTrue(infos, "pmix.immediate") && !isTrue(infos, "pmix.optional")
	q.fresh = isTrue(infos, "pmix.get.refresh")
	q.bounded = seconds(infos) > 0
	q.qualifiers = slices.DeleteFunc(slices.Clone(infos), func(i bfrops.Info) bool { return i.Flags&bfrops.InfoQualifier == 0 })
	ctx, cancel := within(ctx, infos)
	defer cancel()
	ns := c.s.called(q.namespace)
	if ns == nil && q.wait {
		ns = c.s.await(ctx, q.namespace)
	}
	if ns == nil {
		return nil, errNotFound
	}
	if q.rank, err = c.s.wait(ctx, c, ns, q); err != nil {
		return nil, err
	}
	if err := c.takeTurn(ctx); err != nil {
		return nil, err
	}
	q.wait, q.fresh = false, false // what was waited for is here, or was
	values, err := c.s.find(ctx, c, ns, q)
	if err == nil {
		var packed []byte
		if packed, err = values.Bytes(); err == nil {
			w = c.writer()
			w.Status(int(success))
			w.Group(bfrops.ByteObject, packed)
			return w, nil
		}
	}
	c.giveTurn()
	return nil, err
}

// question is what a GET asks.
type question struct {
	namespace  string
	rank       uint64
	key        string // "": everything
	qualifiers []bfrops.Info
	wait       bool // for the rank to commit
	bounded    bool // the client says for how long
	fresh      bool // what is here may be old
}

// reserved says whether the key is of the job data, which servers make: groups put keys of such a
// name for their members.
func (q *question) reserved() bool {
	return strings.HasPrefix(q.key, "pmix.") && !strings.HasPrefix(q.key, "pmix.grp.")
}

// wait returns once there is an answer, and whose it is; errNotFound. The answer itself is looked for anew, by find: it
// may be large, and there may be many who wait.
func (s *Server) wait(ctx context.Context, c *conn, ns *namespace, q question) (rank uint64, err error) {
	switch {
	case q.reserved() && ns == c.ns:
		return 0, errNotFound
	case ns.isJobLevel(c, q):
		return q.rank, nil
	case q.rank == bfrops.RankUndef && q.key != "":
		n, err := s.anyone(ctx, ns, q)
		if err != nil {
			return 0, err
		}
		q.rank = uint64(n)
	case q.rank >= uint64(ns.Size):
		return 0, errNotFound
	}
	if q.reserved() {
		return q.rank, nil
	}
	_, err = s.sectionOf(ctx, ns, int(q.rank), q)
	if err != nil && s.isOver(ns) {
		err = errNotFound
	}
	return q.rank, err
}

// isJobLevel says whether a rank of another job asks for what no rank of this one has for itself.
func (ns *namespace) isJobLevel(c *conn, q question) bool {
	return q.rank >= uint64(ns.Size) && (q.reserved() || q.key == "") && ns != c.ns
}

// find returns the process that has the answer and all its values, of a question that wait has answered; errNotFound.
func (s *Server) find(ctx context.Context, c *conn, ns *namespace, q question) (*bfrops.Writer, error) {
	rank := int(q.rank)
	switch {
	case ns.isJobLevel(c, q):
		return ns.jobLevel(c), nil
	case q.reserved():
		return ns.rankLevel(c, rank), nil
	}
	sec, err := s.sectionOf(ctx, ns, rank, q)
	if err != nil {
		if s.isOver(ns) {
			return nil, errNotFound
		}
		return nil, err
	}
	values := c.section()
	values.Group(bfrops.ProcType, ns.proc(rank))
	return values, sec.appendTo(values, c.desc)
}

// jobLevel is what is true of a job as a whole, and of each of its ranks, for ranks of others.
func (ns *namespace) jobLevel(c *conn) *bfrops.Writer {
	w := c.section()
	w.Group(bfrops.ProcType, bfrops.Proc{Namespace: ns.Namespace, Rank: bfrops.RankWildcard})
	ns.packJob(w)
	ns.packOwnHost(w)
	for i := range ns.Hosts {
		w.KVal("pmix.node.arr", bfrops.DataArray, ns.hostArray(i))
	}
	ns.packApps(w)
	for p := range ns.places() {
		infos := []bfrops.Info{info("pmix.rank", bfrops.ProcRank, uint64(p.rank))}
		for _, v := range ns.rankValues(p) {
			infos = append(infos, info(v.Key, v.Value.Type, v.Value.Data))
		}
		w.KVal("pmix.pdata", bfrops.DataArray, bfrops.NewInfos(infos...))
	}
	return w
}

// rankLevel is what is true of one rank.
func (ns *namespace) rankLevel(c *conn, rank int) *bfrops.Writer {
	w := c.section()
	w.Group(bfrops.ProcType, ns.proc(rank))
	for p := range ns.places() {
		if p.rank != rank {
			continue
		}
		for _, v := range ns.rankValues(p) {
			w.KVal(v.Key, v.Value.Type, v.Value.Data)
		}
	}
	return w
}

// within bounds ctx by the request's pmix.timeout, in seconds; the cause is then errTimeout.
func within(ctx context.Context, infos []bfrops.Info) (context.Context, context.CancelFunc) {
	if n := seconds(infos); n > 0 {
		return context.WithTimeoutCause(ctx, time.Duration(n)*time.Second, errTimeout)
	}
	return ctx, func() {}
}

// seconds is the request's pmix.timeout; 0: none.
func seconds(infos []bfrops.Info) int64 {
	v, _ := attribute(infos, "pmix.timeout")
	if n, ok := v.Number(); ok && n > 0 && n < 1<<31 {
		return int64(n)
	}
	return 0
}

func attribute(infos []bfrops.Info, key string) (bfrops.Value, bool) {
	for _, i := range infos {
		if i.Key == key {
			return i.Value, true
		}
	}
	return bfrops.Value{}, false
}

func has(infos []bfrops.Info, key string) bool {
	_, ok := attribute(infos, key)
	return ok
}

// isTrue reads a BOOL attribute, which is false where it is absent and true without a value.
func isTrue(infos []bfrops.Info, key string) bool {
	v, ok := attribute(infos, key)
	return ok && v.True()
}
