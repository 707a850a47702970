package integration

import (
	"slices"
	"strings"
	"syscall"
	"testing"

	testlab "github.com/mpiup/mpiup/test/lab"
	"github.com/mpiup/mpiup/test/need"
	"github.com/mpiup/mpiup/test/netns"
)

// embedded starts a run without hosts and secret.
func (l *lab) embedded(t *testing.T, j job, args ...string) *running {
	t.Helper()
	return l.command(t, j, append([]string{l.bin, "run"}, args...)...)
}

// things are all files of the launcher's own and all its processes. The reports of failed runs are to stay
// (docs/report.md).
func (l *lab) things(t *testing.T) []string {
	t.Helper()
	r := l.command(t, job{}, "find", "/tmp", "/run", "/root", "/dev/shm", "-xdev", "-mindepth", "1").Wait(t).OK(t)
	list := slices.DeleteFunc(strings.Fields(r.Stdout), func(f string) bool {
		return strings.HasPrefix(f, "/tmp/mpiup-reports-0") || f == "/tmp/mpiup-look-0" // a user's folders, which stay
	})
	all, err := l.cluster.Processes(netns.Launcher)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		list = append(list, p.Argv)
	}
	return list
}

func TestEmbeddedLeavesNothing(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	hello, exits, aborts := l.program(t, "hello"), l.program(t, "exitcode"), l.program(t, "abort")
	l = l.apart(t, netns.Config{})
	before := l.things(t)
	for _, c := range []struct {
		name string
		args []string
		code int
	}{
		{"hello", []string{"-n", "4", hello}, 0},
		{"hello over a port", []string{"-n", "4", "--mpi", "pmi-port", hello}, 0},
		{"failure", []string{"-n", "4", exits, "3"}, 3},
		{"killed in a barrier", []string{"-n", "4", exits, "9", "2", "signal"}, 137},
		{"abort", []string{"-n", "4", aborts, "42"}, 42},
		{"no program", []string{"-n", "4", "/no/such/program"}, 246},
		{"daemon", []string{"-n", "2", "sh", "-c", "setsid sleep 1000 >/dev/null 2>&1 </dev/null & exit 0"}, 0},
		{"grandchildren of a failure", []string{"-n", "2", "sh", "-c", "setsid sh -c 'trap \"\" TERM HUP; sleep 1000' & exit 4"}, 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := l.embedded(t, job{}, append([]string{"--grace", "1"}, c.args...)...).Wait(t)
			if r.Code != c.code {
				t.Fatalf("ended with %d\n%s%s", r.Code, r.Stdout, r.Stderr)
			}
			if c.name == "hello" && strings.Count(r.Stdout, "of 4 on launcher") != 4 {
				t.Errorf("printed %q", r.Stdout)
			}
			if left := slices.DeleteFunc(l.things(t), func(s string) bool { return slices.Contains(before, s) }); len(left) > 0 {
				t.Errorf("left behind: %q", left)
			}
		})
	}
	t.Run("kill -9", func(t *testing.T) {
		r := l.embedded(t, job{}, "-n", "2", "sh", "-c", "setsid sh -c 'trap \"\" TERM HUP; sleep 1000' & echo ready; sleep 1000")
		r.Says(t, "ready\nready\n")
		testlab.Eventually(t, "the guard of a run that is no short one is there", func() bool {
			return slices.ContainsFunc(l.things(t), func(s string) bool { return strings.HasPrefix(s, "mpiup-guard") })
		})
		r.Signal(t, syscall.SIGKILL)
		r.Wait(t)
		testlab.Eventually(t, "all processes are gone", func() bool {
			left := slices.DeleteFunc(l.things(t), func(s string) bool { return strings.HasPrefix(s, "/tmp/mpiup-look-0/") }) // the next look removes it
			return len(left) <= len(before)
		})
	})
}

func TestEmbeddedListensNowhere(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	need.Program(t, "ss", "iproute2")
	l = l.apart(t, netns.Config{})
	for _, flag := range []string{"pmi1", "none", "pmi-port"} {
		r := l.embedded(t, job{}, "--mpi", flag, "-n", "2", "sh", "-c", "echo ready; exec sleep 1000")
		r.Says(t, "ready\nready\n")
		sockets := l.command(t, job{}, "ss", "-Hltun").Wait(t).OK(t).Stdout
		if flag != "pmi-port" && sockets != "" {
			t.Errorf("--mpi %s: somebody listens:\n%s", flag, sockets)
		}
		for line := range strings.Lines(sockets) {
			if !strings.Contains(line, "127.0.0.1:") {
				t.Errorf("--mpi %s: not on loopback: %s", flag, line)
			}
		}
		r.Signal(t, syscall.SIGTERM)
		r.Wait(t)
	}
}

// One script that starts runs side by side, here and on hosts.
func TestRunsSideBySide(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	hello := l.program(t, "hello")
	script := `for i in 1 2 3; do $RUN -n 4 ` + hello + ` & done; $RUN -n 2 sh -c 'exit 5'; [ $? = 5 ] || echo wrong code; wait`
	for name, run := range map[string]string{"here": l.bin + " run", "on hosts": l.bin + " run --key " + l.key + " --host w0:2,w1:2"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := l.command(t, job{env: []string{"RUN=" + run}}, "sh", "-c", script).Wait(t)
			lines := sorted(r.Stdout)
			if len(lines) != 12 || strings.Count(r.Stdout, "rank 3 of 4") != 3 || r.Code != 0 {
				t.Errorf("ended with %d\n%s%s", r.Code, r.Stdout, r.Stderr)
			}
		})
	}
}
