package reap

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mpiup/mpiup/test/need"
)

// agentWithGuard starts the agent role and returns it and its guard's pid.
func agentWithGuard(t *testing.T, s *Supervisor, role string, scripts ...string) (*Process, int) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	c := inRole(t, role, scripts...)
	c.Files = []*os.File{nil, w, os.Stderr}
	agent := start(t, s, c)
	w.Close()
	line, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		t.Fatalf("the agent role: %v", err)
	}
	guard, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	until(t, "the guard is in its main function", func() bool { return ignores(guard, unix.SIGTERM) })
	return agent, guard
}

func ignores(pid int, sig unix.Signal) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	return err == nil && slices.Contains(ignoredSignals(string(b)), sig)
}

func TestGuardEndsWhatAKilledAgentLeaves(t *testing.T) {
	s := supervise(t)
	dir := t.TempDir()
	at := func(n string) string { return filepath.Join(dir, n) }
	agent, guard := agentWithGuard(t, s, "agent",
		`echo $$ >`+at("rank")+`; exec sleep 100`,
		`trap "" TERM; setsid sh -c 'echo $$ >`+at("setsid")+`; exec sleep 100' & wait`,
		`(sh -c 'echo $$ >`+at("orphan")+`; exec sleep 100' &); exit 0`,
		`env -i setsid sh -c 'echo $$ >`+at("bare")+`; sh -c "echo \$\$ >`+at("grandchild")+`; exec sleep 100"; true' & wait`,
	)
	pids := map[string]int{}
	for _, n := range []string{"rank", "setsid", "orphan", "grandchild"} {
		pids[n] = pidIn(t, at(n))
	}
	bystander := start(t, s, inSession(sh("exec sleep 100"), "other"))
	for _, sig := range []unix.Signal{unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT} {
		if err := unix.Kill(guard, sig); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Kill(agent.Pid(), unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	wait(t, agent)
	for n, pid := range pids {
		until(t, n+" is ended", func() bool { return ended(pid) })
	}
	until(t, "the guard is gone", func() bool { return gone(guard) })
	if ended(bystander.Pid()) {
		t.Error("the guard ended a stranger")
	}
}

func TestGuardEndsWhatAnAgentKilledInMidSpawnLeaves(t *testing.T) {
	s := supervise(t)
	for range 4 {
		agent, guard := agentWithGuard(t, s, "churn")
		if err := unix.Kill(agent.Pid(), unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		wait(t, agent)
		until(t, "the guard is done", func() bool { return gone(guard) })
		all, err := s.proc.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range all {
			if p.Alive() && s.proc.Session(p.PID) == roleSession(agent.Pid()) {
				t.Errorf("process %d is left", p.PID)
			}
		}
	}
}

func TestGuardIsReplacedAndEndsWithItsAgent(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s := New(Config{Log: quiet(), Subreaper: true, GuardExe: exe})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	guard := func() (pid int) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.guard != nil {
			pid = s.guard.pid
		}
		return pid
	}
	start(t, s, sh("exec sleep 100"))
	until(t, "a guard is there", func() bool { return guard() != 0 })
	first := guard()
	if err := unix.Kill(first, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	until(t, "it is reaped", func() bool { return guard() != first })
	until(t, "another guard is there", func() bool {
		wait(t, start(t, s, sh("true")))
		return guard() != 0
	})
	second := guard()
	cancel()
	if err := <-done; err != nil || !gone(second) {
		t.Errorf("Run: %v; guard gone: %v", err, gone(second))
	}
}

// A guard that is expected is there before there is anything to guard.
func TestGuardIsThereBeforeTheFirstProcess(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s := supervise(t, func(c *Config) { c.GuardExe = exe })
	s.Expect()
	until(t, "a guard is there", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.guard != nil && s.forks == 1
	})
	wait(t, start(t, s, sh("true")))
	s.Expect()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.guard == nil || s.forks != 2 {
		t.Errorf("guard %v after %d forks", s.guard, s.forks)
	}
}

func TestGuardIsSmall(t *testing.T) {
	s := supervise(t)
	_, guard := agentWithGuard(t, s, "agent", "exec sleep 100")
	until(t, "the guard is in poll", func() bool {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/syscall", guard))
		return err != nil || !strings.HasPrefix(string(b), "running")
	})
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", guard))
	need.Done(t, "smaps_rollup", err, "run on Linux 4.14 or later")
	t.Logf("%s", b)
	dirty := 0
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); f[0] == "Private_Dirty:" {
			dirty, _ = strconv.Atoi(f[1])
		}
	}
	// The race detector's shadow memory is not what this is about.
	if dirty > 5<<10 && !raceEnabled {
		t.Errorf("the guard has %d KiB to itself, want at most 5 MiB", dirty)
	}
}
