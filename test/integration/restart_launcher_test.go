package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	testlab "github.com/mpiup/mpiup/test/lab"
	"github.com/mpiup/mpiup/test/netns"
)

// outliving is a lab of its own: what its agents hold is told to every launcher that comes.
func outliving(t *testing.T) *lab {
	l := hosted(t).apart(t, netns.Config{Hosts: []string{"w0", "w1"}})
	agents, err := testlab.Agents(t.Context(), l.cluster, l.bin, "agent", "--key", l.key, "--host", "w0,w1")
	if err != nil {
		t.Fatal(err)
	}
	l.agents = agents
	return l
}

// programOf is a program of test/mpi, built with MPICH or with Open MPI.
func (l *lab) programOf(t *testing.T, library, name string) string {
	t.Helper()
	if library == "MPICH" {
		return l.program(t, name)
	}
	return l.openMPI(t, name)
}

// phased is a job of test/mpi/phases.c, whose ranks stand still until release.
type phased struct {
	l    *lab
	dir  string
	args []string
}

func (l *lab) phased(t *testing.T, exe, phase string, flags ...string) *phased {
	p := &phased{l: l, dir: l.folder(t)}
	p.args = append(append([]string{"-n", "4", "--stdin", "none", "--grace", "1", "--on-launcher-loss", "hold=60s"}, flags...), exe, phase, p.dir)
	return p
}

// launch starts a launcher of the job.
func (p *phased) launch(t *testing.T) *running {
	t.Helper()
	return p.l.start(t, job{hosts: "w0:2,w1:2", args: p.args})
}

// arrived waits until ranks are where the phase has them stand.
func (p *phased) arrived(t *testing.T) {
	t.Helper()
	for rank := range 4 {
		testlab.Eventually(t, fmt.Sprintf("rank %d is there", rank), func() bool {
			_, err := os.Stat(filepath.Join(p.dir, fmt.Sprintf("at.%d", rank)))
			return err == nil
		})
	}
	p.l.described(t, 1)
}

// described waits until every agent has so many journals of runs.
func (l *lab) described(t *testing.T, n int) {
	t.Helper()
	for host, a := range l.agents {
		testlab.Eventually(t, host+" has what another launcher needs", func() bool {
			return strings.Count(a.Stderr.String(), "another launcher can take over") >= n
		})
	}
}

func (p *phased) release(t *testing.T) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(p.dir, "go"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
}

// killed ends a launcher as nothing warns it, and waits until every agent holds the ranks.
func (l *lab) killed(t *testing.T, r *running, times int) {
	t.Helper()
	r.Signal(t, syscall.SIGKILL)
	<-r.Done
	for host, a := range l.agents {
		testlab.Eventually(t, host+" holds the ranks", func() bool {
			return strings.Count(a.Stderr.String(), "the ranks wait for another launcher") >= times
		})
	}
}

// A launcher is killed, twice: the next one goes on with the ranks wherever they are, and ends as they do.
func TestAnotherLauncherGoesOn(t *testing.T) {
	t.Parallel()
	for _, library := range []string{"MPICH", "Open MPI"} {
		for _, phase := range []string{"init", "fence", "finalize"} {
			t.Run(library+", "+phase, func(t *testing.T) {
				l := outliving(t)
				exe := l.programOf(t, library, "phases")
				p := l.phased(t, exe, phase)
				first := p.launch(t)
				p.arrived(t)
				l.killed(t, first, 1)
				second := p.launch(t)
				if err := second.Until(second.Stderr, "took the run over"); err != nil {
					t.Fatal(err)
				}
				l.killed(t, second, 2)
				p.release(t) // while there is no launcher: ranks go on as far as they can
				r := p.launch(t).Wait(t).Fails(t, 0, "taking over from launcher launcher, which is lost: 4 ranks on 2 hosts", "took the run over")
				wrote := []string{first.Stdout.String(), second.Stdout.String(), r.Stdout}
				for rank := range 4 {
					all := 0
					for i, one := range wrote { // what a launcher wrote in the moment of its death may come again (docs/restart.md)
						n := strings.Count(one, fmt.Sprintf("%d end\n", rank))
						if all += n; n > 1 {
							t.Errorf("launcher %d wrote the end of rank %d %d times:\n%s\n%s", i, rank, n, one, r.Stderr)
						}
					}
					if all == 0 {
						t.Errorf("the end of rank %d is not there:\n%q\n%s", rank, wrote, r.Stderr)
					}
				}
				for host := range l.agents {
					testlab.Eventually(t, "no rank is left on "+host, func() bool { return len(l.matching(t, host, exe)) == 0 })
				}
			})
		}
	}
}

// A rank that fails while no launcher is there is the next one's verdict, with what it wrote.
func TestRankFailsWithoutLauncher(t *testing.T) {
	t.Parallel()
	l := outliving(t)
	p := l.phased(t, l.program(t, "phases"), "fence", "--tag-output")
	first := p.launch(t)
	p.arrived(t)
	l.killed(t, first, 1)
	for _, host := range []string{"w1", "w0"} { // that of w1 is the first
		pids := l.matching(t, host, p.args[len(p.args)-3])
		if err := syscall.Kill(pids[0], syscall.SIGSEGV); err != nil {
			t.Fatal(err)
		}
		testlab.Eventually(t, "it has ended", func() bool { return syscall.Kill(pids[0], 0) != nil })
		// A busy machine answers late, and late by so much too: hosts' ages are as exact as their answers.
		if r := l.mpiup(t, "peers", "--key", l.key, "--host", "w0,w1"); strings.Count(r.Stdout, "held: that launcher is lost") != 2 {
			t.Errorf("mpiup peers:\n%s", r.Stdout)
		}
	}
	r := p.launch(t).Wait(t).Fails(t, 139, "took the run over", "on w1 was killed by signal 11 (SIGSEGV)")
	if strings.Contains(r.Stderr, "mpiup: rank 0 on w0 was killed") || strings.Contains(r.Stderr, "mpiup: rank 1 on w0 was killed") {
		t.Errorf("the one that came second is blamed:\n%s", r.Stderr)
	}
}

// Who comes with another command is told whose ranks there are; who says so ends them; and so does time.
func TestHeldRanksOfAnotherCommand(t *testing.T) {
	t.Parallel()
	l := outliving(t)
	exe := l.program(t, "phases")
	p := l.phased(t, exe, "init")
	first := p.launch(t)
	p.arrived(t)
	l.killed(t, first, 1)
	if r := l.mpiup(t, "peers", "--key", l.key, "--host", "w0"); !strings.Contains(r.Stdout, "held: that launcher is lost, and the ranks wait ") {
		t.Errorf("mpiup peers:\n%s", r.Stdout)
	}
	other := job{hosts: "w0:2,w1:2", args: []string{"--stdin", "none", "--on-launcher-loss", "hold=5s", "true"}}
	l.run(t, other).Fails(t, 240, "holds the ranks of launcher launcher, which is lost; its command was run --key", exe+" init", "and this one is run --key", "--on-launcher-loss fence")
	l.run(t, job{hosts: "w0:2,w1:2", args: []string{"--stdin", "none", "true"}}).OK(t) // in this container launchers run side by side
	other.args[3] = "fence"
	l.run(t, other).OK(t)
	for host := range l.agents {
		testlab.Eventually(t, "no rank is left on "+host, func() bool { return len(l.matching(t, host, exe)) == 0 })
	}

	p = l.phased(t, exe, "init", "--on-launcher-loss", "hold=2s")
	second := p.launch(t)
	p.arrived(t)
	l.killed(t, second, 2)
	for host, a := range l.agents {
		testlab.Eventually(t, "no rank is left on "+host, func() bool { return len(l.matching(t, host, exe)) == 0 })
		if !strings.Contains(a.Stderr.String(), "no other launcher came") {
			t.Errorf("%s does not say why its ranks ended:\n%s", host, a.Stderr)
		}
	}
}

// What cannot outlive its launcher is refused before anything starts.
func TestNothingToHold(t *testing.T) {
	t.Parallel()
	l := outliving(t)
	hold := []string{"-n", "2", "--on-launcher-loss", "hold=5s"}
	l.run(t, job{args: append(hold, "--local", "--stdin", "none", "true")}).Fails(t, 240, "ranks on launcher, this very host, would end with the launcher")
	l.run(t, job{hosts: "w0:2", stdin: strings.NewReader("x"), args: append(hold, "true")}).Fails(t, 240, "another launcher cannot read on", "--stdin none")
	l.run(t, job{hosts: "w0:2", args: []string{"--on-launcher-loss", "hold=0", "true"}}).Fails(t, 240, "out of range")
	l.run(t, job{hosts: "w0:2", args: []string{"--on-launcher-loss", "keep", "true"}}).Fails(t, 240, "write fence, or hold=10m")
}
