package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/test/need"
)

// library is libmpiup-watch.so, beside the binary that hosts run.
func (l *lab) library(t *testing.T) string {
	t.Helper()
	path := filepath.Join(filepath.Dir(l.bin), "libmpiup-watch.so")
	need.File(t, "watch", path, "make watch")
	return path
}

// fortran compiles test/mpi/waits.f90 with a library's own compiler, by the module mpi or by mpi_f08.
func (l *lab) fortran(t *testing.T, mpif90, name string, flags ...string) string {
	t.Helper()
	need.Program(t, "gfortran", "gfortran")
	exe := filepath.Join(l.folder(t), name)
	source, err := filepath.Abs("../mpi/waits.f90")
	if err != nil {
		t.Fatal(err)
	}
	args := append([]string{"-cpp", "-O1", "-o", exe, source}, flags...)
	if out, err := exec.Command(mpif90, args...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return exe
}

// A rank that takes twice as long as the others is named while it runs and at the end, in C and in Fortran, with MPICH and with Open MPI;
// one of ranks that are alike is not. All that a program computes is the same to the last bit, watched or not.
func TestWatchRanks(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	l.library(t)
	openmpi, err := l.compiled("mpicc.openmpi", "waits")
	if err != nil {
		t.Fatal(err)
	}
	python, err := filepath.Abs("../mpi/waits.py")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(python)
	if err != nil {
		t.Fatal(err)
	}
	python = filepath.Join(l.folder(t), "waits.py")
	if err := os.WriteFile(python, text, 0o644); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ slow, alike []string }{
		"MPICH 5, mpi4py":   {slow: []string{filepath.Join(l.wheels(t), "python"), python, "100", "2"}},
		"MPICH":             {[]string{l.program(t, "waits"), "100", "0.05", "2", "2"}, []string{l.program(t, "waits"), "100", "0.05", "-1", "2"}},
		"Open MPI":          {[]string{openmpi, "100", "0.05", "2", "2"}, []string{openmpi, "100", "0.05", "-1", "2"}},
		"MPICH, Fortran":    {slow: []string{l.fortran(t, "mpif90.mpich", "mpich"), "100", "2"}},
		"Open MPI, f08":     {slow: []string{l.fortran(t, "mpif90.openmpi", "openmpi-f08", "-DF08"), "100", "2"}},
		"MPICH, f08":        {slow: []string{l.fortran(t, "mpif90.mpich", "mpich-f08", "-DF08"), "100", "2"}},
		"Open MPI, Fortran": {slow: []string{l.fortran(t, "mpif90.openmpi", "openmpi"), "100", "2"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run := func(program []string, flags ...string) result {
				return l.run(t, job{hosts: "w0:2,w1:2", args: slices.Concat([]string{"-n", "4"}, flags, program)})
			}
			r := run(c.slow, "--watch-ranks", "--watch-window", "3s")
			if n := strings.Count(r.Stderr, "mpiup: rank 2 (w1, pid "); r.Code != 0 || n != 2 || strings.Contains(r.Stderr, "rank 0 (") ||
				!strings.Contains(r.Stderr, " % of the last ") || !strings.Contains(r.Stderr, "; it neither computed nor waited for a processor or storage ") {
				t.Errorf("it ends with %d, and says\n%s", r.Code, r.Stderr)
			}
			if bare := run(c.slow); byLine(bare.Stdout) != byLine(r.Stdout) || bare.Code != 0 {
				t.Errorf("without being watched it computes\n%s\nand with it\n%s", bare.Stdout, r.Stdout)
			}
			if c.alike == nil {
				return
			}
			if r := run(c.alike, "--watch-ranks", "--watch-window", "3s"); r.Code != 0 || strings.Contains(r.Stderr, "waited") || strings.Contains(r.Stderr, "measured") {
				t.Errorf("ranks that are alike: %d\n%s", r.Code, r.Stderr)
			}
		})
	}
}

// byLine is an output with its lines in order of their text.
func byLine(output string) string {
	list := strings.Split(output, "\n")
	slices.Sort(list)
	return strings.Join(list, "\n")
}

// What is not measured is said, and is never taken for health.
func TestNotWatched(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	l.library(t)
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no MPI":        {[]string{"sh", "-c", "sleep 1.5"}, "--watch-ranks: who is slow was not measured: ranks did not call MPI_Init where it can be seen"},
		"another tool":  {[]string{"-x", "LD_PRELOAD=" + l.tool(t), "sh", "-c", "sleep 1.5"}, "is not watched: LD_PRELOAD has "},
		"a long window": {[]string{"--watch-window", "1h", l.program(t, "waits"), "1", "1", "-1", "1"}, "who is slow was not measured: some ranks were not heard of"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := slices.Concat([]string{"-n", "2", "--watch-ranks"}, c.args)
			if c.args[0] != "--watch-window" {
				args = slices.Concat([]string{"--watch-window", "3s"}, args)
			}
			if r := l.run(t, job{hosts: "w0,w1", args: args}); r.Code != 0 || !strings.Contains(r.Stderr, c.want) {
				t.Errorf("%d\n%s", r.Code, r.Stderr)
			}
		})
	}
}

// tool is a library that stands before MPI_Init, as profilers do.
func (l *lab) tool(t *testing.T) string {
	t.Helper()
	need.Program(t, "gcc", "gcc")
	path := filepath.Join(l.folder(t), "libtool.so")
	cmd := exec.Command("gcc", "-shared", "-fPIC", "-o", path, "-x", "c", "-")
	cmd.Stdin = strings.NewReader("int MPI_Init(int *a, char ***b) { return 0; }\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}
