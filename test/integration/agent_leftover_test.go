package integration

import (
	"slices"
	"strings"
	"testing"

	testlab "github.com/mpiup/mpiup/test/lab"
	"github.com/mpiup/mpiup/test/netns"
)

// What runs leave on a worker: nothing, whether they end well, by a signal or by an abort.
func TestWorkersKeepNothing(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	hello, exits, aborts := l.program(t, "hello"), l.program(t, "exitcode"), l.program(t, "abort")
	l = l.apart(t, netns.Config{Hosts: []string{"w0", "w1"}})
	l.agent(t, "w0", container{})
	l.agent(t, "w1", container{beside: true})
	kept := func(host string) []string {
		out, err := l.cluster.Command(t.Context(), host, "find", "/tmp", "/run", "/root", "/dev/shm", "-xdev", "-mindepth", "1").Output()
		if err != nil {
			t.Fatal(err)
		}
		list := strings.Fields(string(out))
		all, err := l.cluster.Processes(host)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range all {
			list = append(list, p.Argv)
		}
		return list
	}
	before := [][]string{kept("w0"), kept("w1")}
	for _, c := range [][]string{{hello}, {exits, "3"}, {exits, "9", "2", "signal"}, {aborts, "42"}, {"/no/such/program"},
		{"sh", "-c", "setsid sleep 1000 & kill -9 $$"}} {
		l.run(t, job{hosts: "w0:2,w1:2", args: append([]string{"--grace", "1", "-n", "4"}, c...)})
		for i, host := range []string{"w0", "w1"} {
			var left []string
			testlab.Eventually(t, "the dead are buried", func() bool { // they have a name in brackets and no arguments
				left = slices.DeleteFunc(kept(host), func(s string) bool {
					return slices.Contains(before[i], s) || strings.Contains(s, "guard") // which comes with the first run beside a PID 1
				})
				return !slices.ContainsFunc(left, func(s string) bool { return strings.HasPrefix(s, "[") })
			})
			if len(left) > 0 {
				t.Errorf("after %q there is %q on %s", c, left, host)
			}
		}
	}
}
