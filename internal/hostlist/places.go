package hostlist

import (
	"slices"
	"strings"
)

// Place is a line of a file that stands for one rank (Open MPI's --map-by seq).
type Place struct {
	Name string
	CPUs string // what else stands there, "1,3"; "": nothing
	Line int
}

// ParsePlaces reads a hostfile as Open MPI's sequential mapper does (orte/mca/rmaps/seq), for which each
// line is a rank, whatever slots stand there. What else follows the name is that rank's CPUs.
// entries are the file's hosts.
//
//	n0
//	n1 1,3      a rank on n1, on its cores 1 and 3
//	n0          another one on n0
func ParsePlaces(text, name string) (places []Place, entries []Entry, err error) {
	return parseFile(text, name, OpenMPI, true)
}

// cpusApart takes the words behind a host that set nothing out of its line: they list CPUs.
func cpusApart(fields []string) (host []string, cpus string) {
	host = slices.DeleteFunc(fields[1:], func(f string) bool {
		if strings.Contains(f, "=") {
			return false
		}
		cpus += f
		return true
	})
	return fields[:1+len(host)], cpus
}
