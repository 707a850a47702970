package integration

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/test/need"
)

// Slurm's libpmi2 is the client of PMI-2 at hand that can spawn.
func TestPMI2Spawns(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	need.Program(t, "cc", "gcc")
	need.File(t, "libpmi2", "/usr/include/slurm/pmi2.h", "install libpmi2-0-dev")
	exe := filepath.Join(l.folder(t), "pmi2spawn")
	if out, err := exec.Command("cc", "-O1", "-Wall", "-o", exe, "../mpi/pmi2spawn.c", "-lpmi2").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	r := l.run(t, job{hosts: "w0:2,w1:2,w2:1", args: []string{"-n", "2", exe}}).OK(t)
	for _, want := range []string{
		"spawned 1", "child 0 of 3, program 0, --two w\xf6rds, found tag#0$x$",
		"child 1 of 3, program 0, --two w\xf6rds, found tag#0$x$", "child 2 of 3, program 1, other, found tag#0$x$",
	} {
		if !strings.Contains(r.Stdout, want) {
			t.Errorf("%q is missing in\n%s", want, r.Stdout)
		}
	}
}
