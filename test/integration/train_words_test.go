package integration

import (
	"strings"
	"testing"
)

// What stands behind the program's name is the program's, also where mpiup reads another launcher's line and hands it on
// as mpirun's: ":" begins a program for mpirun and mpiexec alone (open-mpi/ompi#11719).
func TestWordsBehindTheProgram(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	script := l.trainer(t, "import sys\nprint('ARGS', *sys.argv[1:])\n")

	for _, words := range []string{
		":", "-n : -s", ": :", "-np 2 : -np 1 true", "-- : --", "--app none : --hostfile none", "-x A=1 -H nowhere",
	} {
		args := strings.Fields(words)
		want := "ARGS " + words + "\n"
		local := []string{"-np", "1", "-H", "localhost:1"}

		for _, c := range []struct {
			name string
			run  func() result
		}{
			{"torchrun", func() result {
				return l.called(t, "torchrun", job{}, append([]string{"--nproc_per_node", "1", script}, args...)...)
			}},
			{"torchrun --no-python", func() result {
				return l.called(t, "torchrun", job{}, append([]string{"--no-python", "echo", "ARGS"}, args...)...)
			}},
			{"horovodrun", func() result {
				return l.called(t, "horovodrun", job{}, append(append(local, "echo", "ARGS"), args...)...)
			}},
			{"horovodrun --gloo", func() result {
				return l.called(t, "horovodrun", job{}, append(append([]string{"--gloo"}, local...), append([]string{"echo", "ARGS"}, args...)...)...)
			}},
			{"ssh", func() result { return l.called(t, "ssh", job{}, append([]string{"w0", "echo", "ARGS"}, args...)...) }},
			{"exec", func() result {
				return l.command(t, job{}, append([]string{l.bin, "exec", "--key", l.key, "--host", "w0", "w0", "--", "echo", "ARGS"}, args...)...).Wait(t)
			}},
		} {
			// horovodrun tags lines; each program says one.
			if r := c.run().OK(t); !strings.HasSuffix(r.Stdout, want) {
				t.Errorf("%s: the program got %q, not %q", c.name, r.Stdout, want)
			}
		}
	}
}
