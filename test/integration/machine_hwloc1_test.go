package integration

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/mpiup/mpiup/test/need"
)

// A program of hwloc 1, which fails over hwloc 2's XML, is given none; one of hwloc 2 is. Both loads succeed. The old library is a stand-in,
// test/mpi/hwloc1.c: no registry that CI reaches has hwloc 1.11 (docs/tested.md says what its real one did, by hand).
func TestStandInOfOldHwlocGetsNoFile(t *testing.T) {
	t.Parallel()
	need.Program(t, "cc", "gcc")
	need.Program(t, "lstopo-no-graphics", "hwloc-nox")
	l := hosted(t)
	dir := l.folder(t)
	compile := func(args ...string) {
		t.Helper()
		if out, err := exec.Command("cc", append([]string{"-O1", "-Wall"}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("cc %q: %v\n%s", args, err, out)
		}
	}
	lib := filepath.Join(dir, "libhwloc.so.5")
	compile("-shared", "-fPIC", "-Wl,-soname,libhwloc.so.5", "-o", lib, "../mpi/hwloc1.c")
	compile("-o", filepath.Join(dir, "old"), "../mpi/hwloc.c", lib, "-Wl,-rpath,"+dir)
	compile("-o", filepath.Join(dir, "new"), "../mpi/hwloc.c", "-l:libhwloc.so.15")
	for name, want := range map[string]string{"old": "load 0, file none\n", "new": "load 0, file given\n"} {
		for _, mpi := range []string{"auto", "pmi1", "pmix", "none"} {
			r := l.run(t, job{hosts: "w0:1", args: []string{"-n", "1", "--mpi", mpi, filepath.Join(dir, name)}}).OK(t)
			if r.Stdout != want {
				t.Errorf("--mpi %s: the %s hwloc says %q, want %q", mpi, name, r.Stdout, want)
			}
		}
	}
}
