package mpilib

import "testing"

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
