package integration

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	testlab "github.com/mpiup/mpiup/test/lab"
	"github.com/mpiup/mpiup/test/netns"
)

// psRank is a row of mpiup ps --json.
type psRank struct {
	Rank    int     `json:"rank"`
	Host    string  `json:"host"`
	Program string  `json:"program"`
	State   string  `json:"state"`
	CPU     float64 `json:"cpu_percent"`
	RSS     int64   `json:"rss_bytes"`
	Wrote   bool    `json:"wrote"`
	Phase   string  `json:"mpi"`
	Syscall string  `json:"syscall"`
	Wchan   string  `json:"wchan"`
	Mount   string  `json:"mount"`
}

// ps is what mpiup ps tells of hosts.
func (l *lab) ps(t *testing.T, hosts string) (rows []psRank) {
	t.Helper()
	r := l.mpiup(t, "ps", "--key", l.key, "--host", hosts, "--json").OK(t)
	var view struct{ Ranks []psRank }
	if err := json.Unmarshal([]byte(r.Stdout), &view); err != nil {
		t.Fatalf("%v\n%s", err, r.Stdout)
	}
	return view.Ranks
}

// stuck starts four ranks of test/mpi/stuck.c, of which rank 2 never comes to where the others wait, and returns when all
// have got there.
func (l *lab) stuck(t *testing.T, stack, how string, flags ...string) *running {
	t.Helper()
	args := slices.Concat([]string{"-n", "4"}, flags)
	if stack == "Open MPI" {
		args = slices.Concat(args, []string{"-x", "OMPI_MCA_pml=ob1", "-x", "OMPI_MCA_btl=self,vader,tcp"}, []string{l.openMPI(t, "stuck")})
	} else {
		args = append(args, l.program(t, "stuck"))
	}
	p := l.start(t, job{hosts: "w0:2,w1:2", args: append(args, "2", how)})
	if how != "init" {
		p.Says(t, "rank 0 waits", "rank 1 waits", "rank 2 is stuck", "rank 3 waits")
	}
	return p
}

// Of a job that hangs mpiup ps shows which rank does something else than the others: the one that sleeps while others look
// for it without end.
func TestPsOfARunThatHangs(t *testing.T) {
	t.Parallel()
	l := hosted(t).apart(t, netns.Config{Hosts: []string{"w0", "w1"}})
	for _, host := range []string{"w0", "w1"} {
		l.agent(t, host, container{})
	}
	if r := l.mpiup(t, "ps", "--key", l.key, "--host", "w0,w1").OK(t); r.Stdout != "no ranks run\n" {
		t.Errorf("of idle hosts: %q", r.Stdout)
	}
	for _, stack := range []string{"MPICH", "Open MPI"} {
		t.Run(stack, func(t *testing.T) {
			p := l.stuck(t, stack, "sleep")
			var rows []psRank
			testlab.Eventually(t, "three ranks that spin and one that sleeps", func() bool {
				rows = l.ps(t, "w0,w1")
				idle := slices.IndexFunc(rows, func(r psRank) bool { return r.CPU < 2 })
				busy := 0
				for _, r := range rows {
					if r.CPU > 5 {
						busy++
					}
				}
				return len(rows) == 4 && busy == 3 && idle == 2
			})
			odd := rows[2]
			if odd.Rank != 2 || odd.Host != "w1" || odd.State != "sleeping" || odd.Phase != "running" || !odd.Wrote || odd.RSS == 0 ||
				!strings.HasSuffix(odd.Program, "stuck") && !strings.HasPrefix(odd.Program, "mpicc") || odd.Syscall+odd.Wchan == "" {
				t.Errorf("%+v", odd)
			}
			text := l.mpiup(t, "ps", "--key", l.key, "--host", "w1").OK(t).Stdout
			if lines := strings.Split(text, "\n"); len(lines) != 5 || !strings.HasPrefix(lines[1], "RANK  HOST  PID") || !strings.HasPrefix(lines[2], "2     w1 ") {
				t.Errorf("as a table:\n%s", text)
			}
			_ = p.Cmd.Process.Kill()
			<-p.Done
			testlab.Eventually(t, "the ranks are gone", func() bool { return len(l.ps(t, "w0,w1")) == 0 })
		})
	}
}

// Of ranks that wait in MPI_Init mpiup ps and stacks name the one that they wait for.
func TestPsOfARankThatIsAbsent(t *testing.T) {
	t.Parallel()
	l := hosted(t).apart(t, netns.Config{Hosts: []string{"w0", "w1"}})
	for _, host := range []string{"w0", "w1"} {
		l.agent(t, host, container{})
	}
	l.stuck(t, "MPICH", "init")
	testlab.Eventually(t, "three ranks wait for one that never calls MPI_Init", func() bool {
		var phases []string
		for _, r := range l.ps(t, "w0,w1") {
			phases = append(phases, r.Phase)
		}
		return slices.Equal(phases, []string{"in a fence", "in a fence", "never", "in a fence"})
	})
	missing := regexp.MustCompile(`(?m)^rank 2 \(w1, pid [0-9]+\) has not called MPI_Init; ranks 0-1,3 have waited for it( for [0-9a-z]+)?$`)
	for _, command := range []string{"ps", "stacks"} {
		if r := l.mpiup(t, command, "--key", l.key, "--host", "w0,w1").OK(t); !missing.MatchString(r.Stdout) {
			t.Errorf("%s does not name rank 2:\n%s", command, r.Stdout)
		}
	}
}

// An agent's policy may keep what ranks do to itself; ranks' own hosts tell nothing then.
func TestPsThatThePolicyDenies(t *testing.T) {
	t.Parallel()
	l := hosted(t).apart(t, netns.Config{Hosts: []string{"w0"}})
	l.agent(t, "w0", container{flags: []string{"--deny", "look"}})
	r := l.mpiup(t, "ps", "--key", l.key, "--host", "w0")
	if !strings.HasPrefix(r.Stdout, "host w0: ") || !strings.Contains(r.Stdout, "the agent's policy refuses look to launchers (--deny look)") || r.Code == 0 {
		t.Errorf("%d %q %q", r.Code, r.Stdout, r.Stderr)
	}
}
