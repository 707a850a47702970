// Package mpirun is the command lines of the launchers that mpiup stands in for: Open MPI's
// (mpirun, orterun, prterun) and Hydra's (mpiexec of MPICH, MVAPICH and Intel MPI).
//
//	mpirun [options] program [args] [: [options] program [args]] ...
//
// One table per family names every option with its arity, what it means here and how far:
//
//	done       it means here what it means there
//	no effect  accepted; what it is for does not exist here, or is so anyway. Said with -v
//	refused    an error that says what to use instead
//
// An option that no table has is an error, never the program's name. Long options may have one
// hyphen or two; a value may follow "=". Options of one program (its number of ranks, variables,
// directory) may stand again after ":"; with Hydra all may.
//
// Facts of the real tools were tried with Open MPI 4.1.4 and 5.0.7 and MPICH 4.0.2.
//
// The package finds whose line it is and says what its options are; line reads it, with the rows of the family. Each line is read by a parser of its
// own, which nobody shares. No rank is mapped or bound here. PURE: files are read, and variables looked up, through line.Outside. docs/data has what
// the tables say, and a test compares.
package mpirun

import (
	"strings"

	"github.com/mpiup/mpiup/launcher/cli/mpirun/line"
)

// rowsOf is all options of a family.
func rowsOf(f line.Family) []line.Row {
	if f == line.Hydra {
		return new(hydraParser).rows()
	}
	return new(openMPIParser).rows()
}

// Parse reads the words after the launcher's own name. Errors are the user's.
func Parse(f line.Family, args []string, o line.Outside) (line.Line, error) {
	if f == line.Hydra {
		return parseHydra(args, o)
	}
	return parseOpenMPI(args, nil, o)
}

// ParseProgram reads options of Open MPI's in which another launcher's line was put, beside the words of its one
// program, which are the program's whatever they are: ":" begins another for mpirun alone.
func ParseProgram(options, program []string, o line.Outside) (line.Line, error) {
	return parseOpenMPI(options, program, o)
}

// Forward is what of the launcher's environment goes to the ranks of program i, over their agent's
// own and under what the command line says.
//
// Open MPI sends its own variables along and nothing else; parameters of its launcher and addresses
// of servers are not the ranks' business. Hydra sends everything.
func Forward(l *line.Line, i int, environ []string) (env []string) {
	in := l.Inherit
	if own := l.Contexts[i].Inherit; own != nil {
		in = *own
	}
	for _, kv := range environ {
		name, _, ok := strings.Cut(kv, "=")
		if ok && name != "" && (l.Family == line.Hydra && in.Sends(name) || l.Family == line.OpenMPI && Sends(l, name)) {
			env = append(env, kv)
		}
	}
	return env
}
