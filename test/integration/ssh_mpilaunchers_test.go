package integration

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/test/need"
)

// mpirun runs a launcher of an MPI library that finds mpiup under ssh's name.
func (l *lab) mpirun(t *testing.T, argv ...string) result {
	t.Helper()
	l.ssh(t, job{}, "-V").Wait(t) // makes the link
	path := "PATH=" + filepath.Dir(l.key) + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	return l.command(t, job{env: []string{path, "MPIUP_KEY=" + l.key, "HOME=/root"}}, argv...).Wait(t)
}

// Open MPI's own mpirun starts its daemons through ours, and its ranks are on the hosts.
func TestOpenMPIsMpirun(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	hello := l.openMPI(t, "hello")
	r := l.mpirun(t, "mpirun.openmpi", "--allow-run-as-root", "--host", "w0:2,w1:1,w2:1", "-np", "4",
		"--mca", "pml", "ob1", "--mca", "btl", "self,vader,tcp", hello)
	r.OK(t)
	for _, host := range []string{"w0", "w1", "w2"} {
		if !strings.Contains(r.Stdout, host) {
			t.Errorf("no rank on %s:\n%s", host, r.Stdout)
		}
	}
	if r := l.mpirun(t, "mpirun.openmpi", "--allow-run-as-root", "--host", "w0,w1", "-np", "2", "sh", "-c", "exit 9"); r.Code != 9 {
		t.Errorf("a rank's code 9 became %d: %s", r.Code, r.Stderr)
	}
}

// Hydra starts its proxies through ours.
func TestHydra(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	need.MPICH(t)
	r := l.mpirun(t, "mpirun.mpich", "-launcher", "ssh", "-hosts", "w0,w1", "-n", "4", "-ppn", "2", l.program(t, "hello"))
	r.OK(t)
	for _, host := range []string{"w0", "w1"} {
		if !strings.Contains(r.Stdout, host) {
			t.Errorf("no rank on %s:\n%s", host, r.Stdout)
		}
	}
}
