package mpirun

import (
	"slices"
	"strings"
)

// notForRanks are names of the launcher's own container that Hydra would send along: with them a
// worker would take itself for the launcher.
var notForRanks = []string{"HOME", "HOSTNAME", "PWD", "PATH", "LD_LIBRARY_PATH"}

// notForRanksPrefixes and -Suffixes are those of Kubernetes, of the operators, of NVIDIA's runtime
// (MPI Operator empties them in the launcher), of mpiup and of Hydra itself.
var (
	notForRanksPrefixes = []string{"NVIDIA_", "K_MPI_", "KUBERNETES_", "MPIUP_", "HYDRA_", "I_MPI_HYDRA_"}
	notForRanksSuffixes = []string{"_SERVICE_HOST", "_SERVICE_PORT", "_PORT"}
	notForRanksWithin   = []string{"_SERVICE_PORT_", "_PORT_"}
)

// Forward is what of the launcher's environment goes to the ranks, over their agent's own and under
// what the command line says.
//
// Open MPI sends its own variables along and nothing else; parameters of its launcher and addresses
// of servers are not the ranks' business. Hydra sends everything.
func (l *Line) Forward(environ []string) (env []string) {
	for _, kv := range environ {
		name, _, ok := strings.Cut(kv, "=")
		if ok && name != "" && (l.Family == Hydra && l.hydraSends(name) || l.Family == OpenMPI && openMPISends(name)) {
			env = append(env, kv)
		}
	}
	return env
}

func (l *Line) hydraSends(name string) bool {
	switch {
	case l.NoExport && l.Export == nil:
		return false
	case l.Export != nil:
		return slices.Contains(l.Export, name)
	case slices.Contains(notForRanks, name), slices.Contains(l.Unset, name):
		return false
	}
	return !begins(name, notForRanksPrefixes) &&
		!slices.ContainsFunc(notForRanksSuffixes, func(s string) bool { return strings.HasSuffix(name, s) }) &&
		!slices.ContainsFunc(notForRanksWithin, func(s string) bool { return strings.Contains(name, s) }) &&
		!begins(name, []string{"PMI_", "PMIX_", "OMPI_COMM_WORLD_"})
}

func openMPISends(name string) bool {
	param, ok := strings.CutPrefix(name, "OMPI_MCA_")
	switch {
	case ok:
		return !begins(param, launcherFrameworks) && param != "pmix_server_uri"
	case strings.HasPrefix(name, "OMPI_"):
		return !begins(name, []string{"OMPI_COMM_WORLD_", "OMPI_UNIVERSE_SIZE", "OMPI_NUM_APP_CTX", "OMPI_FIRST_RANKS",
			"OMPI_APP_CTX_NUM_PROCS", "OMPI_FILE_LOCATION", "OMPI_COMMAND", "OMPI_ARGV", "OMPI_ALLOW_RUN_AS_ROOT"})
	}
	return strings.HasPrefix(name, "PMIX_MCA_") || strings.HasPrefix(name, "PRTE_") && !strings.HasPrefix(name, "PRTE_MCA_") && name != "PRTE_LAUNCHED"
}

func begins(name string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) })
}
