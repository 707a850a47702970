package pmix

import (
	"context"
	"slices"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/pmi/pmix/bfrops"
	"github.com/mpiup/mpiup/pmi/pmix/jobdata"
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

// partyOf resolves what a rank of own lists; nothing is all of own. Namespaces that are not known yet are
// waited for.
func (j *jobs) partyOf(ctx context.Context, own *namespace, procs []bfrops.Proc) (party, bfrops.Code) {
	if len(procs) == 0 {
		return party{{own, nil}}, bfrops.Success
	}
	lists := map[*namespace][]int{}
	whole, here := map[*namespace]bool{}, map[*namespace]bool{}
	known := map[string]*namespace{own.Namespace: own}
	for _, p := range procs {
		ns := known[p.Namespace]
		if p.Namespace == jobdata.RefusedNamespace {
			return nil, bfrops.Quiet
		}
		if ns == nil {
			if ns = j.await(ctx, p.Namespace); ns == nil {
				return nil, bfrops.ErrNotFound
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
			return nil, bfrops.ErrBadParam
		default:
			lists[ns] = append(lists[ns], int(p.Rank))
		}
	}
	var all party
	for ns, ranks := range lists {
		if here[ns] {
			ranks = append(ranks, ns.HereRanks()...)
		}
		slices.Sort(ranks)
		ranks = slices.Compact(ranks)
		if whole[ns] || len(ranks) == ns.Size {
			ranks = nil
		} else if len(ranks) == 0 {
			return nil, bfrops.ErrBadParam
		}
		all = append(all, members{ns, ranks})
	}
	slices.SortFunc(all, func(a, b members) int { return a.ns.number - b.ns.number })
	return all, bfrops.Success
}

// partyNow is partyOf where it is no time to wait for a job that may come.
func (j *jobs) partyNow(ctx context.Context, own *namespace, procs []bfrops.Proc) (party, bfrops.Code) {
	for _, p := range procs {
		if j.called(p.Namespace) == nil {
			return nil, bfrops.ErrNotFound
		}
	}
	return j.partyOf(ctx, own, procs)
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
		return m.ns.span.IDs()
	}
	var s idset.Set
	for _, r := range m.ranks {
		s.Add(m.ns.span.Base + r)
	}
	return s
}

// procs are the party's processes, one by one.
func (p party) procs() (out []bfrops.Proc) {
	for _, m := range p {
		for id := range m.ids().All() {
			out = append(out, m.ns.Proc(id-m.ns.span.Base))
		}
	}
	return out
}
