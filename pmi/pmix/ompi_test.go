package pmix_test

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/test/need"
)

// program compiles test/mpi/NAME.c with Debian's Open MPI.
func program(t *testing.T, name string) string {
	t.Helper()
	need.Program(t, "mpicc.openmpi", "openmpi-bin and libopenmpi-dev")
	exe := filepath.Join(t.TempDir(), name)
	cc := exec.Command("mpicc.openmpi", "-O1", "-Wall", "-rdynamic", "-o", exe, "../../test/mpi/"+name+".c")
	if out, err := cc.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return exe
}

func (o outcome) clean(t *testing.T) {
	t.Helper()
	for id, exit := range o.exit {
		if exit != "exit status 0" {
			t.Errorf("process %d: %s", id, exit)
		}
	}
	if len(o.errs) > 0 {
		t.Error(errors.Join(o.errs...))
	}
	if t.Failed() {
		t.Log(o.out)
	}
}

// hello checks what test/mpi/hello.c printed: every rank knows its place in the job and on its host.
func (j *trial) hello(t *testing.T, o outcome) {
	t.Helper()
	o.clean(t)
	size := j.hosts * j.perHost
	for r := range size {
		want := fmt.Sprintf("rank %d of %d on ", r, size)
		i := strings.Index(o.out, want)
		if i < 0 {
			t.Fatalf("%q is missing in\n%s", want, o.out)
		}
		line, _, _ := strings.Cut(o.out[i:], "\n")
		if want := fmt.Sprintf(", %d of %d there", r%j.perHost, j.perHost); !strings.HasSuffix(line, want) {
			t.Errorf("%q does not end with %q", line, want)
		}
	}
	if n := len(j.events); n != 2*size {
		t.Errorf("events %v", j.events)
	}
}

func TestOpenMPI(t *testing.T) {
	hello, ringExe, allreduce := program(t, "hello"), program(t, "ring"), program(t, "allreduce")
	for _, shape := range [][2]int{{1, 1}, {1, 2}, {1, 4}, {2, 2}, {4, 1}} {
		j := &trial{hosts: shape[0], perHost: shape[1]}
		t.Run(fmt.Sprintf("%dx%d", j.hosts, j.perHost), func(t *testing.T) {
			size := j.hosts * j.perHost
			j.hello(t, j.run(t, hello))
			for _, p := range []struct{ exe, want string }{{ringExe, fmt.Sprintf("ring %d", size*(size-1)/2)}, {allreduce, "allreduce ok"}} {
				o := j.run(t, p.exe)
				o.clean(t)
				if !strings.Contains(o.out, p.want) {
					t.Errorf("%s printed %q", p.exe, o.out)
				}
			}
		})
	}
}
