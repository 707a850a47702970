package integration

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// dlopener opens an MPI library by name, so that its own file shows none.
func (l *lab) dlopener(t *testing.T) string {
	t.Helper()
	exe, err := l.compiled("cc", "dlopen")
	if err != nil {
		t.Fatal(err)
	}
	return exe
}

// mpichLibrary is MPICH's library.
func (l *lab) mpichLibrary(t *testing.T) string {
	t.Helper()
	paths, err := filepath.Glob("/usr/lib/*/libmpich.so.12")
	if err != nil || len(paths) == 0 {
		t.Fatalf("MPICH's library: %q, %v", paths, err)
	}
	return paths[0]
}

// calledLike is a program under another name, in a directory of its own.
func (l *lab) calledLike(t *testing.T, exe, name string) string {
	t.Helper()
	to := filepath.Join(l.folder(t), name)
	if err := os.Link(exe, to); err != nil {
		t.Fatal(err)
	}
	return to
}

// staticMPICH is the program hello with MPICH in it, or "" where that cannot be made here.
func (l *lab) staticMPICH(t *testing.T) string {
	t.Helper()
	archives, _ := filepath.Glob("/usr/lib/*/libmpich.a") // a pattern of ours
	fabric, _ := filepath.Glob("/usr/lib/*/libfabric.so.1")
	if len(archives) == 0 || len(fabric) == 0 {
		return ""
	}
	to := filepath.Join(l.folder(t), "static")
	cmd := exec.Command("cc", "-I/usr/include/"+filepath.Base(filepath.Dir(archives[0]))+"/mpich", "../mpi/hello.c", archives[0], "-o", to,
		"-lucp", "-luct", "-lucs", "-lucm", "-lhwloc", fabric[0], "-lpthread", "-lm")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Logf("no program with MPICH in it: %v\n%s", err, out)
		return ""
	}
	return to
}

// TestAloneIsNoSuccess: several ranks that each called MPI_Init and reached nobody fail the run, with real libraries, on one host and on two. Who merely
// has the library, is the only one, or means it, does not.
func TestAloneIsNoSuccess(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	for _, host := range []string{"w0", "w1"} {
		keepSessionDir(t, host)
	}
	ompi, mpich, opener := l.openMPI(t, "hello"), l.program(t, "hello"), l.dlopener(t)
	libmpi, libmpich := l.libmpi(t), l.mpichLibrary(t)
	clean := "env -i " + mpich
	type try struct {
		name  string
		hosts string
		n     string
		args  []string
		code  int
		says  string
	}
	const two = "w0:2,w1:2"
	tries := []try{
		{"MPICH with PMIx", two, "4", []string{"--mpi", "pmix", mpich}, 247, "ranks 0-3 called MPI_Init and were each alone"},
		{"MPICH with PMIx, a rank a host", "w0:1,w1:1", "2", []string{"--mpi", "pmix", mpich}, 247, "ranks 0-1 called MPI_Init and were each alone"},
		{"MPICH with PMIx, one host", "w0:2", "2", []string{"--mpi", "pmix", mpich}, 247, "ranks 0-1 called MPI_Init"},
		{"Open MPI with PMI-1", two, "4", []string{"--mpi", "pmi1", ompi}, 247, "ranks 0-3 called MPI_Init and were each alone"},
		{"Open MPI with PMI-1 over a port", two, "4", []string{"--mpi", "pmi-port", ompi}, 247, "ranks 0-3 called MPI_Init"},
		{"MPICH by dlopen", two, "4", []string{"--mpi", "pmix", opener, libmpich}, 247, "ranks 0-3 called MPI_Init"},
		{"Open MPI by dlopen", two, "4", []string{"--mpi", "pmi1", opener, libmpi}, 247, "ranks 0-3 called MPI_Init"},
		{"a wrapper takes the variables away", two, "4", []string{"env", "-u", "PMI_FD", mpich}, 247, "see whether a wrapper takes PMI_*"},
		{"a shell takes them away and waits", two, "4", []string{"sh", "-c", clean + "; true"}, 247, "ranks 0-3 called MPI_Init"},
		{"two programs of one rank", "w0:1,w1:1", "1", []string{"--mpi", "pmix", mpich, ":", "-n", "1", mpich}, 247, "ranks 0-1 called MPI_Init"},

		{"meant", two, "4", []string{"--mpi", "pmix", "--alone-ok", mpich}, 0, ""},
		{"meant, by a variable of Open MPI", two, "4", []string{"--mpi", "pmi1", "-x", "OMPI_MCA_ess_singleton_isolated=1", ompi}, 0, ""},
		{"no protocol was asked for", two, "4", []string{"--mpi", "none", mpich}, 0, ""},
		{"one rank", "w0:1", "1", []string{"--mpi", "pmix", mpich}, 0, ""},
		{"the library alone", two, "4", []string{"--mpi", "pmix", opener, libmpich, "no"}, 0, "never spoke to mpiup"},
		{"Open MPI's library alone", two, "4", []string{"--mpi", "pmi1", opener, libmpi, "no"}, 0, "never spoke to mpiup"},
		{"a library that is linked and not used", two, "4", []string{"--mpi", "pmi1", "env", "LD_PRELOAD=" + libmpi, "sleep", "0.3"}, 0, "never spoke to mpiup"},
		{"rank 0 alone", two, "4", []string{"--mpi", "pmix", "sh", "-c", "[ $MPIUP_RANK != 0 ] || exec " + mpich}, 0, ""},
		{"an MPI program that a script in Python runs", two, "4", []string{"--mpi", "pmix", "python3", "-c", "import subprocess; subprocess.run(['" + mpich + "'])"}, 0, ""},
		{"ranks that run a launcher of their own", "w0:2", "2", []string{"sh", "-c", "mpiexec.mpich -n 2 " + mpich}, 0, ""},
		{"ranks that are together", two, "4", []string{mpich}, 0, ""},
		{"Open MPI's that are together", two, "4", []string{ompi}, 0, ""},
		{"a failure of its own counts", two, "4", []string{"--mpi", "pmix", "sh", "-c", mpich + "; exit 3"}, 3, "exited with code 3"},
	}
	if static := l.staticMPICH(t); static != "" {
		tries = append(tries, try{"MPICH in the program", two, "4", []string{"--mpi", "pmix", static}, 247, "ranks 0-3 called MPI_Init"},
			try{"MPICH in the program, together", two, "4", []string{static}, 0, ""})
	}
	for _, c := range tries {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := l.run(t, job{hosts: c.hosts, args: append([]string{"-n", c.n, "-x", "OMPI_MCA_pml=ob1", "-x", "OMPI_MCA_btl=self,vader,tcp"}, c.args...)})
			if r.Code != c.code || !strings.Contains(r.Stderr, c.says) || c.code != 247 && strings.Contains(r.Stderr, "were each alone") {
				t.Errorf("ended with %d, not %d, and says, not %q:\n%s", r.Code, c.code, c.says, r.Stderr)
			}
		})
	}
}

// TestAloneInPython: mpi4py calls MPI_Init where it is imported, or does not.
func TestAloneInPython(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	python := filepath.Join(l.wheels(t), "python")
	const imports = "from mpi4py import MPI; print(MPI.COMM_WORLD.size)"
	for _, c := range []struct {
		name, script string
		env          []string
		code         int
	}{
		{"imported, and nobody reached", imports, []string{"-u", "PMI_FD", "-u", "PMI_RANK", "-u", "PMI_SIZE"}, 247},
		{"imported, on rank 0 alone", "import os\nif os.environ['MPIUP_RANK'] == '0':\n    " + imports, []string{"-u", "PMI_FD", "-u", "PMI_RANK", "-u", "PMI_SIZE"}, 0},
		{"imported without MPI_Init", "import mpi4py, time; mpi4py.rc.initialize = False\nfrom mpi4py import MPI\ntime.sleep(0.5)", nil, 0},
		{"imported, together", imports, nil, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			args := append(append([]string{"-n", "2", "env"}, c.env...), python, "-c", c.script)
			if r := l.run(t, job{hosts: "w0:1,w1:1", args: args}); r.Code != c.code {
				t.Errorf("ended with %d, not %d:\n%s%s", r.Code, c.code, r.Stdout, r.Stderr)
			}
		})
	}
}

// TestNamesOfLaunchersAndPrograms: what is offered a program whose file shows no library is what the launcher's name, MPIUP_FAMILY or an option says,
// whatever mpirun is on PATH; and what is called like a tool and linked with MPI is no tool.
func TestNamesOfLaunchersAndPrograms(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	for _, host := range []string{"w0", "w1"} {
		keepSessionDir(t, host)
	}
	opener := l.dlopener(t)
	mpich, ompi := []string{opener, l.mpichLibrary(t)}, []string{opener, l.libmpi(t)}
	made := func(argv []string) []string { return []string{"sh", "-c", "$(echo " + argv[0] + ") " + argv[1]} } // no look finds it
	for _, c := range []struct {
		name, called string
		env          []string
		args         []string
		code         int // 247: the family's own launcher runs it alone, too
	}{
		{"Hydra's name", "mpiexec.hydra", nil, mpich, 0},
		{"MPICH's name", "mpiexec.mpich", nil, mpich, 0},
		{"MPICH's other name", "mpirun.mpich", nil, made(mpich), 0},
		{"Hydra's name, a shell", "mpiexec.hydra", nil, made(mpich), 0},
		{"Open MPI's name", "mpirun.openmpi", nil, ompi, 0},
		{"Open MPI's other name", "mpiexec.openmpi", nil, made(ompi), 0},
		{"orterun", "orterun", nil, ompi, 0},
		{"prterun", "prterun", nil, ompi, 0},
		{"a variable", "mpirun", []string{"MPIUP_FAMILY=hydra"}, mpich, 0},
		{"a variable against the name", "mpiexec.hydra", []string{"MPIUP_FAMILY=openmpi"}, ompi, 0},
		{"Hydra's option", "mpirun", nil, append([]string{"-genvall"}, mpich...), 0},
		{"Open MPI's option", "mpiexec", nil, append([]string{"--mca", "pml", "ob1"}, ompi...), 0},
		{"Hydra's operator", "mpirun", []string{"HYDRA_HOST_FILE=" + l.file(t, "w0:1\nw1:1\n")}, mpich, 0},
		{"Intel's environment", "mpiexec", []string{"I_MPI_ROOT=/opt/intel/mpi"}, mpich, 0},
		{"Hydra's name before Open MPI's program", "mpiexec.hydra", nil, ompi, 247},
		{"Open MPI's name before MPICH's program", "mpirun.openmpi", nil, mpich, 247},
		{"perf", "mpirun", nil, []string{l.calledLike(t, l.program(t, "hello"), "perf")}, 0},
		{"map", "mpiexec.hydra", nil, []string{l.calledLike(t, l.program(t, "hello"), "map")}, 0},
		{"time", "mpirun", nil, []string{l.calledLike(t, l.program(t, "hello"), "time"), "-x"}, 0},
		{"env", "mpirun", nil, []string{l.calledLike(t, l.program(t, "hello"), "env"), "A=1"}, 0},
		{"numactl of Open MPI", "mpiexec.hydra", nil, []string{l.calledLike(t, l.openMPI(t, "hello"), "numactl")}, 0},
		{"the tool env", "mpirun", nil, []string{"env", "A=1", l.program(t, "hello")}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			hosts := []string{"-host", "w0,w1", "-n", "2"}
			if strings.Contains(c.name, "operator") {
				hosts = hosts[2:]
			}
			env := append([]string{"OMPI_MCA_pml=ob1", "OMPI_MCA_btl=self,vader,tcp", "OMPI_MCA_mpi_yield_when_idle=1"}, c.env...)
			r := l.called(t, c.called, job{env: env}, append(hosts, c.args...)...)
			together := strings.Count(r.Stdout, " of 2") == 2
			if r.Code != c.code || together != (c.code == 0) {
				t.Errorf("%s: ended with %d, not %d\n%s%s", fmt.Sprint(c.args), r.Code, c.code, r.Stdout, r.Stderr)
			}
		})
	}
}
