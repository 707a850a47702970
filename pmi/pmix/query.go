package pmix

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/mpiup/mpiup/pmi/pmix/bfrops"
)

const errPartial status = -52

// query answers what tools and Open MPI commonly ask; what is not known is left out. A qualifier
// names the job that is meant, if it is not the rank's own.
func (c *conn) query(_ context.Context, r *bfrops.Reader) (*bfrops.Writer, error) {
	queries := bfrops.Counted[bfrops.Query](r, bfrops.QueryType)
	if r.Err() != nil {
		return nil, r.Err()
	}
	var found []bfrops.Info
	asked := 0
	for _, q := range queries {
		asked += len(q.Keys)
		ns := c.ns
		if v, ok := attribute(q.Qualifiers, "pmix.nspace"); ok {
			ns = c.s.called(v.Text())
		}
		for _, key := range q.Keys {
			if len(found) >= maxFacts || ns == nil {
				break
			}
			if i, ok := c.s.fact(ns, key); ok {
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

// maxFacts bounds the answer to a query: the table of all processes may be asked for many times.
const maxFacts = 64

// fact is one answer to a query.
func (s *Server) fact(ns *namespace, key string) (bfrops.Info, bool) {
	switch key {
	case "pmix.qry.ns": // PMIX_QUERY_NAMESPACES
		return info(key, bfrops.String, strings.Join(s.namespaces(), ",")), true
	case "pmix.job.size":
		return info(key, bfrops.Uint32, uint64(ns.Engine.Size())), true
	case "pmix.univ.size":
		return info(key, bfrops.Uint32, uint64(max(ns.Universe, ns.Engine.Size()))), true
	case "pmix.num.nodes":
		return info(key, bfrops.Uint32, uint64(len(ns.Hosts))), true
	case "pmix.local.size":
		return info(key, bfrops.Uint32, uint64(len(ns.local))), true
	case "pmix.qry.psetnum": // PMIX_QUERY_NUM_PSETS
		return info(key, bfrops.Size, uint64(0)), true
	case "pmix.qry.psets": // PMIX_QUERY_PSET_NAMES
		return info(key, bfrops.String, ""), true
	case "pmix.qry.ptable": // PMIX_QUERY_PROC_TABLE
		return info(key, bfrops.DataArray, s.procTable(ns, false)), true
	case "pmix.qry.lptable": // PMIX_QUERY_LOCAL_PROC_TABLE
		return info(key, bfrops.DataArray, s.procTable(ns, true)), true
	case "pmix.qry.spawn": // PMIX_QUERY_SPAWN_SUPPORT
		return info(key, bfrops.String, spawnSupport), s.cfg.Spawn != nil
	case "pmix.hwlocxml2":
		return info(key, bfrops.String, s.cfg.HwlocXML), s.cfg.HwlocXML != ""
	}
	return bfrops.Info{}, false
}

const spawnSupport = "pmix.host,pmix.hostfile,pmix.addhost,pmix.addhostfile,pmix.wdir,pmix.mapby,pmix.ppr," +
	"pmix.envar.set,pmix.envar.add,pmix.envar.unset,pmix.envar.prepnd,pmix.envar.appnd,pmix.envar.first"

// namespaces are the names of the run's jobs, in the order of their numbers.
func (s *Server) namespaces() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for _, ns := range s.inOrder() {
		names = append(names, ns.Namespace)
	}
	return names
}

// inOrder is the run's jobs, in the order of their numbers. mu is held.
func (s *Server) inOrder() []*namespace {
	return slices.SortedFunc(maps.Values(s.jobs), func(a, b *namespace) int { return a.Number - b.Number })
}

// States of a process (pmix_proc_state_t). Of those elsewhere no more is known than that they were
// started, or are gone.
const (
	stateRunning    = 5
	stateConnected  = 6
	stateTerminated = 20
)

// procTable is the job's processes and where they are; process ids and programs are not known here.
func (s *Server) procTable(ns *namespace, here bool) bfrops.Array {
	gone := ns.Engine.Gone()
	s.mu.Lock()
	defer s.mu.Unlock()
	table := bfrops.Array{Type: bfrops.ProcInfoType}
	for p := range ns.places() {
		if here && p.host != ns.Here {
			continue
		}
		i := bfrops.ProcInfo{Proc: ns.proc(p.rank), Host: ns.Hosts[p.host].Name, State: stateRunning}
		if r := ns.ranks[p.rank]; r != nil && r.main != nil {
			i.State = stateConnected
		}
		if _, ended := gone[p.rank]; ended {
			i.State = stateTerminated
		}
		table.Data = append(table.Data, i)
	}
	return table
}
