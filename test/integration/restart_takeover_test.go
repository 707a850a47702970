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

// heldRun is a run of a shell script or a program whose launcher was killed.
func (l *lab) heldRun(t *testing.T, times int, hosts string, args ...string) job {
	t.Helper()
	j := job{hosts: hosts, args: append([]string{"--stdin", "none", "--grace", "1", "--on-launcher-loss", "hold=60s"}, args...)}
	first := l.start(t, j)
	for rank := range strings.Count(hosts, ":") { // one rank a host, or more
		if err := first.Until(first.Stdout, fmt.Sprintf("up %d\n", rank)); err != nil {
			t.Fatal(err)
		}
	}
	l.described(t, times)
	l.killed(t, first, times)
	return j
}

// Of two launchers that come at once one goes on with the ranks; the other says which did, and ends nothing. So does the launcher
// before them, which was only away.
func TestOneOfSeveralLaunchersGoesOn(t *testing.T) {
	t.Parallel()
	l := outliving(t)
	p := l.phased(t, l.program(t, "phases"), "fence", "--launcher-timeout", "2")
	first := p.launch(t)
	p.arrived(t)
	first.Signal(t, syscall.SIGSTOP)
	for host, a := range l.agents {
		testlab.Eventually(t, host+" holds the ranks", func() bool { return strings.Contains(a.Stderr.String(), "the ranks wait for another launcher") })
	}
	two := []*running{p.launch(t), p.launch(t)}
	won := -1
	testlab.Eventually(t, "one has the run", func() bool {
		for i, r := range two {
			if strings.Contains(r.Stderr.String(), "took the run over") {
				won = i
			}
		}
		return won >= 0
	})
	two[1-won].Wait(t).Fails(t, 249, "launcher launcher", "this launcher ends")
	first.Signal(t, syscall.SIGCONT)
	first.Wait(t).Fails(t, 249, "a newer launcher of this job took over host w", " has taken this run over", "launcher launcher has ") // by the end of its stream, or as it comes again
	p.release(t)
	r := two[won].Wait(t).Fails(t, 0, "took the run over")
	for rank := range 4 {
		if n := strings.Count(r.Stdout, fmt.Sprintf("%d end\n", rank)); n != 1 {
			t.Errorf("rank %d came %d times to its end:\n%s\n%s", rank, n, r.Stdout, r.Stderr)
		}
	}
}

// Ranks are started again after a takeover as before it: the count goes on.
func TestRestartsAfterATakeover(t *testing.T) {
	t.Parallel()
	for _, library := range []string{"MPICH", "Open MPI"} {
		t.Run(library, func(t *testing.T) {
			l := outliving(t)
			exe := l.programOf(t, library, "again")
			kill := func() {
				if err := syscall.Kill(l.matching(t, "w1", exe)[0], syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
			}
			j := job{hosts: "w0:1,w1:1", args: []string{"-n", "2", "--stdin", "none", "--grace", "1", "--max-restarts", "2", "--on-launcher-loss", "hold=60s", exe, "wait", "0", "2"}}
			first := l.start(t, j)
			first.Says(t, "1 of 2, start 0: w1")
			kill()
			first.Says(t, "0 of 2, start 1: w0", "1 of 2, start 1: w1")
			l.described(t, 2)
			l.killed(t, first, 1)
			second := l.start(t, j)
			if err := second.Until(second.Stderr, "took the run over"); err != nil {
				t.Fatal(err)
			}
			kill()
			second.Wait(t).Fails(t, 0, "(restart 2 of 2)")
			second.Says(t, "0 of 2, start 2: w0", "1 of 2, start 2: w1")
		})
	}
}

// What a user asked of the run holds after a takeover: its limits, its report, its termination log.
func TestLimitsAndReportAfterATakeover(t *testing.T) {
	t.Parallel()
	l := outliving(t)
	const script = `echo up $MPIUP_RANK; while ! test -e "$0/go"; do sleep 0.05; done; echo said so >&2; exit $((MPIUP_RANK * 3))`
	dir := l.folder(t)
	j := l.heldRun(t, 1, "w0:1,w1:1", "--report", filepath.Join(dir, "report"), "--termination-log", filepath.Join(dir, "end"), "sh", "-c", script, dir)
	second := l.start(t, j)
	if err := second.Until(second.Stderr, "took the run over"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	second.Wait(t).Fails(t, 3, "rank 1 on w1", "exited with code 3", "said so")
	if b, err := os.ReadFile(filepath.Join(dir, "end")); err != nil || !strings.Contains(string(b), "rank 1 on w1") {
		t.Errorf("the termination log: %q, %v", b, err)
	}
	if out := l.mpiup(t, "report", "--stream", "stderr", filepath.Join(dir, "report")).OK(t).Stdout; !strings.Contains(out, "Last lines of rank 1 on w1 (exit code 3):\n  said so") ||
		!strings.Contains(out, "without launcher") {
		t.Errorf("the report:\n%s", out)
	}

	const stuck = `echo up $MPIUP_RANK; mkfifo "$0/$MPIUP_RANK" 2>/dev/null; exec cat "$0/$MPIUP_RANK"` // for no time of its own
	j = l.heldRun(t, 2, "w0:1,w1:1", "--stall-timeout", "2s", "--on-stall", "abort", "sh", "-c", stuck, l.folder(t))
	l.run(t, j).Fails(t, 110, "took the run over")

	j = l.heldRun(t, 3, "w0:1,w1:1", "--timeout", "6s", "sh", "-c", "echo up $MPIUP_RANK; exec sleep 600")
	l.run(t, j).Fails(t, 110, "took the run over", "--timeout")
}

// Ranks that write 100 MB while no launcher is there go on, and the next launcher says how much of it is lost.
func TestOutputWithoutLauncher(t *testing.T) {
	t.Parallel()
	l := outliving(t)
	dir := l.folder(t)
	const script = `echo up $MPIUP_RANK; while ! test -e "$0/go"; do sleep 0.05; done; head -c 100000000 /dev/zero | tr '\0' '\n'; : > "$0/done.$MPIUP_RANK"; while ! test -e "$0/end"; do sleep 0.05; done; echo last`
	j := l.heldRun(t, 1, "w0:1,w1:1", "sh", "-c", script, dir)
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	for rank := range 2 {
		testlab.Eventually(t, "a rank that nobody reads goes on", func() bool { _, err := os.Stat(filepath.Join(dir, fmt.Sprintf("done.%d", rank))); return err == nil })
	}
	second := l.start(t, j)
	if err := second.Until(second.Stderr, "output of ranks 0-1 is lost"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "end"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	r := second.Wait(t).Fails(t, 0)
	lost, kept := 0, strings.Count(r.Stdout, "\n")
	for line := range strings.Lines(r.Stderr) {
		if _, rest, ok := strings.Cut(line, "is lost: "); ok {
			fmt.Sscan(rest, &lost)
		}
	}
	if lost+kept < 200_000_000 || lost+kept > 200_000_010 || kept > 3<<20 {
		t.Errorf("%d bytes are lost, and %d kept, of 200,000,000", lost, kept)
	}
}

// A host that goes while no launcher is there is what the next one's run ends for: with 249 where its agent was told to end.
func TestHostGoesWithoutLauncher(t *testing.T) {
	t.Parallel()
	for _, library := range []string{"MPICH", "Open MPI"} {
		t.Run(library, func(t *testing.T) {
			l := outliving(t)
			exe := l.programOf(t, library, "phases")
			p := l.phased(t, exe, "run")
			first := p.launch(t)
			p.arrived(t)
			l.killed(t, first, 1)
			testlab.Eventually(t, "the agents know each other", func() bool {
				return strings.Count(l.mpiup(t, "peers", "--key", l.key, "--host", "w0").Stdout, "alive") == 2
			})
			l.agents["w1"].Signal(t, syscall.SIGTERM)
			<-l.agents["w1"].Done
			p.launch(t).Wait(t).Fails(t, 249, "host w1 with ranks 2-3 is being taken away", "told to end while no launcher was there")
		})
	}
	l := outliving(t)
	p := l.phased(t, l.program(t, "phases"), "run")
	first := p.launch(t)
	p.arrived(t)
	l.killed(t, first, 1)
	if err := l.cluster.Kill("w1"); err != nil {
		t.Fatal(err)
	}
	p.launch(t).Wait(t).Fails(t, 248, "host w1 with ranks 2-3 was lost: it was not handed over")
}

// A pod that is made anew has its name and another address: it takes its ranks again, also where a launcher that took the run over has never
// seen it. torch's ranks meet at the new address.
func TestALostPodComesBackWithAnotherAddress(t *testing.T) {
	t.Parallel()
	shell := `echo "$RANK of $WORLD_SIZE, start $TORCHELASTIC_RESTART_COUNT: $(hostname), at $MASTER_ADDR"; test $TORCHELASTIC_RESTART_COUNT = 1 || exec sleep 600`
	again := func(exe string) []string {
		return []string{"run", "--host", "a:1,b:1", "-n", "2", "--stdin", "none", "--max-restarts", "1", "--grace", "1", "--on-launcher-loss", "hold=60s", exe, "wait", "0", "1"}
	}
	for _, c := range []struct {
		name string
		lost string
		line func(l *lab) []string
		over bool // by a launcher that took the run over
	}{
		{"MPICH", "b", func(l *lab) []string { return append([]string{l.bin}, again(l.program(t, "again"))...) }, false},
		{"Open MPI, taken over", "b", func(l *lab) []string { return append([]string{l.bin}, again(l.openMPI(t, "again"))...) }, true},
		{"torchrun", "a", func(l *lab) []string {
			return []string{l.link(t, "torchrun"), "--nnodes", "2", "--nproc-per-node", "1", "--max-restarts", "1", "--no-python", "sh", "-c", shell}
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := hosted(t).apart(t, netns.Config{Hosts: []string{"a", "b"}, DNS: true})
			l.agents = map[string]*testlab.Process{}
			for _, h := range []string{"a", "b"} {
				l.agents[h] = l.agent(t, h, container{})
			}
			j := job{env: []string{"MPIUP_KEY=" + l.key, "OMPI_MCA_orte_default_hostfile=" + l.file(t, "a slots=1\nb slots=1\n")}}
			line := c.line(l)
			run := l.command(t, j, line...)
			run.Says(t, "0 of 2, start 0: a", "1 of 2, start 0: b")
			if c.over {
				l.described(t, 1)
				l.killed(t, run, 1)
				run = l.command(t, j, line...)
				if err := run.Until(run.Stderr, "took the run over"); err != nil {
					t.Fatal(err)
				}
			}
			if err := l.cluster.Kill(c.lost); err != nil {
				t.Fatal(err)
			}
			before := l.cluster.Addr(c.lost)
			if err := l.cluster.Readdress(c.lost); err != nil {
				t.Fatal(err)
			}
			l.cluster.DNS().Set(l.cluster.FQDN(c.lost), l.cluster.Addr(c.lost))
			if err := l.cluster.Boot(c.lost); err != nil {
				t.Fatal(err)
			}
			l.agent(t, c.lost, container{})
			r := run.Wait(t).Fails(t, 0, "host "+c.lost+" with rank ", "the ranks start again")
			run.Says(t, "0 of 2, start 1: a", "1 of 2, start 1: b")
			if c.name == "torchrun" && (!strings.Contains(r.Stdout, "start 1: b, at "+l.cluster.Addr("a").String()) || strings.Contains(r.Stdout, "start 1: b, at "+before.String())) {
				t.Errorf("ranks meet elsewhere:\n%s", r.Stdout)
			}
		})
	}
}
