package pmix

import (
	"context"
	"errors"
	"fmt"

	"github.com/mpiup/mpiup/pmi/kvs"
	"github.com/mpiup/mpiup/pmi/pmix/bfrops"
	"github.com/mpiup/mpiup/pmi/pmix/jobdata"
	"github.com/mpiup/mpiup/pmi/pmix/modex"
)

// spawnJob is MPI_Comm_spawn and MPI_Comm_spawn_multiple. The answer names the new job and tells what
// ranks of other jobs are told of it.
func spawnJob(ctx context.Context, c *conn, r *bfrops.Reader) (*bfrops.Writer, error) {
	infos := r.Infos()
	apps := bfrops.Counted[bfrops.App](r, bfrops.AppType)
	if r.Err() != nil {
		return nil, r.Err()
	}
	ctx, cancel := within(ctx, infos)
	defer cancel()
	child, err := start(ctx, c, infos, apps)
	if err != nil {
		return spawnRefused(ctx, c, infos, apps)
	}
	if by := callerOf(c, infos, apps); by != nil && c.host.jobs.expectCall(child, by) {
		c.host.callForJob(ctx, by)
	}
	about, err := child.told.packed(toldAs{c.dialect, c.desc, true})
	if err != nil {
		return nil, err
	}
	w := c.success()
	w.Raw(about)
	return w, nil
}

// start has the job started.
func start(ctx context.Context, c *conn, infos []bfrops.Info, apps []bfrops.App) (*namespace, error) {
	req, err := jobdata.Request(c.rank, infos, apps, func(name string) string { return c.ns.UserHas(c.rank, name) })
	if c.host.cfg.Spawn == nil {
		err = errors.New("this job was started in a way that cannot start more processes")
	}
	if err != nil {
		sayRefused(c, apps, err)
		return nil, err
	}
	number, err := c.host.cfg.Spawn(ctx, c.ns.number, req)
	child := c.host.jobs.numbered(number)
	if err == nil && child == nil {
		err = fmt.Errorf("job %d was started, and its ranks are not known here", number)
	}
	if err != nil {
		c.host.log.Info("MPI_Comm_spawn failed", "id", c.id(), "cause", err)
	}
	return child, err
}

// sayRefused shows with the rank's output why nothing is spawned: the statuses that MPI libraries
// make of the answer say little.
func sayRefused(c *conn, apps []bfrops.App, cause error) {
	c.host.log.Warn("MPI_Comm_spawn is refused", "id", c.id(), "cause", cause)
	program := "nothing"
	if len(apps) > 0 {
		program = jobdata.Argv(apps[0])[0]
	}
	c.host.show(c.id(), true, fmt.Sprintf("mpiup: MPI_Comm_spawn of %.200s by %s: %v\n", program, c.who(), cause))
}

// spawnRefused answers the rank. In Open MPI before 5 the other ranks wait in MPI_Comm_spawn for the
// root to tell them who was started, and a root whose request failed returns without a word
// (ompi/mpi/c/comm_spawn.c, v4.1.4): it is told of a job that fails to connect. 5.0 tells the others.
func spawnRefused(ctx context.Context, c *conn, infos []bfrops.Info, apps []bfrops.App) (*bfrops.Writer, error) {
	if by := callerOf(c, infos, apps); by != nil && !by.OMPI5 && c.ns.Size > 1 {
		if err := c.host.release(ctx, by); err == nil {
			w := c.success()
			w.Group(bfrops.String, jobdata.RefusedNamespace)
			return w, nil
		}
	}
	return nil, bfrops.ErrJobFailedToStart
}

// callerOf is how the rank waits for the new job's call; nil if it does not. A program that is not MPI's never calls: its
// parent would wait without end, as under mpirun, and callForJob answers it.
func callerOf(c *conn, infos []bfrops.Info, apps []bfrops.App) *caller {
	by := jobdata.CallerOf(infos, apps)
	if by == nil {
		return nil
	}
	return &caller{Caller: by, who: c.me(), asked: c.who()}
}

// callForJob answers in place of a job that has ended without a call: MPI_Comm_spawn fails.
func (h *host) callForJob(ctx context.Context, by *caller) {
	h.show(by.who.ID, true, fmt.Sprintf("mpiup: MPI_Comm_spawn of %.200s by %s: it has ended without MPI_Init\n", by.Program, by.asked))
	if err := h.release(ctx, by); err != nil {
		h.log.Info("MPI_Comm_spawn", "id", by.who.ID, "cause", err)
	}
}

// release answers at the port in place of new ranks.
func (h *host) release(ctx context.Context, by *caller) error {
	key, value := by.Refusal()
	err := h.names.Publish(ctx, modex.OfProc, by.who, modex.Publication{
		Data: bfrops.PData{Proc: by.who.Proc, Key: key, Value: value}, Persist: modex.UntilRead})
	if errors.Is(err, kvs.ErrExists) {
		return nil
	}
	return err
}
