package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/test/need"
)

// wheels is the directory of programs that test/wheels.sh installed.
func (l *lab) wheels(t *testing.T) string {
	t.Helper()
	bin := filepath.Join(l.venv, "bin")
	need.File(t, "wheels", filepath.Join(bin, "mpicc"), "run test/wheels.sh")
	return bin
}

// openMPI5 is where test/wheels.sh puts Open MPI 5.
func (l *lab) openMPI5() string { return filepath.Join(filepath.Dir(l.venv), "openmpi5") }

// MPICH 5 (ch4:ofi) speaks to mpiup as Debian's MPICH 4.0.2 does.
func TestMPICH5(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	bin := l.wheels(t)
	for _, c := range []struct{ name, program, hosts, flags, args, want string }{
		{"hello", "hello", "w0:2,w1:2", "-n 4", "", "rank 3 of 4 on w1, 1 of 2 there"},
		{"hello over a port", "hello", "w0:2,w1:2", "-n 4 --mpi pmi-port", "", "rank 3 of 4 on w1, 1 of 2 there"},
		{"ring", "ring", "w0:2,w1:2", "-n 4", "", "ring"},
		{"publish", "publish", "w0:1,w1:1", "-n 2", "", "publish ok"},
		{"sessions", "session", "w0:1,w1:1", "-n 2", "", "session ok"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			exe, err := l.compiled(filepath.Join(bin, "mpicc"), c.program)
			if err != nil {
				t.Fatal(err)
			}
			args := append(strings.Fields(c.flags), exe)
			if r := l.run(t, job{hosts: c.hosts, args: args}).OK(t); !strings.Contains(r.Stdout, c.want) {
				t.Errorf("printed %q, not %q", r.Stdout, c.want)
			}
		})
	}
	exe, err := l.compiled(filepath.Join(bin, "mpicc"), "abort")
	if err != nil {
		t.Fatal(err)
	}
	l.run(t, job{hosts: "w0:1,w1:1", args: []string{"-n", "2", exe, "42"}}).Fails(t, 42, "rank 1 on w1 called MPI_Abort with code 42")
}

func TestMPI4Py(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	bin := l.wheels(t)
	script, err := os.ReadFile("../mpi/collective.py")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(l.folder(t), "collective.py")
	if err := os.WriteFile(file, script, 0o644); err != nil {
		t.Fatal(err)
	}
	r := l.run(t, job{hosts: "w0:2,w1:2", args: []string{"-n", "4", filepath.Join(bin, "python"), file}}).OK(t)
	if !strings.Contains(r.Stdout, "collective ok 4 ranks, 2 hosts, MPICH") {
		t.Errorf("printed %q", r.Stdout)
	}
}
