package line

import (
	"slices"
	"strings"
)

// Inherit is which variables of the launcher's own environment go along. The zero value is all.
type Inherit struct {
	None   bool
	Only   []string
	Except []string
	Given  bool // one was asked for
}

// notForRanks are names of the launcher's own container that Hydra would send along: with them a
// worker would take itself for the launcher.
var notForRanks = []string{"HOME", "HOSTNAME", "PWD", "PATH", "LD_LIBRARY_PATH"}

// notForRanksPrefixes and -Suffixes are those of Kubernetes, of the operators, of NVIDIA's runtime
// (MPI Operator empties them in the launcher), of mpiup and of Hydra itself.
var (
	notForRanksPrefixes = []string{"NVIDIA_", "K_MPI_", "KUBERNETES_", "MPIUP_", "HYDRA_", "I_MPI_HYDRA_",
		"PMI_", "PMIX_", "OMPI_COMM_WORLD_"} // the last: of a job that this launcher is in itself
	notForRanksSuffixes = []string{"_PORT"}
	notForRanksWithin   = []string{"_SERVICE_", "_PORT_"}
)

// Sends says whether a variable goes along.
func (in Inherit) Sends(name string) bool {
	switch {
	case in.None:
		return false
	case in.Only != nil:
		return slices.Contains(in.Only, name)
	case slices.Contains(notForRanks, name), slices.Contains(in.Except, name):
		return false
	}
	return (!Begins(name, notForRanksPrefixes) || strings.HasPrefix(name, "PMIX_MCA_")) &&
		!slices.ContainsFunc(notForRanksSuffixes, func(s string) bool { return strings.HasSuffix(name, s) }) &&
		!slices.ContainsFunc(notForRanksWithin, func(s string) bool { return strings.Contains(name, s) })
}

// Begins says whether a name begins in one of some ways.
func Begins(name string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) })
}
