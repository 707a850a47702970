package mpilib

import (
	"testing"

	"github.com/mpiup/mpiup/internal/job"
)

func TestGuesses(t *testing.T) {
	ompi := image{notExecutable: true}
	for _, c := range []looked{
		{name: "MPI_HOME", tree: tree{"opt/ompi/lib/libmpi.so.40": ompi}, env: []string{"MPI_HOME=/opt/ompi"}, protocol: PMIx, why: ", and MPI_HOME=/opt/ompi is Open MPI's"},
		{name: "MPI_HOME of nothing", tree: tree{}, env: []string{"MPI_HOME=/opt/ompi"}, protocol: PMI1},
		{name: "I_MPI_ROOT", tree: tree{}, env: []string{"I_MPI_ROOT=/opt/intel"}, protocol: PMI1, why: "I_MPI_ROOT is Intel MPI's"},
		{name: "OPAL_PREFIX", tree: tree{}, env: []string{"OPAL_PREFIX=/x"}, protocol: PMIx, why: "OPAL_PREFIX is Open MPI's"},
		{name: "LD_LIBRARY_PATH", tree: tree{"opt/ompi/libmpi.so.40": ompi}, env: []string{"LD_LIBRARY_PATH=/x:/opt/ompi"}, protocol: PMIx, why: "/opt/ompi on LD_LIBRARY_PATH is Open MPI's"},
		{name: "Debian's mpirun", tree: tree{"usr/bin/mpirun": "-> mpirun.openmpi", "usr/bin/mpirun.openmpi": "-> orterun", "usr/bin/orterun": program()},
			protocol: PMIx, why: "/usr/bin/mpirun is Open MPI's"},
		{name: "Hydra", tree: tree{"usr/bin/mpiexec": "-> mpiexec.hydra", "usr/bin/mpiexec.hydra": program()}, protocol: PMI1, why: "/usr/bin/mpiexec is MPICH's"},
		{name: "mpirun by what it loads", tree: tree{"usr/bin/mpirun": program("libprrte.so.3")}, protocol: PMIx, why: "/usr/bin/mpirun is Open MPI's"},
		{name: "the only one", tree: tree{"etc/ld.so.cache": ldCacheOf("/usr/lib/libmpi.so.40")}, protocol: PMIx, why: "the only one here is Open MPI's"},
		{name: "two", tree: tree{"etc/ld.so.cache": ldCacheOf("/usr/lib/libmpi.so.40", "/usr/lib/libmpich.so.12")}, protocol: PMI1, why: "no MPI library was found in julia"},
		{name: "two, and mpirun -mca", tree: tree{"etc/ld.so.cache": ldCacheOf("/usr/lib/libmpi.so.40", "/usr/lib/libmpich.so.12")}, env: []string{"OMPI_MCA_pml=ob1"},
			protocol: PMIx, why: "parameters are given (OMPI_MCA_*) that are Open MPI's"},
		{name: "Hydra on PATH, and a parameter", tree: tree{"usr/bin/mpiexec": "-> mpiexec.hydra", "usr/bin/mpiexec.hydra": program()}, env: []string{"OMPI_MCA_pml=ob1"},
			protocol: PMI1, why: "/usr/bin/mpiexec is MPICH's"},
	} {
		c.command = "julia x.jl"
		c.run(t)
	}
}

// Whose launcher the command line names counts before what PATH holds, and a firm guess before what the environment points at; a library that
// the program shows counts before both.
func TestGuessesOfTheCommandLine(t *testing.T) {
	paths := map[string]tree{
		"nothing":  {},
		"Open MPI": {"usr/bin/mpirun": "-> mpirun.openmpi", "usr/bin/mpirun.openmpi": "-> orterun", "usr/bin/orterun": program()},
		"Hydra":    {"usr/bin/mpiexec": "-> mpiexec.hydra", "usr/bin/mpiexec.hydra": program()},
	}
	asked := map[string]job.Guess{
		"nobody's":        {},
		"Hydra's":         {Protocol: PMI1, Firm: true, Why: "the command line is Hydra's (it is called mpiexec.hydra)"},
		"Open MPI's":      {Protocol: PMIx, Firm: true, Why: "the command line is Open MPI's (only Open MPI has -x)"},
		"Hydra's, weakly": {Protocol: PMI1, Why: "the command line is Hydra's (HYDRA_HOST_FILE is set)"},
	}
	unseen := map[string][]string{"dlopen": {"./plain"}, "sh": {"sh", "-c", "$(cat prog) x"}, "no such file": {"julia", "x.jl"}, "env": {"env", "A=1", "./plain"}}
	for path, on := range paths {
		for whose, guess := range asked {
			for kind, argv := range unseen {
				want := map[string]job.Protocol{"Open MPI": PMIx}[path] // PATH decides where nobody asked
				if guess.Why != "" {
					want = guess.Protocol
				}
				why := map[bool]string{true: ", and " + guess.Why}[guess.Why != ""]
				looked{name: "PATH has " + path + ", the line is " + whose + ", " + kind, tree: both.with(on), argv: argv, guess: guess, protocol: want, why: why}.run(t)
				if guess.Why != "" {
					want = PMIx
					if guess.Firm {
						want = guess.Protocol
					}
					looked{name: "OPAL_PREFIX, PATH has " + path + ", the line is " + whose + ", " + kind, tree: both.with(on), argv: argv, env: []string{"OPAL_PREFIX=/opt"},
						guess: guess, protocol: want}.run(t)
				}
			}
			looked{name: "MPICH, PATH has " + path + ", the line is " + whose, tree: both.with(on), command: "./mpich", guess: guess, protocol: PMI1, library: mpich4Name, sure: true}.run(t)
			looked{name: "Open MPI, PATH has " + path + ", the line is " + whose, tree: both.with(on), command: "./ompi", guess: guess, protocol: PMIx, library: ompi4Name, sure: true}.run(t)
		}
	}
}
