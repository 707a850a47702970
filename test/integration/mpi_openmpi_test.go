package integration

import (
	"strings"
	"testing"

	"github.com/mpiup/mpiup/test/need"
)

// openMPI is a program built with Debian's Open MPI 4.1.4. PSM's libraries look 200 ms for hardware
// that is not there unless they are told which messaging layer to take.
func (l *lab) openMPI(t *testing.T, name string) string {
	t.Helper()
	need.Program(t, "mpicc.openmpi", "openmpi-bin and libopenmpi-dev")
	exe, err := l.compiled("mpicc.openmpi", name)
	if err != nil {
		t.Fatal(err)
	}
	return exe
}

var ompiFlags = []string{"-x", "OMPI_MCA_pml=ob1", "-x", "OMPI_MCA_btl=self,vader,tcp",
	"-x", "OMPI_MCA_mpi_yield_when_idle=1"}

func TestOpenMPI(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	for _, c := range []struct{ name, program, hosts, n, want string }{
		{"hello", "hello", "w0:2,w1:2", "4", "rank 3 of 4 on w1, 1 of 2 there"},
		{"ring", "ring", "w0:2,w1:2,w2:2", "6", "ring"},
		{"allreduce", "allreduce", "w0:1,w1:2", "3", "allreduce"},
		{"publish", "publish", "w0:1,w1:1", "2", "publish ok"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			args := append(append([]string{"-n", c.n}, ompiFlags...), l.openMPI(t, c.program))
			if r := l.run(t, job{hosts: c.hosts, args: args}).OK(t); !strings.Contains(r.Stdout, c.want) {
				t.Errorf("printed %q", r.Stdout)
			}
		})
	}
	t.Run("abort", func(t *testing.T) {
		t.Parallel()
		args := append(append([]string{"-n", "4"}, ompiFlags...), l.openMPI(t, "abort"), "42")
		if r := l.run(t, job{hosts: "w0:2,w1:2", args: args}); r.Code != 42 {
			t.Errorf("exit code %d\n%s", r.Code, r.Stderr)
		}
	})
}
