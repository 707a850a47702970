package pmix

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/mpiup/mpiup/pmi/pmix/bfrops"
)

const errPartial status = -52

// Bounds of the answer to a query, which may ask for the same many times.
const (
	maxFacts = 64
	maxLong  = 4 // of those that grow with the job or the machine
)

var long = map[string]bool{"pmix.qry.nsinfo": true, "pmix.qry.ptable": true, "pmix.qry.lptable": true, "pmix.hwlocxml2": true}

// query answers what tools and Open MPI commonly ask; what is not known is left out. Qualifiers name
// the job that is meant, if it is not the rank's own, and the group.
func (c *conn) query(_ context.Context, r *bfrops.Reader) (*bfrops.Writer, error) {
	queries := bfrops.Counted[bfrops.Query](r, bfrops.QueryType)
	if r.Err() != nil {
		return nil, r.Err()
	}
	var found []bfrops.Info
	asked, longs, none := 0, 0, errNotSupported
	for _, q := range queries {
		asked += len(q.Keys)
		about := subject{ns: c.ns}
		if v, ok := attribute(q.Qualifiers, "pmix.nspace"); ok {
			about.ns = c.s.called(v.Text())
		}
		if v, ok := attribute(q.Qualifiers, "pmix.grp.id"); ok {
			about.group = v.Text()
		}
		for _, key := range q.Keys {
			tell, known := facts[key]
			if !known && key != queryKeys {
				continue
			}
			none = errNotFound
			if len(found) >= maxFacts || about.ns == nil {
				break
			}
			if long[key] {
				if longs++; longs > maxLong {
					continue
				}
			}
			if key == queryKeys {
				found = append(found, info(key, bfrops.String, strings.Join(slices.Sorted(maps.Keys(facts)), ",")))
			} else if v := tell(c.s, about); v.Type != bfrops.Undef {
				found = append(found, bfrops.Info{Key: key, Value: v})
			}
		}
	}
	if len(found) == 0 {
		return nil, none
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

// subject is what a query is about.
type subject struct {
	ns    *namespace
	group string
}

const queryKeys = "pmix.qry.keys" // PMIX_QUERY_SUPPORTED_KEYS: the table below

// facts are what can be asked; zero values are not known. Types are those of pmix_common.h. prted
// (pmix_server_queries.c of PRRTE) answers the same for jobs and process tables; names of groups are
// one text there, in spite of the header, and the array of texts here that a client counts on.
var facts = map[string]func(*Server, subject) bfrops.Value{
	"pmix.qry.ns":     func(s *Server, _ subject) bfrops.Value { return text(strings.Join(s.namespaces(), ",")) }, // PMIX_QUERY_NAMESPACES
	"pmix.qry.nsinfo": func(s *Server, _ subject) bfrops.Value { return array(s.allJobs()) },                      // PMIX_QUERY_NAMESPACE_INFO
	"pmix.job.size":   func(_ *Server, a subject) bfrops.Value { return number(bfrops.Uint32, a.ns.Size) },
	"pmix.univ.size": func(_ *Server, a subject) bfrops.Value {
		return number(bfrops.Uint32, max(a.ns.Universe, a.ns.Size))
	},
	"pmix.num.nodes":    func(_ *Server, a subject) bfrops.Value { return number(bfrops.Uint32, len(a.ns.Hosts)) },
	"pmix.local.size":   func(_ *Server, a subject) bfrops.Value { return number(bfrops.Uint32, len(a.ns.local)) },
	"pmix.qry.psetnum":  func(*Server, subject) bfrops.Value { return number(bfrops.Size, 0) },                        // PMIX_QUERY_NUM_PSETS
	"pmix.qry.psets":    func(*Server, subject) bfrops.Value { return text("") },                                      // PMIX_QUERY_PSET_NAMES
	"pmix.qry.ptable":   func(s *Server, a subject) bfrops.Value { return array(s.procTable(a.ns, false)) },           // PMIX_QUERY_PROC_TABLE
	"pmix.qry.lptable":  func(s *Server, a subject) bfrops.Value { return array(s.procTable(a.ns, true)) },            // PMIX_QUERY_LOCAL_PROC_TABLE
	"pmix.qry.pgrpnum":  func(s *Server, _ subject) bfrops.Value { return number(bfrops.Size, len(s.groupNames())) },  // PMIX_QUERY_NUM_GROUPS
	"pmix.qry.pgrp":     func(s *Server, _ subject) bfrops.Value { return array(bfrops.NewTexts(s.groupNames()...)) }, // PMIX_QUERY_GROUP_NAMES
	"pmix.qry.pgrpmems": (*Server).groupMembers,                                                                       // PMIX_QUERY_GROUP_MEMBERSHIP
	"pmix.qry.spawn": func(s *Server, _ subject) bfrops.Value { // PMIX_QUERY_SPAWN_SUPPORT
		if s.cfg.Spawn == nil {
			return bfrops.Value{}
		}
		return text(spawnSupport)
	},
	"pmix.hwlocxml2": func(s *Server, _ subject) bfrops.Value {
		if s.cfg.HwlocXML == "" {
			return bfrops.Value{}
		}
		return text(s.cfg.HwlocXML)
	},
}

func text(s string) bfrops.Value { return bfrops.Value{Type: bfrops.String, Data: s} }

func number(t bfrops.Type, n int) bfrops.Value { return bfrops.Value{Type: t, Data: uint64(n)} }

func array(a bfrops.Array) bfrops.Value { return bfrops.Value{Type: bfrops.DataArray, Data: a} }

const spawnSupport = "pmix.host,pmix.hostfile,pmix.addhost,pmix.addhostfile,pmix.wdir,pmix.mapby,pmix.ppr," +
	"pmix.envar.set,pmix.envar.add,pmix.envar.unset,pmix.envar.prepnd,pmix.envar.appnd,pmix.envar.first"
