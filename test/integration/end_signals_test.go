package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	testlab "github.com/mpiup/mpiup/test/lab"
)

// listener says which signals it gets; INT ends it with 3.
const listener = `trap "echo $MPIUP_RANK got QUIT; exit 7" QUIT
	for s in HUP USR1 USR2 CONT WINCH TERM; do trap "echo $MPIUP_RANK got $s" $s; done
	trap "echo $MPIUP_RANK got INT; exit 3" INT
	echo $MPIUP_RANK ready; while :; do sleep 0.05; done`

func TestSignalsAreForwarded(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	r := l.start(t, job{hosts: "w0:1,w1:1", args: []string{"sh", "-c", listener}})
	r.Says(t, "0 ready", "1 ready")
	for _, s := range []struct {
		name string
		sig  syscall.Signal
	}{{"HUP", syscall.SIGHUP}, {"USR1", syscall.SIGUSR1}, {"USR2", syscall.SIGUSR2}, {"CONT", syscall.SIGCONT}, {"WINCH", syscall.SIGWINCH}} {
		r.Signal(t, s.sig)
		r.Says(t, "0 got "+s.name, "1 got "+s.name)
	}
	r.Signal(t, syscall.SIGINT)
	r.Says(t, "0 got INT", "1 got INT")
	r.Wait(t).Fails(t, 130, "\nmpiup: interrupted\n")

	// Ranks that die of Ctrl-C are nobody's fault, and nobody is to be looked for who sent it.
	r = l.start(t, job{hosts: "w0:1,w1:1", args: []string{"sh", "-c", "echo ready; exec sleep 1000"}})
	r.Says(t, "ready\nready\n")
	r.Signal(t, syscall.SIGINT)
	if res := r.Wait(t).Fails(t, 130, "\nmpiup: interrupted\n"); strings.Contains(res.Stderr, "who sent it") {
		t.Error(res.Stderr)
	}
	// Ctrl-\ is Ctrl-C, and no look into mpiup, whether they have a use for it or not.
	for _, program := range []string{listener, "echo 0 ready; echo 1 ready; exec sleep 1000"} {
		r = l.start(t, job{hosts: "w0:1,w1:1", args: []string{"sh", "-c", program}})
		r.Says(t, "0 ready", "1 ready")
		r.Signal(t, syscall.SIGQUIT)
		if res := r.Wait(t).Fails(t, 131, "\nmpiup: interrupted\n"); strings.Contains(res.Stderr, "goroutine") {
			t.Error(res.Stderr)
		}
	}
	// Nor those that die of another one that mpiup got, as of a terminal that is closed.
	r = l.start(t, job{hosts: "w0:1,w1:1", args: []string{"sh", "-c", "echo ready; exec sleep 1000"}})
	r.Says(t, "ready\nready\n")
	r.Signal(t, syscall.SIGHUP)
	if res := r.Wait(t).Fails(t, 129, "(SIGHUP), which mpiup got and passed on", "\nmpiup: interrupted; "); strings.Contains(res.Stderr, "who sent it") {
		t.Error(res.Stderr)
	}
}

// Ctrl-\ ends what waits, by every name: nobody who types it asked for the stacks of a launcher.
func TestQuitEndsWhatWaits(t *testing.T) {
	t.Parallel()
	bin, err := testlab.Binary(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	key := filepath.Join(dir, "key")
	if err := testlab.Keygen(bin, key, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(bin, filepath.Join(dir, "ssh")); err != nil {
		t.Fatal(err)
	}
	agent := testlab.NewLoopback(t, bin, []string{"MPIUP_KEY=" + key})
	nobody := testlab.Address()

	for _, c := range []struct {
		name string
		argv []string
		says string // once it waits
		code int
	}{
		{"a run that waits for its hosts", []string{bin, "run", "-v", "--host", nobody, "--wait", "100", "true"}, nobody, 131},
		{"an agent", []string{bin, "agent", "--listen", testlab.Address(), "--http", "off"}, "ready", 0},
		{"exec", []string{bin, "exec", "--host", agent.Addr, agent.Addr, "--", "sh", "-c", "echo started; exec sleep 1000"}, "started", 131},
		{"ssh", []string{dir + "/ssh", agent.Addr, "echo started; exec sleep 1000"}, "started", 255},
		{"a script's launcher", []string{bin, "launcher", "--", "sh", "-c", "echo started; exec sleep 1000"}, "started", 131},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			both := new(testlab.Text)
			cmd := exec.Command(c.argv[0], c.argv[1:]...)
			cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + dir, "MPIUP_KEY=" + key, "MPIUP_REPORTS=" + t.TempDir()}
			cmd.Stdout, cmd.Stderr = both, both
			p, err := testlab.StartHere(cmd)
			if err != nil {
				t.Fatal(err)
			}
			if err := p.Until(both, c.says); err != nil {
				t.Fatal(err)
			}
			p.Signal(t, syscall.SIGQUIT)
			if r := p.Wait(t); r.Code != c.code || strings.Contains(both.String(), "goroutine") {
				t.Errorf("ended with %d, want %d:\n%s", r.Code, c.code, both)
			}
		})
	}
}

func TestTermEndsARun(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	r := l.start(t, job{hosts: "w0:1,w1:1", args: []string{"sh", "-c", "echo ready; exec sleep 1000"}})
	r.Says(t, "ready\nready\n")
	r.Signal(t, syscall.SIGTERM)
	r.Wait(t).Fails(t, 249, "the launcher on", "got SIGTERM")

	// Ranks that handle it and end well may be done or not: nobody but the next run knows.
	r = l.start(t, job{hosts: "w0:1,w1:1", args: []string{"sh", "-c", "trap 'exit 0' TERM; echo ready; while :; do sleep 0.05; done"}})
	r.Says(t, "ready\nready\n")
	r.Signal(t, syscall.SIGTERM)
	r.Wait(t).Fails(t, 249, "run the job again")
}

// One rank ends at once and badly; the other has the whole of --term-grace, which is longer than --grace.
func TestTermLeavesRanksTheirTime(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	r := l.start(t, job{hosts: "w0:1,w1:1", args: []string{"--grace", "1", "sh", "-c", `[ $MPIUP_RANK = 0 ] && { echo ready; exec sleep 1000; }
		trap 'sleep 3; echo saved; exit 0' TERM; echo ready; while :; do sleep 0.05; done`}})
	r.Says(t, "ready\nready\n")
	r.Signal(t, syscall.SIGTERM)
	r.Says(t, "saved")
	r.Wait(t).Fails(t, 249, "the ranks have 25s to end")
}

func TestSecondInterruptKills(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	mark := l.folder(t)
	r := l.start(t, job{hosts: "w0:1,w1:1", args: []string{"--grace", "50", "sh", "-c",
		"trap 'echo got' INT; trap '' TERM; echo ready; while :; do sleep 0.05; done; : " + mark}})
	r.Says(t, "ready\nready\n")
	r.Signal(t, syscall.SIGINT)
	r.Says(t, "got\ngot\n")
	r.Signal(t, syscall.SIGINT) // the first one's double, as from timeout(1), if it comes at once
	r.Signal(t, syscall.SIGTERM)
	res := r.Wait(t).Fails(t, 130, "a second Ctrl-C kills")
	if res.Took > 40*time.Second {
		t.Errorf("took %v, so the grace ran", res.Took)
	}
	for _, h := range []string{"w0", "w1"} {
		if left := l.matching(t, h, mark); len(left) > 0 {
			t.Errorf("%v on %s are left", left, h)
		}
	}
}

// On TSTP the ranks stop and the launcher does not, so their hosts hear from it.
func TestStopAndContinue(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	mark := l.folder(t)
	r := l.start(t, job{hosts: "w0:1,w1:1", args: []string{"--launcher-timeout", "2", "--node-timeout", "2", "sh", "-c",
		"echo ready; n=0; while [ ! -e " + mark + "/go ]; do sleep 0.05; done; echo went on"}})
	r.Says(t, "ready\nready\n")
	// A child that the shell has just forked has its command line too, but a higher pid.
	ranks := []int{slices.Min(l.matching(t, "w0", mark)), slices.Min(l.matching(t, "w1", mark))}
	// A shell that is in vfork(2) waits, in state D, for a child that is stopped before its exec.
	stopped := func(pid int) bool { return slices.Contains([]string{"T", "D"}, state(pid)) }
	all := func(want bool) func() bool {
		return func() bool { return stopped(ranks[0]) == want && stopped(ranks[1]) == want }
	}
	r.Signal(t, syscall.SIGTSTP)
	testlab.Eventually(t, "the ranks stop", all(true))
	until := time.Now().Add(5 * time.Second) // more than twice the lease
	testlab.Eventually(t, "the ranks stay stopped", func() bool {
		if !all(true)() || state(r.Cmd.Process.Pid) == "T" {
			t.Fatalf("ranks are %q and %q, the launcher is %q", state(ranks[0]), state(ranks[1]), state(r.Cmd.Process.Pid))
		}
		return time.Now().After(until)
	})
	l.command(t, job{}, "touch", mark+"/go").Wait(t).OK(t)
	r.Signal(t, syscall.SIGCONT)
	if res := r.Wait(t); res.Code != 0 || strings.Count(res.Stdout, "went on") != 2 {
		t.Errorf("ended with %d\n%s%s", res.Code, res.Stdout, res.Stderr)
	}
}
