package integration

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/test/drawing"
	testlab "github.com/mpiup/mpiup/test/lab"
	"github.com/mpiup/mpiup/test/need"
	"github.com/mpiup/mpiup/test/netns"
)

// stackGroup is a group of mpiup stacks --json.
type stackGroup struct {
	Ranks  string   `json:"ranks"`
	Means  string   `json:"means"`
	Frames []string `json:"frames"`
}

func (l *lab) stacks(t *testing.T, args ...string) (groups []stackGroup) {
	t.Helper()
	r := l.mpiup(t, append([]string{"stacks", "--key", l.key, "--host", "w0,w1", "--json"}, args...)...).OK(t)
	var view struct{ Groups []stackGroup }
	if err := json.Unmarshal([]byte(r.Stdout), &view); err != nil {
		t.Fatalf("%v\n%s", err, r.Stdout)
	}
	return view.Groups
}

// Of an MPI program that hangs the rank that is elsewhere stands first, and all that wait in the barrier are one group,
// wherever in it they are.
func TestStacksOfARunThatHangs(t *testing.T) {
	t.Parallel()
	l := hosted(t).apart(t, netns.Config{Hosts: []string{"w0", "w1"}})
	need.Program(t, "eu-stack", "elfutils")
	for _, host := range []string{"w0", "w1"} {
		l.agent(t, host, container{})
	}
	for _, stack := range []string{"MPICH", "Open MPI"} {
		t.Run(stack, func(t *testing.T) {
			p := l.stuck(t, stack, "spin")
			var groups []stackGroup
			testlab.Eventually(t, "rank 2 stands alone", func() bool {
				groups = l.stacks(t)
				return len(groups) == 2 && groups[0].Ranks == "2" && groups[1].Ranks == "0-1,3"
			})
			if !slices.Contains(groups[0].Frames, "odd_one_out") || !strings.HasSuffix(groups[1].Frames[0], "MPI_Barrier") ||
				groups[0].Means != "eu-stack" {
				t.Errorf("%+v", groups)
			}
			r := l.mpiup(t, "stacks", "--key", l.key, "--host", "w0,w1", "--svg", "-").OK(t)
			if tips := drawing.Is(t, r.Stdout).Tips; !slices.Contains(tips, "odd_one_out: rank 2 (1 of 4)") {
				t.Errorf("%q", tips)
			}
			if one := l.stacks(t, "--ranks", "0"); len(one) != 1 || one[0].Ranks != "0" {
				t.Errorf("one rank: %+v", one)
			}
			_ = p.Cmd.Process.Kill()
			<-p.Done
			testlab.Eventually(t, "the ranks are gone", func() bool { return len(l.ps(t, "w0,w1")) == 0 })
		})
	}
}

// Python programs that registered faulthandler say where they are; one that did not is not sent the signal, and lives.
func TestStacksOfPython(t *testing.T) {
	t.Parallel()
	l := hosted(t).apart(t, netns.Config{Hosts: []string{"w0", "w1"}})
	need.Program(t, "python3", "python3")
	for _, host := range []string{"w0", "w1"} {
		l.agent(t, host, container{})
	}
	script := l.file(t, `import faulthandler, os, signal, time
rank = os.environ["MPIUP_RANK"]
def load():
    print("ready", flush=True)
    time.sleep(1000)
def reduce():
    print("ready", flush=True)
    signal.pause() if False else time.sleep(1000)
if rank != "3":
    faulthandler.register(signal.SIGUSR1)
load() if rank == "1" else reduce()
`)
	p := l.start(t, job{hosts: "w0:2,w1:2", args: []string{"-n", "4", "python3", script}})
	testlab.Eventually(t, "all ranks are ready", func() bool { return strings.Count(p.Stdout.String(), "ready") == 4 })
	for range 2 { // the signal has ended nobody
		groups := l.stacks(t, "--signal", "USR1")
		var at []string
		for _, g := range groups {
			if g.Means == "faulthandler" {
				at = append(at, g.Ranks+" "+strings.Fields(g.Frames[0])[0])
			} else if g.Ranks != "3" {
				t.Errorf("%+v", g)
			}
		}
		if !slices.Equal(at, []string{"1 load", "0,2 reduce"}) || len(groups) != 3 {
			t.Errorf("%+v", groups)
		}
	}
}
