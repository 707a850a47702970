package agent

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/pmi/pmix"
)

// pmixJob is the job as PMIx ranks are told of it.
func (st *step) pmixJob() (pmix.Job, error) {
	l := st.launch
	hosts, err := hostsOf(l)
	if err != nil {
		return pmix.Job{}, err
	}
	j := pmix.Job{
		Number: int(l.Job), Base: int(l.Base), Namespace: l.Namespace, Hosts: hosts, Here: -1, Apps: appsOf(l),
		Universe: int(l.Universe), Mapping: l.Mapping, Engine: st.engine,
	}
	if b := st.bound(); b.cpus != nil {
		j.Binding = b.places
	}
	if len(l.Procs) > 0 {
		j.Here = int(l.Procs[0].NodeRank)
	}
	if l.Spawned {
		parent := st.s.jobOf(l.Parent)
		if parent == nil {
			return j, fmt.Errorf("spawned by process %d, which no job has", l.Parent)
		}
		j.Parent = &pmix.Parent{Job: int(parent.launch.Job), Rank: int(l.Parent - parent.launch.Base)}
	}
	return j, nil
}

// appsOf is the program of every rank.
func appsOf(l *apiv1.Launch) []int {
	apps := make([]int, l.Size)
	for _, p := range l.Procs {
		apps[p.Rank] = int(p.App)
	}
	for r, app := range l.AppOf {
		apps[r] = int(app)
	}
	return apps
}

// hostsOf is the job's hosts as the launcher states them, checked against what is to start here.
func hostsOf(l *apiv1.Launch) ([]pmix.Host, error) {
	hosts := make([]pmix.Host, len(l.Layout))
	total := 0
	for i, h := range l.Layout {
		ranks, err := idset.Parse(h.Ranks)
		if err != nil {
			return nil, fmt.Errorf("ranks of host %d: %w", i, err)
		}
		hosts[i] = pmix.Host{Name: h.Name, Ranks: ranks.Slice()}
		if total += ranks.Len(); total > int(l.Size) {
			return nil, fmt.Errorf("more than %d ranks on the hosts of the job", l.Size)
		}
	}
	if len(l.Procs) == 0 {
		return hosts, nil
	}
	if int(l.Procs[0].NodeRank) >= len(hosts) {
		return nil, fmt.Errorf("host %d of a job of %d hosts", l.Procs[0].NodeRank, len(hosts))
	}
	here := make([]int, 0, len(l.Procs))
	for _, p := range l.Procs {
		here = append(here, int(p.Rank))
	}
	slices.Sort(here)
	if !slices.Equal(here, hosts[l.Procs[0].NodeRank].Ranks) {
		return nil, errors.New("the ranks to start here are not those the job has here")
	}
	return hosts, nil
}

// yielding lets Open MPI's ranks yield while they wait where jobs crowd the host, unless the user
// has decided. The server, which is as old as the first job, may know of fewer.
func (st *step) yielding(app uint32) []string {
	const name = "OMPI_MCA_mpi_oversubscribe"
	decided := slices.ContainsFunc(st.launch.Apps[app].Env, func(kv string) bool { return strings.HasPrefix(kv, name+"=") })
	if !st.crowded || decided || st.s.userVariable(name) != "" {
		return nil
	}
	return []string{name + "=1"}
}
