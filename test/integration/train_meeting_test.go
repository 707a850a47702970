package integration

import (
	"fmt"
	"testing"
)

// Ports come out of --mpi-ports, from its end, and without a free one the user is told.
func TestMeetingPortsOfTheUsersRange(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	const ask = `echo $MASTER_ADDR $MASTER_PORT $JAX_COORDINATOR_PORT`
	r := l.run(t, job{hosts: "w1:2", args: []string{"-n", "2", "--mpi-ports", "18100-18109", "sh", "-c", ask}}).OK(t)
	want := fmt.Sprintf("%s 18109 18108\n", l.cluster.Addr("w1"))
	if r.Stdout != want+want {
		t.Errorf("ranks meet at\n%swant each\n%s", r.Stdout, want)
	}
	r = l.run(t, job{hosts: "w1:1", args: []string{"-n", "1", "--mpi-ports", "18110-18110", "sh", "-c", "echo ${JAX_COORDINATOR_PORT:-none}"}}).OK(t)
	r = l.run(t, job{hosts: "w1:1", args: []string{"-n", "1", "--mpi-ports", "18110-18110", "--env", "torch", "--env", "jax", "sh", "-c", "echo ${JAX_COORDINATOR_PORT:-none}"}})
	r.Fails(t, 0, "ranks of JAX get no port to meet at on host w1: no port of --mpi-ports 18110-18110 is free there; widen it by two")
	if r.Stdout != "none\n" {
		t.Errorf("the rank says %q", r.Stdout)
	}
}

// What the user gives stays, and --env none leaves everything alone, whatever MPIUP_ENV says.
func TestFrameworkVariablesOfTheUser(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	const ask = `echo ${RANK-none} ${MASTER_PORT-none} ${TF_CONFIG-none}`
	l.run(t, job{hosts: "w0", args: []string{"-n", "1", "-x", "MASTER_PORT=29511", "-x", "RANK=7", "sh", "-c", ask}}).Ends(t, 0, "7 29511 none\n", "")
	l.run(t, job{hosts: "w0", args: []string{"-n", "1", "--env", "none", "sh", "-c", ask}}).Ends(t, 0, "none none none\n", "")
	l.run(t, job{hosts: "w0", env: []string{"MPIUP_ENV=torch"}, args: []string{"-n", "1", "--env", "none", "sh", "-c", ask}}).Ends(t, 0, "none none none\n", "")
	l.run(t, job{hosts: "w0", env: []string{"MPIUP_ENV=none"}, args: []string{"-n", "1", "sh", "-c", ask}}).Ends(t, 0, "none none none\n", "")
	l.called(t, "mpirun", job{}, "-n", "1", "-host", "w0", "sh", "-c", ask).Ends(t, 0, "none none none\n", "")
}
