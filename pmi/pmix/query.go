package pmix

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/pmi/pmix/bfrops"
	"github.com/mpiup/mpiup/pmi/pmix/jobdata"
	"github.com/mpiup/mpiup/pmi/pmix/modex"
)

// Bounds of the answer to a query, which may ask for the same many times.
const (
	maxFacts = 64
	maxLong  = 4 // of those that grow with the job or the machine
)

var long = map[string]bool{"pmix.qry.nsinfo": true, "pmix.qry.ptable": true, "pmix.qry.lptable": true, "pmix.hwlocxml2": true}

// query answers what tools and Open MPI commonly ask; what is not known is left out. Qualifiers name
// the job that is meant, if it is not the rank's own, and the group.
func query(_ context.Context, c *conn, r *bfrops.Reader) (*bfrops.Writer, error) {
	queries := bfrops.Counted[bfrops.Query](r, bfrops.QueryType)
	if r.Err() != nil {
		return nil, r.Err()
	}
	var found []bfrops.Info
	asked, longs, none := 0, 0, bfrops.ErrNotSupported
	for _, q := range queries {
		asked += len(q.Keys)
		about := subject{ns: c.ns}
		if v, ok := bfrops.Attribute(q.Qualifiers, "pmix.nspace"); ok {
			about.ns = c.host.jobs.called(v.Text())
		}
		if v, ok := bfrops.Attribute(q.Qualifiers, "pmix.grp.id"); ok {
			about.group = v.Text()
		}
		for _, key := range q.Keys {
			tell, known := facts[key]
			if !known && key != queryKeys {
				continue
			}
			none = bfrops.ErrNotFound
			if len(found) >= maxFacts || about.ns == nil {
				break
			}
			if long[key] {
				if longs++; longs > maxLong {
					continue
				}
			}
			if key == queryKeys {
				found = append(found, bfrops.NewInfo(key, bfrops.String, strings.Join(slices.Sorted(maps.Keys(facts)), ",")))
			} else if v := tell(c.host, about); v.Type != bfrops.Undef {
				found = append(found, bfrops.Info{Key: key, Value: v})
			}
		}
	}
	if len(found) == 0 {
		return nil, none
	}
	st := bfrops.Success
	if len(found) < asked {
		st = bfrops.ErrPartialSuccess
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
var facts = map[string]func(*host, subject) bfrops.Value{
	"pmix.qry.ns":     func(h *host, _ subject) bfrops.Value { return text(strings.Join(h.namespaces(), ",")) }, // PMIX_QUERY_NAMESPACES
	"pmix.qry.nsinfo": func(h *host, _ subject) bfrops.Value { return array(h.allJobs()) },                      // PMIX_QUERY_NAMESPACE_INFO
	"pmix.job.size":   func(_ *host, a subject) bfrops.Value { return number(bfrops.Uint32, a.ns.Size) },
	"pmix.univ.size": func(_ *host, a subject) bfrops.Value {
		return number(bfrops.Uint32, max(a.ns.Universe, a.ns.Size))
	},
	"pmix.num.nodes":    func(_ *host, a subject) bfrops.Value { return number(bfrops.Uint32, len(a.ns.Hosts)) },
	"pmix.local.size":   func(_ *host, a subject) bfrops.Value { return number(bfrops.Uint32, len(a.ns.HereRanks())) },
	"pmix.qry.psetnum":  func(*host, subject) bfrops.Value { return number(bfrops.Size, 0) },                        // PMIX_QUERY_NUM_PSETS
	"pmix.qry.psets":    func(*host, subject) bfrops.Value { return text("") },                                      // PMIX_QUERY_PSET_NAMES
	"pmix.qry.ptable":   func(h *host, a subject) bfrops.Value { return array(h.procTable(a.ns, false)) },           // PMIX_QUERY_PROC_TABLE
	"pmix.qry.lptable":  func(h *host, a subject) bfrops.Value { return array(h.procTable(a.ns, true)) },            // PMIX_QUERY_LOCAL_PROC_TABLE
	"pmix.qry.pgrpnum":  func(h *host, _ subject) bfrops.Value { return number(bfrops.Size, len(h.groupNames())) },  // PMIX_QUERY_NUM_GROUPS
	"pmix.qry.pgrp":     func(h *host, _ subject) bfrops.Value { return array(bfrops.NewTexts(h.groupNames()...)) }, // PMIX_QUERY_GROUP_NAMES
	"pmix.qry.pgrpmems": (*host).groupMembers,                                                                       // PMIX_QUERY_GROUP_MEMBERSHIP
	"pmix.qry.spawn": func(h *host, _ subject) bfrops.Value { // PMIX_QUERY_SPAWN_SUPPORT
		if h.cfg.Spawn == nil {
			return bfrops.Value{}
		}
		return text(jobdata.Attributes)
	},
	"pmix.hwlocxml2": func(h *host, _ subject) bfrops.Value {
		if h.cfg.HwlocXML == "" {
			return bfrops.Value{}
		}
		return text(h.cfg.HwlocXML)
	},
}

func text(s string) bfrops.Value { return bfrops.Value{Type: bfrops.String, Data: s} }

func number(t bfrops.Type, n int) bfrops.Value { return bfrops.Value{Type: t, Data: uint64(n)} }

func array(a bfrops.Array) bfrops.Value { return bfrops.Value{Type: bfrops.DataArray, Data: a} }

// namespaces are the names of the run's jobs, in the order of their numbers.
func (h *host) namespaces() []string {
	var names []string
	for _, ns := range h.jobs.inOrder() {
		names = append(names, ns.Namespace)
	}
	return names
}

// allJobs are the run's jobs with their programs and processes, as pmix_common.h describes them for
// PMIX_QUERY_NAMESPACE_INFO and prted fills them.
func (h *host) allJobs() bfrops.Array {
	all := bfrops.Array{Type: bfrops.InfoType}
	told := 0
	for _, ns := range h.jobs.inOrder() {
		job := []bfrops.Info{bfrops.NewInfo("pmix.nspace", bfrops.String, ns.Namespace)}
		if ns.Command != "" {
			job = append(job, bfrops.NewInfo("pmix.cmd.line", bfrops.String, ns.Command))
		}
		job = append(job, bfrops.NewInfo("pmix.job.size", bfrops.Uint32, uint64(ns.Size)))
		for p := range ns.Places() {
			if told++; told > maxProcs {
				break
			}
			job = append(job, bfrops.NewInfo("pmix.pdata", bfrops.DataArray, bfrops.NewInfos(
				bfrops.NewInfo("pmix.rank", bfrops.ProcRank, uint64(p.Rank)),
				bfrops.NewInfo("pmix.hname", bfrops.String, ns.Hosts[p.Host].Name),
				bfrops.NewInfo("pmix.lrank", bfrops.Uint16, uint64(p.Local)),
			)))
		}
		all.Data = append(all.Data, bfrops.NewInfo("pmix.job.arr", bfrops.DataArray, bfrops.NewInfos(job...)))
	}
	return all
}

// maxProcs bounds the processes of all jobs that one answer describes.
const maxProcs = 64 << 10

// States of a process (pmix_proc_state_t). Of those elsewhere no more is known than that they were
// started, or are gone.
const (
	stateRunning    = 5
	stateConnected  = 6
	stateTerminated = 20
)

// procTable is the job's processes and where they are, with the process ids and programs of those here.
func (h *host) procTable(ns *namespace, here bool) bfrops.Array {
	table := bfrops.Array{Type: bfrops.ProcInfoType}
	for p := range ns.Places() {
		if here && p.Host != ns.Here {
			continue
		}
		table.Data = append(table.Data, h.procInfo(ns, p))
	}
	return table
}

func (h *host) procInfo(ns *namespace, p jobdata.Place) bfrops.ProcInfo {
	id := ns.span.Base + p.Rank
	i := bfrops.ProcInfo{Proc: ns.Proc(p.Rank), Host: ns.Hosts[p.Host].Name, State: stateRunning}
	if h.presence.connected(id) {
		i.State = stateConnected
	}
	if ns.space.IsGone(p.Rank) {
		i.State = stateTerminated
	}
	if p.Host == ns.Here && h.cfg.Process != nil {
		pid, program := h.cfg.Process(id)
		i.PID, i.Exe = uint32(pid), program
	}
	return i
}

func (h *host) groupNames() (names []string) {
	h.withGroups(func(g *modex.Groups) { names = g.Names() })
	return names
}

// groupMembers are those of the group that a query names.
func (h *host) groupMembers(about subject) bfrops.Value {
	var ids idset.Set
	h.withGroups(func(g *modex.Groups) { ids = g.Members(about.group) })
	if ids.Empty() {
		return bfrops.Value{}
	}
	var procs []bfrops.Proc
	for _, ns := range h.jobs.inOrder() {
		for id := range ids.Intersect(ns.span.IDs()).All() {
			procs = append(procs, ns.Proc(id-ns.span.Base))
		}
	}
	return array(bfrops.NewProcs(procs...))
}
