package agent

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/pmi/pmix"
	"github.com/mpiup/mpiup/pmi/pmix/jobdata"
)

// pmixJob is the job as PMIx ranks are told of it.
func (st *step) pmixJob() (pmix.Job, error) {
	l := st.launch
	hosts, err := hostsOf(l.Launch)
	if err != nil {
		return pmix.Job{}, err
	}
	j := pmix.Job{Space: st.space, Job: jobdata.Job{
		Namespace: l.Job.Namespace, Hosts: hosts, Here: -1, Apps: appsOf(l.Launch),
		Universe: int(l.Job.Universe), Command: commandOf(l.Apps), Mapping: l.Job.Mapping, Crowded: st.s.crowded(), Getenv: st.userVariable,
	}}
	if b := st.bound(); b.Any() {
		j.Binding = b.Places
	}
	if len(l.Procs) > 0 {
		j.Here = int(l.Procs[0].NodeRank)
	}
	if l.Job.Spawned {
		parent := st.s.jobOf(l.Job.Parent)
		if parent == nil {
			return j, fmt.Errorf("spawned by process %d, which no job has", l.Job.Parent)
		}
		j.SpawnedBy = &job.Process{Job: int(parent.launch.Job.Number), Rank: int(l.Job.Parent - parent.launch.Job.Base)}
	}
	return j, nil
}

// appsOf is the program of every rank.
func appsOf(l *apiv1.Launch) []int {
	apps := make([]int, l.Job.Size)
	for _, p := range l.Procs {
		apps[p.Rank] = int(p.App)
	}
	for r, app := range l.Job.AppOf {
		apps[r] = int(app)
	}
	return apps
}

// hostsOf is the job's hosts as the launcher states them, checked against what is to start here.
func hostsOf(l *apiv1.Launch) ([]jobdata.Host, error) {
	hosts := make([]jobdata.Host, len(l.Job.Layout))
	total := 0
	for i, h := range l.Job.Layout {
		ranks, err := idset.Parse(h.Ranks)
		if err != nil {
			return nil, fmt.Errorf("ranks of host %d: %w", i, err)
		}
		hosts[i] = jobdata.Host{Name: h.Name, Ranks: ranks.Slice()}
		if total += ranks.Len(); total > int(l.Job.Size) {
			return nil, fmt.Errorf("more than %d ranks on the hosts of the job", l.Job.Size)
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

// userVariable is what the user has set for a rank here: for its program, or in the container.
func (st *step) userVariable(rank int, name string) string {
	var own []string
	for _, p := range st.launch.Procs {
		if int(p.Rank) == rank {
			own = st.launch.Apps[p.App].Env
		}
	}
	for _, list := range [][]string{own, st.s.agent.cfg.Env} {
		for _, kv := range slices.Backward(list) {
			if v, ok := strings.CutPrefix(kv, name+"="); ok {
				return v
			}
		}
	}
	return ""
}
