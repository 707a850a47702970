package integration

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/test/need"
)

// native runs a command with mpiup's names first on PATH, behind which the real launchers stand.
func (l *lab) native(t *testing.T, argv ...string) result {
	t.Helper()
	path := filepath.Dir(l.key) + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	return l.command(t, job{env: []string{"PATH=" + path, "MPIUP_KEY=" + l.key, "HOME=/root", "MPIUP_MPI=native"}}, argv...).Wait(t)
}

// The image's own mpirun is run where it is asked for, and its daemons come to the hosts through ours.
func TestNative(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	for _, name := range []string{"mpirun", "mpiexec.hydra"} {
		l.called(t, name, job{}, "--version") // makes the link
	}
	ompi, mpich := l.openMPI(t, "hello"), l.program(t, "hello")
	need.Program(t, "mpirun.openmpi", "openmpi-bin")
	quick := []string{"--mca", "pml", "ob1", "--mca", "btl", "self,vader,tcp", "--mca", "mpi_yield_when_idle", "1"}
	mpirun, hydra := filepath.Join(filepath.Dir(l.key), "mpirun"), filepath.Join(filepath.Dir(l.key), "mpiexec.hydra")
	for _, c := range []struct {
		name string
		args []string
		code int
		says string // a part of standard error
	}{
		{"Open MPI", append(append([]string{mpirun, "--allow-run-as-root", "-H", "w0:2,w1:2"}, quick...), ompi), 0, ""},
		{"Hydra", []string{hydra, "-hosts", "w0,w1", "-n", "4", "-ppn", "2", mpich}, 0, ""},
		{"mpiup run, Open MPI", []string{l.bin, "run", "--mpi", "native", "--host", "w0:2,w1:2", "-n", "4", "-x", "OMPI_MCA_pml=ob1", "-x", "OMPI_MCA_btl=self,vader,tcp", "-x", "OMPI_MCA_mpi_yield_when_idle=1", ompi}, 0, ""},
		{"mpiup run, Hydra", []string{l.bin, "run", "--mpi", "native", "--host", "w0:2,w1:2", "-n", "4", mpich}, 0, ""},
		{"code", []string{mpirun, "--allow-run-as-root", "-H", "w0,w1", "sh", "-c", "exit 9"}, 9, "exit code"},
		{"its own errors", []string{mpirun, "--allow-run-as-root", "--bogus", "true"}, 1, "bogus"},
		{"what is ours alone", []string{l.bin, "run", "--mpi", "native", "--worker-logs", ompi}, 240, "--worker-logs is mpiup's own"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := l.native(t, c.args...)
			if r.Code != c.code || !strings.Contains(strings.ToLower(r.Stderr+r.Stdout), strings.ToLower(c.says)) {
				t.Errorf("ended with %d\n%s%s", r.Code, r.Stdout, r.Stderr)
			}
			if c.code == 0 && (strings.Count(r.Stdout, " of 4 on w0") != 2 || strings.Count(r.Stdout, " of 4 on w1") != 2) {
				t.Errorf("printed\n%s%s", r.Stdout, r.Stderr)
			}
		})
	}
}
