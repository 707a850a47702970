package pmix

import (
	"context"

	"github.com/mpiup/mpiup/pmi/pmix/bfrops"
)

const errPartial status = -52

// query answers what tools and Open MPI commonly ask; what is not known is left out.
func (c *conn) query(_ context.Context, r *bfrops.Reader) (*bfrops.Writer, error) {
	queries := bfrops.Counted[bfrops.Query](r, bfrops.QueryType)
	if r.Err() != nil {
		return nil, r.Err()
	}
	var found []bfrops.Info
	asked := 0
	for _, q := range queries {
		for _, key := range q.Keys {
			asked++
			if i, ok := c.ns.fact(key); ok {
				found = append(found, i)
			}
		}
	}
	if len(found) == 0 {
		return nil, errNotFound
	}
	st := success
	if len(found) < asked {
		st = errPartial
	}
	w := c.writer()
	w.Status(int(st))
	w.Infos(found)
	return w, nil
}

// fact is one answer to a query.
func (j *namespace) fact(key string) (bfrops.Info, bool) {
	switch key {
	case "pmix.qry.ns": // PMIX_QUERY_NAMESPACES
		return info(key, bfrops.String, j.Namespace), true
	case "pmix.job.size":
		return info(key, bfrops.Uint32, uint64(j.Engine.Size())), true
	case "pmix.univ.size":
		return info(key, bfrops.Uint32, uint64(max(j.Universe, j.Engine.Size()))), true
	case "pmix.num.nodes":
		return info(key, bfrops.Uint32, uint64(len(j.Hosts))), true
	case "pmix.qry.psetnum": // PMIX_QUERY_NUM_PSETS
		return info(key, bfrops.Size, uint64(0)), true
	case "pmix.hwlocxml2":
		return info(key, bfrops.String, j.cfg.HwlocXML), j.cfg.HwlocXML != ""
	}
	return bfrops.Info{}, false
}
