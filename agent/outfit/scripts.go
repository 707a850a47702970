package outfit

import (
	"slices"
	"strconv"
	"strings"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
)

// scriptVariables are what wrapper scripts and frameworks look at, by the names of the launchers
// they were written for. Every rank of every protocol gets them: libraries take them for what they
// are, or do not read them. PMI_* and PMIX_* are not among them, since by those a library tells which
// server it has (pmi-wire.md 1.3). docs/data/environment.tsv says what each means.
func scriptVariables(l *apiv1.Launch, p *apiv1.Proc, dir string) []string {
	local := strconv.Itoa(len(l.Procs))
	env := []string{
		// Open MPI's mpirun (mpirun-cli.md 3.5). Its node rank counts among the processes of a host.
		"OMPI_COMM_WORLD_RANK=" + utoa(p.Rank),
		"OMPI_COMM_WORLD_SIZE=" + utoa(l.Job.Size),
		"OMPI_COMM_WORLD_LOCAL_RANK=" + utoa(p.LocalRank),
		"OMPI_COMM_WORLD_LOCAL_SIZE=" + local,
		"OMPI_COMM_WORLD_NODE_RANK=" + utoa(p.LocalRank),
		"OMPI_UNIVERSE_SIZE=" + utoa(l.Job.Universe),
		// Hydra's, which Intel MPI also reads, and libfabric's PSM3.
		"MPI_LOCALRANKID=" + utoa(p.LocalRank),
		"MPI_LOCALNRANKS=" + local,
		// MVAPICH's mpirun_rsh.
		"MV2_COMM_WORLD_RANK=" + utoa(p.Rank),
		"MV2_COMM_WORLD_SIZE=" + utoa(l.Job.Size),
		"MV2_COMM_WORLD_LOCAL_RANK=" + utoa(p.LocalRank),
		"MV2_COMM_WORLD_LOCAL_SIZE=" + local,
	}
	return append(env, appVariables(l, p, dir)...)
}

// appVariables say of which programs the job is, as Open MPI's mpirun does; Open MPI 4 makes
// MPI_INFO_ENV of them.
func appVariables(l *apiv1.Launch, p *apiv1.Proc, dir string) []string {
	sizes, firsts := make([]int, len(l.Apps)), make([]int, len(l.Apps))
	if len(l.Job.AppOf) == 0 && len(l.Apps) > 0 {
		sizes[0] = int(l.Job.Size)
	}
	for rank, app := range l.Job.AppOf {
		if int(app) >= len(sizes) {
			continue
		}
		if sizes[app] == 0 {
			firsts[app] = rank
		}
		sizes[app]++
	}
	words := func(numbers []int) string {
		list := make([]string, len(numbers))
		for i, n := range numbers {
			list[i] = strconv.Itoa(n)
		}
		return strings.Join(list, " ")
	}
	argv := l.Apps[p.App].Argv
	env := []string{
		"OMPI_NUM_APP_CTX=" + strconv.Itoa(len(l.Apps)),
		"OMPI_FIRST_RANKS=" + words(firsts),
		"OMPI_APP_CTX_NUM_PROCS=" + words(sizes),
		"OMPI_COMMAND=" + argv[0],
	}
	if len(argv) > 1 {
		env = append(env, "OMPI_ARGV="+strings.Join(argv[1:], " "))
	}
	if dir != "" {
		env = append(env, "OMPI_MCA_initial_wdir="+dir)
	}
	return slices.DeleteFunc(env, func(kv string) bool { return len(kv) >= maxString })
}

// maxString is what no argument and no variable of a program may be as long as, with its final zero
// byte (MAX_ARG_STRLEN of Linux). A rank with more arguments than that goes without OMPI_ARGV; under
// Open MPI it could not be started.
const maxString = 32 * 4096

// isScriptVariable says that a variable is one of scriptVariables, which an outer job may have left.
func isScriptVariable(name string) bool {
	return strings.HasPrefix(name, "OMPI_COMM_WORLD_") || strings.HasPrefix(name, "MV2_COMM_WORLD_") || slices.Contains([]string{
		"OMPI_UNIVERSE_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "OMPI_NUM_APP_CTX", "OMPI_FIRST_RANKS",
		"OMPI_APP_CTX_NUM_PROCS", "OMPI_COMMAND", "OMPI_ARGV", "OMPI_MCA_initial_wdir", "OMPI_FILE_LOCATION"}, name)
}
