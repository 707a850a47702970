package exchange

import (
	"context"
	"errors"
	"fmt"

	"github.com/mpiup/mpiup/agent/ranks"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/awake"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/wire"
)

// Spawn asks the launcher for what a rank of a job wants started, and returns the number of the
// new job once all its processes run. The job's Launch has been here by then.
func (x *Exchange) Spawn(ctx context.Context, job int, r job.Spawn) (child int, err error) {
	if err := r.Check(); err != nil {
		return 0, err
	}
	st := x.Jobs.Number(uint32(job))
	if st == nil || r.Parent < 0 || r.Parent >= int(st.Launch.Job.Size) {
		return 0, fmt.Errorf("spawn for rank %d of job %d, which does not exist", r.Parent, job)
	}
	id := x.star.next()
	a, err := ask[*apiv1.SpawnResult](ctx, x.star, spawnID(id), spawnRequest(id, st.Launch.Job.Base+uint32(r.Parent), r).Frame())
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

// aborted tells the launcher that a rank called MPI_Abort, and returns when the launcher knows: the
// rank ends with its answer, other hosts' ranks see their connections to it break, and the libraries
// of some then abort with codes of their own (Open MPI 5: 14), which are not to be heard of first.
func (x *Exchange) aborted(ctx context.Context, id, code int, text string, targets []int) {
	ctx, cancel := awake.Within(ctx, ranks.AbortBound)
	defer cancel()
	a := ranks.AbortOf(id, code, text, targets)
	a.Id = x.star.next()
	_, err := ask[*apiv1.AbortNoted](ctx, x.star, abortID(a.Id), a.Frame())
	if errors.Is(err, wire.ErrFull) {
		x.sent(err)
	}
	if err != nil {
		x.Log.Info("the launcher did not take note of an abort", "id", id, "cause", err)
	}
}
