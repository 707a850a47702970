package reap

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mpiup/mpiup/agent/reap/proctree"
	"github.com/mpiup/mpiup/test/lab"
)

// patience bounds every wait for something that should happen soon.
const patience = 30 * time.Second

// TestMain is also the program that the tests start in a role. As a guard it does not come here (package guard).
func TestMain(m *testing.M) {
	if name := os.Getenv("REAP_TEST_ROLE"); name != "" {
		role, ok := roles[name]
		if !ok {
			fmt.Fprintln(os.Stderr, "no role", name)
			os.Exit(99)
		}
		os.Exit(role(os.Args[1:]))
	}
	goleak.VerifyTestMain(m)
}

// supervise runs a supervisor for the length of a test. Subreaper makes the whole test process
// one, so tests here start processes through supervisors only, one at a time.
func supervise(t testing.TB, change ...func(*Config)) *Supervisor {
	t.Helper()
	cfg := Config{Log: slog.New(slog.NewTextHandler(testLog{t}, nil)), Subreaper: true, StopGrace: time.Second}
	for _, c := range change {
		c(&cfg)
	}
	s := New(cfg)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return s
}

type testLog struct{ t testing.TB }

func (l testLog) Write(b []byte) (int, error) {
	l.t.Log(strings.TrimSpace(string(b)))
	return len(b), nil
}

func sh(script string, args ...string) Command {
	return Command{Argv: append([]string{"sh", "-c", script, "sh"}, args...), Env: []string{"PATH=/usr/bin:/bin"}}
}

// inRole is this test binary, playing a role.
func inRole(t testing.TB, role string, args ...string) Command {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return Command{Argv: append([]string{exe}, args...), Env: []string{"PATH=/usr/bin:/bin", "REAP_TEST_ROLE=" + role}}
}

func inSession(c Command, session string) Command {
	c.Session = session
	c.Env = append(c.Env, "MPIUP_SESSION="+session)
	return c
}

func start(t testing.TB, s *Supervisor, c Command) *Process {
	t.Helper()
	p, err := s.Start(t.Context(), c)
	if err != nil {
		t.Fatalf("start %q: %v", c.Argv, err)
	}
	return p
}

func wait(t testing.TB, p *Process) {
	t.Helper()
	select {
	case <-p.Done():
	case <-time.After(patience):
		t.Fatalf("process %d does not end", p.Pid())
	}
}

// output runs c to its end and returns what it wrote to stdout and stderr.
func output(t testing.TB, s *Supervisor, c Command) string {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	c.Files = append([]*os.File{nil, f, f}, c.Files...)
	wait(t, start(t, s, c))
	b, err := os.ReadFile(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// until waits for a condition outside this process.
var until = lab.Eventually

// pidIn reads a pid that a process writes to a file.
func pidIn(t testing.TB, file string) (pid int) {
	t.Helper()
	until(t, "a pid in "+file, func() bool {
		b, err := os.ReadFile(file)
		if err != nil || !strings.HasSuffix(string(b), "\n") {
			return false
		}
		_, err = fmt.Sscan(string(b), &pid)
		return err == nil
	})
	return pid
}

func gone(pid int) bool {
	_, err := os.Stat(fmt.Sprintf("/proc/%d", pid))
	return os.IsNotExist(err)
}

func ended(pid int) bool {
	st, err := proctree.Proc{Root: "/proc"}.Stat(pid)
	return err != nil || !st.Alive()
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }
