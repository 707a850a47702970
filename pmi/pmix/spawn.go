package pmix

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/pmi/pmix/bfrops"
)

// spawn is MPI_Comm_spawn and MPI_Comm_spawn_multiple. The answer names the new job and tells what
// ranks of other jobs are told of it.
func (c *conn) spawn(ctx context.Context, r *bfrops.Reader) (*bfrops.Writer, error) {
	infos := r.Infos()
	apps := bfrops.Counted[bfrops.App](r, bfrops.AppType)
	if r.Err() != nil {
		return nil, r.Err()
	}
	ctx, cancel := within(ctx, infos)
	defer cancel()
	req, err := c.request(infos, apps)
	if err != nil {
		c.sayRefused(apps, err)
		return c.spawnRefused(ctx, infos, apps)
	}
	child, err := c.start(ctx, req)
	if err != nil {
		c.s.log.Info("MPI_Comm_spawn failed", "id", c.id(), "cause", err)
		return c.spawnRefused(ctx, infos, apps)
	}
	if by := c.callerOf(infos, apps); by != nil {
		c.s.expectCall(ctx, child, by)
	}
	groups, err := child.data.packed(jobDataKind{c.dialect, c.desc, true})
	if err != nil {
		return nil, err
	}
	w := c.writer()
	w.Status(int(success))
	w.Group(bfrops.String, child.Namespace)
	w.Raw(groups)
	return w, nil
}

// start has the job started.
func (c *conn) start(ctx context.Context, req job.Spawn) (*namespace, error) {
	number, err := c.s.cfg.Spawn(ctx, c.ns.Number, req)
	if err != nil {
		return nil, err
	}
	child := c.s.job(number)
	if child == nil {
		return nil, fmt.Errorf("job %d was started, and its ranks are not known here", number)
	}
	return child, nil
}

const errFailedToLaunch status = -181

// sayRefused shows with the rank's output why nothing is spawned: the statuses that MPI libraries
// make of the answer say little.
func (c *conn) sayRefused(apps []bfrops.App, cause error) {
	c.s.log.Warn("MPI_Comm_spawn is refused", "id", c.id(), "cause", cause)
	program := "nothing"
	if len(apps) > 0 {
		program = appArgv(apps[0])[0]
	}
	if f := c.s.cfg.Hooks.OnLog; f != nil {
		f(c.id(), true, printable(fmt.Sprintf("mpiup: MPI_Comm_spawn of %.200s by %s: %v\n", program, c.who(), cause)))
	}
}

// spawnRefused answers the rank. In Open MPI before 5 the other ranks wait in MPI_Comm_spawn for the
// root to tell them who was started, and a root whose request failed returns without a word
// (ompi/mpi/c/comm_spawn.c, v4.1.4): it is told of a job that fails to connect. 5.0 tells the others.
func (c *conn) spawnRefused(ctx context.Context, infos []bfrops.Info, apps []bfrops.App) (*bfrops.Writer, error) {
	if by := c.callerOf(infos, apps); by != nil && !by.ompi5 && c.ns.Size > 1 {
		if err := c.s.release(ctx, by); err == nil {
			w := c.writer()
			w.Status(int(success))
			w.Group(bfrops.String, refusedNamespace)
			return w, nil
		}
	}
	return nil, errFailedToLaunch
}

// callerOf is how the rank waits for the new job's call; nil if it does not, or not as Open MPI does.
func (c *conn) callerOf(infos []bfrops.Info, apps []bfrops.App) *caller {
	personality, _ := attribute(infos, "pmix.pers")
	if p := personality.Text(); p != "ompi" && p != "ompi5" || len(apps) == 0 {
		return nil
	}
	for _, kv := range apps[0].Env {
		if port, ok := strings.CutPrefix(kv, "OMPI_PARENT_PORT="); ok && port != "" {
			return &caller{c.process(), port, personality.Text() == "ompi5", appArgv(apps[0])[0], c.who()}
		}
	}
	return nil
}

// appArgv is the command line of a program; its first is never missing.
func appArgv(a bfrops.App) []string {
	switch {
	case len(a.Argv) == 0 || a.Cmd != "" && len(a.Argv) == 1:
		return []string{a.Cmd}
	case a.Cmd == "":
		return a.Argv
	}
	return append([]string{a.Cmd}, a.Argv[1:]...)
}

// request is what infos and apps ask for, within the bounds of job.Spawn.Check.
func (c *conn) request(infos []bfrops.Info, apps []bfrops.App) (job.Spawn, error) {
	req := job.Spawn{Parent: c.rank}
	if c.s.cfg.Spawn == nil {
		return req, errors.New("this job was started in a way that cannot start more processes")
	}
	for _, a := range apps {
		// Open MPI's launchers add the working directory to what they search (opal_path_findv of 4.1,
		// pmix_path_findv of PRRTE 3).
		p := job.SpawnProgram{Argv: appArgv(a), Procs: a.MaxProcs, Dir: a.Dir, AlsoDir: true}
		env := envList{getenv: func(name string) string { return c.ns.userHas(c.rank, name) }}
		for _, kv := range a.Env {
			if name, value, ok := strings.Cut(kv, "="); ok && name != "" {
				env.set(name, value)
			}
		}
		for _, list := range [][]bfrops.Info{infos, a.Infos} { // what is said of the program prevails
			for _, i := range list {
				if err := applyInfo(&p, &env, i); err != nil {
					return req, err
				}
			}
		}
		p.Env = env.list()
		req.Programs = append(req.Programs, p)
	}
	return req, req.Check()
}
