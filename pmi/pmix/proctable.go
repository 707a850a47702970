package pmix

import (
	"maps"
	"slices"

	"github.com/mpiup/mpiup/pmi/pmix/bfrops"
)

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

// allJobs are the run's jobs with their programs and processes, as pmix_common.h describes them for
// PMIX_QUERY_NAMESPACE_INFO and prted fills them.
func (s *Server) allJobs() bfrops.Array {
	s.mu.Lock()
	jobs := s.inOrder()
	s.mu.Unlock()
	all := bfrops.Array{Type: bfrops.InfoType}
	told := 0
	for _, ns := range jobs {
		job := []bfrops.Info{info("pmix.nspace", bfrops.String, ns.Namespace)}
		if ns.Command != "" {
			job = append(job, info("pmix.cmd.line", bfrops.String, ns.Command))
		}
		job = append(job, info("pmix.job.size", bfrops.Uint32, uint64(ns.Size)))
		for p := range ns.places() {
			if told++; told > maxProcs {
				break
			}
			job = append(job, info("pmix.pdata", bfrops.DataArray, bfrops.NewInfos(
				info("pmix.rank", bfrops.ProcRank, uint64(p.rank)),
				info("pmix.hname", bfrops.String, ns.Hosts[p.host].Name),
				info("pmix.lrank", bfrops.Uint16, uint64(p.local)),
			)))
		}
		all.Data = append(all.Data, info("pmix.job.arr", bfrops.DataArray, bfrops.NewInfos(job...)))
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
func (s *Server) procTable(ns *namespace, here bool) bfrops.Array {
	table := bfrops.Array{Type: bfrops.ProcInfoType}
	for _, i := range s.procsOf(ns, here) {
		if _, mine := ns.local[int(i.Proc.Rank)]; mine && s.cfg.Process != nil {
			pid, program := s.cfg.Process(ns.Base + int(i.Proc.Rank))
			i.PID, i.Exe = uint32(pid), program
		}
		table.Data = append(table.Data, i)
	}
	return table
}

func (s *Server) procsOf(ns *namespace, here bool) (all []bfrops.ProcInfo) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for p := range ns.places() {
		if here && p.host != ns.Here {
			continue
		}
		i := bfrops.ProcInfo{Proc: ns.proc(p.rank), Host: ns.Hosts[p.host].Name, State: stateRunning}
		if r := ns.ranks[p.rank]; r != nil && r.main != nil {
			i.State = stateConnected
		}
		if ns.IsGone(p.rank) {
			i.State = stateTerminated
		}
		all = append(all, i)
	}
	return all
}
