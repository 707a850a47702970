package integration

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/test/need"
)

// Horovod with MPI and Gloo in it takes MPI, and Gloo where it is told to, then also twice in one process.
func TestHorovodBare(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	python, whole := framework("horovod")
	need.File(t, "horovod", whole, "run test/frameworks.sh horovod")
	script := l.example(t, "horovod-pytorch")
	again := fmt.Sprintf("import sys; sys.path.insert(0, %q); import train; sys.exit(train.main() or train.main())", filepath.Dir(script))
	for _, c := range []struct {
		name    string
		args    []string
		program []string
		times   int
	}{
		{"MPI", nil, []string{script}, 1},
		{"Gloo", []string{"--env", "horovod"}, []string{script}, 1},
		{"Gloo twice, as the user asks", []string{"-x", "HOROVOD_CONTROLLER=gloo", "-x", "HOROVOD_CPU_OPERATIONS=gloo"}, []string{"-c", again}, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			args := slices.Concat([]string{"-n", "4"}, c.args, []string{python}, c.program)
			r := l.run(t, job{hosts: "w0:2,w1:2", args: args})
			learns(t, r, 4)
			if n := strings.Count(r.Stdout, "weights equal"); n != 4*c.times {
				t.Errorf("%d lines of %d ranks:\n%s", n, 4, r.Stdout)
			}
		})
	}
}

// Horovod of MPICH has MPI only, and finds it.
func TestHorovodOfMPICHBare(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	python, whole := framework("horovod-mpich")
	need.File(t, "horovod-mpich", whole, "run test/frameworks.sh horovod-mpich")
	learns(t, l.run(t, job{hosts: "w0:2,w1:2", args: []string{"-n", "4", python, l.example(t, "horovod-pytorch")}}), 4)
}

// mpiup under horovodrun's name, with its command line: no ssh, no mpirun and no horovodrun is asked.
func TestAsHorovodrun(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	python, whole := framework("horovod")
	need.File(t, "horovod", whole, "run test/frameworks.sh horovod")
	script := l.example(t, "horovod-pytorch")
	for _, how := range []string{"--gloo", "--mpi"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			learns(t, l.called(t, "horovodrun", job{}, "-np", "4", "-H", "w0:2,w1:2", how, "--cycle-time-ms", "2", python, script), 4)
		})
	}
}
