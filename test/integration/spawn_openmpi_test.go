package integration

import (
	"slices"
	"strings"
	"testing"
)

// What Open MPI does beyond a fixed set of ranks, over hosts that ranks see as such.
func TestOpenMPIDynamic(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	for _, c := range []struct{ name, program, hosts, n, step, want string }{
		{"spawn", "spawned", "w0:4,w1:4", "2", "one", "spawned ok 4"},
		{"spawn of several programs", "spawned", "w0:2,w1:2,w2:2", "2", "multiple", "spawned ok 3"},
		{"spawn from each rank", "spawned", "w0:3,w1:3", "3", "self", "spawned ok 3"},
		{"spawn from spawned ranks", "spawned", "w0:2,w1:2", "2", "chain", "spawned ok 1"},
		{"spawn of what does not exist", "spawned", "w0:2,w1:2", "2", "failing", "spawned ok 0"},
		{"accept and connect", "accept_ompi", "w0:2,w1:2", "4", "", "accept ok"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			args := append(slices.Concat([]string{"-n", c.n, "--map-by", "node"}, ompiFlags), l.openMPI(t, c.program))
			if c.step != "" {
				args = append(args, c.step)
			}
			r := l.run(t, job{hosts: c.hosts, args: args})
			if r.Code != 0 || !strings.Contains(r.Stdout, c.want) { // it may warn of more ranks than CPUs
				t.Errorf("ended with %d and printed %q, not %q\n%s", r.Code, r.Stdout, c.want, r.Stderr)
			}
			if c.step == "failing" && !strings.Contains(r.Stderr, "could not spawn /nowhere/program: rank ") {
				t.Errorf("the user is told %q", r.Stderr)
			}
		})
	}
}
