package integration

import (
	"os/exec"
	"strings"
	"testing"

	testlab "github.com/mpiup/mpiup/test/lab"
)

// Two agents of one machine have one /dev/shm, where Open MPI 4 gives the segments of both hosts' ranks the same names. No rank meets another
// host's.
func TestAgentsOfOneMachine(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	ring, err := l.compiled("mpicc.openmpi", "ring")
	if err != nil {
		t.Fatal(err)
	}
	var hosts []string
	for range 2 {
		hosts = append(hosts, testlab.NewLoopback(t, l.bin, nil, "--key", l.key, "--http", "off").Addr+":2")
	}
	run := exec.Command(l.bin, "run", "--key", l.key, "--host", strings.Join(hosts, ","), ring)
	run.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + t.TempDir()}
	if r := testlab.Run(t, testlab.Bound, run).OK(t); r.Stdout != "ring 6\n" {
		t.Errorf("it says %q", r.Stdout)
	}
}
