package jobdata

import (
	"strings"

	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/pmi/pmix/bfrops"
)

// A spawn is MPI_Comm_spawn and MPI_Comm_spawn_multiple as PMIx clients put them (PMIx_Spawn): what they ask for, and
// how one that gets nothing is told.
//
//	apps, attributes ──Request──▶ job.Spawn, within its bounds
//	                 ──CallerOf─▶ the port where Open MPI's root waits for the new ranks' call
//	                                └─Refusal──▶ the pair that answers there in place of new ranks
//
// Values only, for use from any goroutine. It starts nothing.

// Request is what the rank parent asks for. getenv is what its user has set for it. Its error is for people.
func Request(parent int, infos []bfrops.Info, apps []bfrops.App, getenv func(name string) string) (job.Spawn, error) {
	req := job.Spawn{Parent: parent}
	for _, a := range apps {
		// Open MPI's launchers add the working directory to what they search (opal_path_findv of 4.1,
		// pmix_path_findv of PRRTE 3).
		p := job.SpawnProgram{Argv: Argv(a), Procs: a.MaxProcs, Dir: a.Dir, AlsoDir: true}
		env := envList{getenv: getenv}
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

// Argv is the command line of a program; its first is never missing.
func Argv(a bfrops.App) []string {
	switch {
	case len(a.Argv) == 0 || a.Cmd != "" && len(a.Argv) == 1:
		return []string{a.Cmd}
	case a.Cmd == "":
		return a.Argv
	}
	return append([]string{a.Cmd}, a.Argv[1:]...)
}
