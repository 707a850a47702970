package integration

import (
	"path/filepath"
	"strings"
	"testing"
)

// Programs of two MPI libraries, and one program that loads another on each host, are not started: their ranks would hang.
func TestMixedLibrariesDoNotStart(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	mpich, ompi := l.program(t, "ring"), l.openMPI(t, "ring")
	const own = "/tmp/mixed" // each host has its own /tmp
	for host, exe := range map[string]string{"w0": mpich, "w1": ompi} {
		l.mpiup(t, "exec", "--key", l.key, host, "--", "cp", exe, own).OK(t)
	}
	refused := func(want string, args ...string) {
		t.Helper()
		r := l.run(t, job{hosts: "w0:2,w1:2", args: args})
		if r.Code != 246 || !strings.Contains(r.Stderr, "these MPI libraries cannot talk to each other: "+want) || !strings.Contains(r.Stderr, "nothing was started") || r.Stdout != "" {
			t.Errorf("%q ended with %d, said %q\n%s", args, r.Code, r.Stdout, r.Stderr)
		}
	}
	mark := filepath.Join(l.folder(t), "ran")
	refused("MPICH 4.0.2 in "+mpich+" on host w0 (PMI-1), Open MPI 4.1.4 in "+ompi+" on host w1 (PMIx)", "-n", "2", mpich, ":", "-n", "2", ompi)
	refused("MPICH 4.0.2 on host w0 (PMI-1), Open MPI 4.1.4 on host w1 (PMIx)", "-n", "4", own)
	refused("MPICH 4.0.2 on host w0 (PMI-1), Open MPI 4.1.4 on host w1 (PMI-1)", "--mpi", "pmi1", "-n", "4", own)
	refused("MPICH 4.0.2 on host w0 (PMIx), Open MPI 4.1.4 on host w1 (PMIx)", "--mpi", "pmix", "-n", "4", own)
	for _, r := range []result{
		l.run(t, job{hosts: "w0:2,w1:2", env: []string{"MPIUP_MPI=pmi1"}, args: []string{"-n", "4", own}}),
		l.called(t, "mpirun", job{env: []string{"MPIUP_MPI=pmi-port"}}, "--host", "w0:2,w1:2", "-np", "4", own),
		l.called(t, "mpiexec.hydra", job{env: []string{"MPIUP_MPI=pmi2"}}, "-hosts", "w0:2,w1:2", "-n", "4", own),
	} {
		r.Fails(t, 246, "these MPI libraries cannot talk to each other: MPICH 4.0.2 on host w0", "nothing was started")
	}
	refused("", "-n", "1", "sh", "-c", "touch "+mark+"; exec "+mpich, ":", "-n", "3", ompi)
	if r := l.run(t, job{hosts: "w0:2", args: []string{"-n", "1", "test", "-e", mark}}); r.Code != 1 {
		t.Errorf("a program of the job ran: test -e ended with %d", r.Code)
	}
	for _, args := range [][]string{
		{"-n", "2", mpich, ":", "-n", "2", mpich},
		{"-n", "2", mpich, ":", "-n", "2", "sh", "-c", "exec " + mpich},
		append(append([]string{"-n", "2"}, ompiFlags...), ompi, ":", "-n", "2", "env", ompi),
	} {
		if r := l.run(t, job{hosts: "w0:2,w1:2", args: args}).OK(t); r.Stdout != "ring 6\n" {
			t.Errorf("%q said %q", args, r.Stdout)
		}
	}
	l.run(t, job{hosts: "w0:2,w1:2", args: []string{"-n", "2", "true", ":", "-n", "2", "hostname"}}).OK(t)
}
