package pmix

import (
	"context"
	"slices"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/pmi/pmix/bfrops"
)

// party is the processes that a request lists, by job in the order of their numbers.
type party []members

// members are those of one job.
type members struct {
	ns    *namespace
	ranks []int // ascending; nil: all
}

// Ranks that stand for several (pmix_common.h).
const (
	rankLocalNode  = 0xfffffffd
	rankLocalPeers = 0xfffffffb
)

// party resolves what c lists; nothing is all of c's job. Namespaces that are not known yet are
// waited for.
func (s *Server) party(ctx context.Context, c *conn, procs []bfrops.Proc) (party, status) {
	if len(procs) == 0 {
		return party{{c.ns, nil}}, success
	}
	lists := map[*namespace][]int{}
	whole, here := map[*namespace]bool{}, map[*namespace]bool{}
	known := map[string]*namespace{c.ns.Namespace: c.ns}
	for _, p := range procs {
		ns := known[p.Namespace]
		if p.Namespace == refusedNamespace {
			return nil, errQuiet
		}
		if ns == nil {
			if ns = s.await(ctx, p.Namespace); ns == nil {
				return nil, errNotFound
			}
			known[p.Namespace] = ns
		}
		if _, ok := lists[ns]; !ok {
			lists[ns] = nil
		}
		switch {
		case p.Rank == bfrops.RankWildcard:
			whole[ns] = true
		case p.Rank == rankLocalPeers || p.Rank == rankLocalNode:
			here[ns] = true
		case int64(p.Rank) >= int64(ns.Size):
			return nil, errBadParam
		default:
			lists[ns] = append(lists[ns], int(p.Rank))
		}
	}
	var all party
	for ns, ranks := range lists {
		if here[ns] {
			ranks = append(ranks, ns.hereRanks()...)
		}
		slices.Sort(ranks)
		ranks = slices.Compact(ranks)
		if whole[ns] || len(ranks) == ns.Size {
			ranks = nil
		} else if len(ranks) == 0 {
			return nil, errBadParam
		}
		all = append(all, members{ns, ranks})
	}
	slices.SortFunc(all, func(a, b members) int { return a.ns.Number - b.ns.Number })
	return all, success
}

// has says whether the party includes a rank of ns.
func (p party) has(ns *namespace, rank int) bool {
	for _, m := range p {
		if m.ns == ns {
			_, in := slices.BinarySearch(m.ranks, rank)
			return m.ranks == nil || in
		}
	}
	return false
}

// set is the party's ids.
func (p party) set() idset.Set {
	var s idset.Set
	for _, m := range p {
		s = s.Union(m.ids())
	}
	return s
}

func (m members) ids() idset.Set {
	if m.ranks == nil {
		return idset.Range(m.ns.Base, m.ns.Base+m.ns.Size-1)
	}
	var s idset.Set
	for _, r := range m.ranks {
		s.Add(m.ns.Base + r)
	}
	return s
}

// procs are the party's processes, one by one.
func (p party) procs() []bfrops.Proc {
	var out []bfrops.Proc
	for _, m := range p {
		ranks := m.ranks
		if ranks == nil {
			for r := range m.ns.Size {
				out = append(out, m.ns.proc(r))
			}
		}
		for _, r := range ranks {
			out = append(out, m.ns.proc(r))
		}
	}
	return out
}

// hereRanks are the job's ranks of this host.
func (ns *namespace) hereRanks() []int {
	if ns.Here < 0 {
		return nil
	}
	return ns.Hosts[ns.Here].Ranks
}
