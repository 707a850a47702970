package agent

import (
	"context"
	"errors"
	"fmt"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/job"
)

// spawn asks the launcher for what a rank of a job wants started, and returns the number of the
// new job once all its processes run. The job's Launch has been here by then.
func (s *session) spawn(ctx context.Context, job int, r job.Spawn) (child int, err error) {
	if err := r.Check(); err != nil {
		return 0, err
	}
	st := s.job(uint32(job))
	if st == nil || r.Parent < 0 || r.Parent >= int(st.Launch.Job.Size) {
		return 0, fmt.Errorf("spawn for rank %d of job %d, which does not exist", r.Parent, job)
	}
	parent := st.Launch.Job.Base + uint32(r.Parent)
	a, err := question(ctx, s.up, s.up.spawns, func(id uint64) *apiv1.Frame {
		return spawnRequest(id, parent, r).Frame()
	})
	switch {
	case err != nil:
		return 0, err
	case a.Error != "":
		return 0, errors.New(a.Error)
	}
	return int(a.Job), nil
}

// spawnRequest is what the launcher is asked.
func spawnRequest(id uint64, parent uint32, r job.Spawn) *apiv1.SpawnRequest {
	q := &apiv1.SpawnRequest{Id: id, Parent: parent}
	for _, p := range r.Programs {
		q.Apps = append(q.Apps, &apiv1.SpawnApp{
			App:   &apiv1.App{Argv: p.Argv, Env: p.Env, Wdir: p.Dir, WdirExplicit: p.Dir != "", AlsoWdir: p.AlsoDir},
			Procs: uint32(p.Procs), Hosts: p.Hosts, AddHosts: p.AddHosts, Hostfile: p.Hostfile,
			AddHostfile: p.AddHostfile, PerHost: uint32(p.PerHost), MapBy: p.MapBy,
		})
	}
	for _, kv := range r.Preput {
		q.Preput = append(q.Preput, &apiv1.KeyValue{Key: kv.Key, Value: kv.Value})
	}
	return q
}
