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
		if n == "grandchild" {
			continue // neither environment, process session nor, with the agent gone, a parent
		}
		until(t, n+" is ended", func() bool { return ended(pid) })
	}
	until(t, "the guard is gone", func() bool { return gone(guard) })
	if ended(bystander.Pid()) {
		t.Error("the guard ended a stranger")
	}
	_ = unix.Kill(pids["grandchild"], unix.SIGKILL)
	_ = unix.Kill(pidIn(t, at("bare")), unix.SIGKILL)
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
		all, err := s.proc.snapshot()
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range all {
			if p.alive() && s.proc.session(p.pid) == roleSession(agent.Pid()) {
				t.Errorf("process %d is left", p.pid)
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
		if s.keeper != nil {
			pid = s.keeper.pid
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

func TestOnlyReadOnlyFileMappingsAreDropped(t *testing.T) {
	for line, ok := range map[string]bool{
		"00400000-00452000 r-xp 00000000 08:02 173521 /usr/bin/mpiup\n": true,
		"00651000-00652000 r--p 00051000 08:02 173521 /usr/bin/mpiup\n": true,
		"00652000-00655000 rw-p 00052000 08:02 173521 /usr/bin/mpiup\n": false,
		"00652000-00655000 r--s 00052000 08:02 173521 /usr/bin/mpiup\n": false,
		"7ffd0000-7ffd1000 r-xp 00000000 00:00 0 [vdso]\n":              false,
		"00652000-00655000 r--p 00000000 00:00 0\n":                     false,
		"x-y r--p 00000000 08:02 1 /x\n":                                false,
		"":                                                              false,
	} {
		if _, _, got := programText(line); got != ok {
			t.Errorf("%q: %v", line, got)
		}
	}
	if start, size, _ := programText("00400000-00452000 r-xp 00000000 08:02 1 /x"); start != 0x400000 || size != 0x52000 {
		t.Errorf("%#x %#x", start, size)
	}
}

func TestMappingsThatTheLoaderWroteAreKept(t *testing.T) {
	const smaps = `00400000-00452000 r-xp 00000000 08:02 1 /usr/bin/mpiup
Rss:                 328 kB
Anonymous:             0 kB
00452000-00453000 r--p 00052000 08:02 1 /usr/bin/mpiup
Anonymous:             4 kB
00453000-00454000 rw-p 00053000 08:02 1 /usr/bin/mpiup
Anonymous:             0 kB
`
	if got := droppable(smaps); !slices.Equal(got, [][2]uintptr{{0x400000, 0x52000}}) {
		t.Errorf("%#x", got)
	}
}

func TestLedgerKeepsWhatLives(t *testing.T) {
	l, err := newLedger()
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	a := l.add(record{session: "aa"})
	b := l.add(record{session: "aa", pid: 10, start: 99})
	c := l.add(record{pid: 11, start: 100})
	l.remove(b)
	if d := l.add(record{session: "bb", pid: 12, start: 101}); d != b || a == c {
		t.Errorf("slots %d %d %d %d", a, b, c, d)
	}
	raw := make([]byte, 1024)
	n, _ := l.file.ReadAt(raw, 0)
	want := []record{{session: "aa"}, {session: "bb", pid: 12, start: 101}, {pid: 11, start: 100}}
	if got := readLedger(raw[:n]); !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	var none *ledger
	none.remove(none.add(record{session: "x"}))
	none.close()
}

func TestGuardRemovesSessionDirs(t *testing.T) {
	l, err := newLedger()
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	dirs := filepath.Join(t.TempDir(), "of mpiup")
	for _, name := range []string{"aa", "bb", "stranger"} {
		if err := os.MkdirAll(filepath.Join(SessionDir(dirs, name), "sub"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	l.add(record{dirs: dirs})
	l.add(record{dirs: "/" + strings.Repeat("x", slotBytes)}) // does not fit, and is no record
	l.add(record{session: "aa"})
	l.add(record{session: "bb", pid: 1 << 22, start: 1})
	l.add(record{session: "../session-stranger"})
	raw := make([]byte, 5*slotBytes)
	n, _ := l.file.ReadAt(raw, 0)
	records := readLedger(raw[:n])
	if len(records) != 4 {
		t.Errorf("read %+v", records)
	}
	removeDirs(records)
	left, err := filepath.Glob(filepath.Join(dirs, "*"))
	if err != nil || !slices.Equal(left, []string{SessionDir(dirs, "stranger")}) {
		t.Errorf("left are %q, %v", left, err)
	}
}
