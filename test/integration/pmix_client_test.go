package integration

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/test/need"
)

const debianPMIx = "/usr/lib/x86_64-linux-gnu/pmix2"

// What no MPI program asks of PMIx, over hosts: a client of Debian's libpmix 4.2.2 by itself.
func TestPMIxClient(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	need.Program(t, "cc", "gcc")
	need.File(t, "libpmix", debianPMIx+"/include/pmix.h", "install libpmix-dev")
	exe := filepath.Join(l.folder(t), "pmix_ompi")
	cc := exec.Command("cc", "-O1", "-Wall", "-I"+debianPMIx+"/include", "-o", exe, "../mpi/pmix_ompi.c", "-L"+debianPMIx+"/lib", "-lpmix", "-lpthread")
	if out, err := cc.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, step := range []string{"late", "basic", "names", "misc", "events", "again", "abort", "control", "invite"} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			r := l.run(t, job{hosts: "w0:2,w1:2", args: []string{"-n", "4", "--mpi", "pmix", exe, step}})
			if r.code != 0 || !strings.Contains(r.stdout, "pmix ok") {
				t.Errorf("ended with %d and printed %q\n%s", r.code, r.stdout, r.stderr)
			}
		})
	}
	t.Run("death", func(t *testing.T) { // ranks of both hosts are told of it, and go on
		t.Parallel()
		r := l.called(t, "mpirun", job{}, "-np", "4", "-H", "w0:2,w1:2", "--enable-recovery", exe, "death")
		if r.code != 0 || !strings.Contains(r.stdout, "pmix ok") {
			t.Errorf("ended with %d and printed %q\n%s", r.code, r.stdout, r.stderr)
		}
	})
}
