package integration

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/test/need"
)

const three = "w0:2,w1:2,w2:2"

// launderer starts a program as Python's subprocess does: without descriptors but the three.
var launderer = []string{"/usr/bin/python3", "-c", "import subprocess, sys; sys.exit(subprocess.call(sys.argv[1:]))"}

func sorted(text string) []string {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	slices.Sort(lines)
	return lines
}

func TestHello(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	hello := l.program(t, "hello")
	need.File(t, "python3", launderer[0], "install python3")
	bySlot := func(r int) (host, local int) { return r / 2, r % 2 }
	byNode := func(r int) (host, local int) { return r % 3, r / 3 }
	for _, c := range []struct {
		name  string
		args  []string
		place func(int) (host, local int)
	}{
		{"by slot", []string{"-n", "6", hello}, bySlot},
		{"by node", []string{"-n", "6", "--map-by", "node", hello}, byNode},
		{"every slot", []string{"--", hello}, bySlot},
		{"two programs", []string{"-n", "2", hello, ":", "-n", "4", hello}, bySlot},
		{"port", []string{"-n", "6", "--mpi", "pmi-port", hello}, bySlot},
		{"port, closed descriptors", append([]string{"-n", "6", "--mpi", "pmi-port"}, append(launderer, hello)...), bySlot},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var want []string
			for r := range 6 {
				host, local := c.place(r)
				want = append(want, fmt.Sprintf("rank %d of 6 on w%d, %d of 2 there", r, host, local))
			}
			if got := sorted(l.run(t, job{hosts: three, args: c.args}).OK(t).Stdout); !slices.Equal(got, want) {
				t.Errorf("printed %q, not %q", got, want)
			}
		})
	}
}

func TestPrograms(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	for _, c := range []struct {
		name, program, hosts, flags, args, want string
	}{
		{"ring of 6", "ring", three, "-n 6", "", "ring"},
		{"ring of 2", "ring", "w0:1,w1:1", "-n 2", "", "ring"},
		{"allreduce of 1", "allreduce", "w2", "-n 1", "", "allreduce ok"},
		{"allreduce of 3", "allreduce", three, "-N 1", "", "allreduce ok"},
		{"allreduce of 5", "allreduce", three, "-n 5", "", "allreduce ok"},
		{"publish", "publish", "w0:1,w1:1,w2:1", "-n 3", "", "publish ok"},
		{"large KVS", "bigkvs", three, "-n 6", "600 600", "bigkvs ok 450 values"},
		{"large KVS over a port", "bigkvs", three, "-n 6 --mpi pmi-port", "200 866", "bigkvs ok 150 values"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			args := append(strings.Fields(c.flags), l.program(t, c.program))
			r := l.run(t, job{hosts: c.hosts, args: append(args, strings.Fields(c.args)...)}).OK(t)
			if !strings.Contains(r.Stdout, c.want) {
				t.Errorf("printed %q, not %q", r.Stdout, c.want)
			}
		})
	}
}
