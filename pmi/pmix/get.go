package pmix

import (
	"context"
	"strings"
	"time"

	"github.com/mpiup/mpiup/pmi/pmix/bfrops"
)

// get answers with everything that the asked rank has committed for this host, since the client
// keeps it all and asks once per rank then. It waits for a rank that has not committed yet; what
// a rank did not commit is not found at once, because waiting for a key that never comes hangs
// Open MPI 4.1.0. Job data is never asked for by who has it already (REQ).
func (c *conn) get(ctx context.Context, r *bfrops.Reader) (*bfrops.Writer, error) {
	namespace := bfrops.One[string](r, bfrops.String)
	rank := bfrops.One[uint64](r, bfrops.ProcRank)
	infos := r.Infos()
	key := ""
	if r.More() {
		key = bfrops.One[string](r, bfrops.String)
	}
	if r.Err() != nil {
		return nil, r.Err()
	}
	if namespace != c.ns.Namespace || rank >= uint64(c.ns.Engine.Size()) || strings.HasPrefix(key, "pmix") {
		return nil, errNotFound
	}
	ctx, cancel := within(ctx, infos)
	defer cancel()
	sec, found, err := c.s.sectionOf(ctx, c.ns, int(rank), key, !isTrue(infos, "pmix.immediate"))
	if err != nil {
		return nil, err
	}
	if !found || !sec.holds(key) {
		return nil, errNotFound
	}
	values := c.section()
	values.Group(bfrops.ProcType, bfrops.Proc{Namespace: namespace, Rank: uint32(rank)})
	if err := sec.appendTo(values, c.desc); err != nil {
		return nil, err
	}
	packed, err := values.Bytes()
	if err != nil {
		return nil, err
	}
	w := c.writer()
	w.Status(int(success))
	w.Group(bfrops.ByteObject, packed)
	return w, nil
}

// sectionOf is what ranks of this host may see of a rank. What a fence brought is asked for again
// if key is not in it: the rank may have committed since.
func (s *Server) sectionOf(ctx context.Context, ns *namespace, rank int, key string, wait bool) (section, bool, error) {
	if _, here := ns.local[rank]; here {
		sec, ok := s.committed(ns, rank)
		if ok || !wait {
			return sec, ok, nil
		}
		if _, ok, err := ns.Engine.LocalAwait(ctx, rank, sectionKey); err != nil || !ok {
			return nil, false, err
		}
		sec, ok = s.committed(ns, rank)
		return sec, ok, nil
	}
	if v, ok := ns.Engine.Here(rank, sectionKey); ok && section(v).holds(key) {
		return v, true, nil
	}
	return ns.Engine.Await(ctx, rank, sectionKey, wait)
}

// within bounds ctx by the request's pmix.timeout, in seconds; the cause is then errTimeout.
func within(ctx context.Context, infos []bfrops.Info) (context.Context, context.CancelFunc) {
	if v, ok := attribute(infos, "pmix.timeout"); ok {
		if n, ok := v.Number(); ok && n > 0 && n < 1<<31 {
			return context.WithTimeoutCause(ctx, time.Duration(n)*time.Second, errTimeout)
		}
	}
	return ctx, func() {}
}

func attribute(infos []bfrops.Info, key string) (bfrops.Value, bool) {
	for _, i := range infos {
		if i.Key == key {
			return i.Value, true
		}
	}
	return bfrops.Value{}, false
}

// isTrue reads a BOOL attribute, which is false where it is absent and true without a value.
func isTrue(infos []bfrops.Info, key string) bool {
	v, ok := attribute(infos, key)
	return ok && v.True()
}
