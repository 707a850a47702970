package badinput

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// bin is the binary under test; key is the job's secret in a file.
var bin, key string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "mpiup-badinput-")
	if err == nil {
		err = setUp(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

func setUp(dir string) error {
	if bin = os.Getenv("MPIUP_BIN"); bin == "" {
		bin = filepath.Join(dir, "mpiup")
		build := exec.Command("go", "build", "-o", bin, "github.com/mpiup/mpiup/cmd/mpiup")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("build: %w: %s", err, out)
		}
	}
	key = filepath.Join(dir, "key")
	return keygen(key)
}

func keygen(file string) error {
	out, err := exec.Command(bin, "keygen").Output()
	if err != nil {
		return err
	}
	return os.WriteFile(file, out, 0o600)
}

// network is a part of loopback that nobody else is likely to use.
var network = fmt.Sprintf("127.%d.%d.", 64+rand.IntN(190), rand.IntN(256))

var (
	nextMu   sync.Mutex
	nextHost int
)

// address is a loopback address of its own, without a port.
func address() string {
	nextMu.Lock()
	defer nextMu.Unlock()
	nextHost++
	return network + fmt.Sprint(nextHost)
}

const port = "16748" // the agent's default

// ended is what a command came to.
type ended struct {
	code   int
	stdout string
	stderr string
	took   time.Duration
}

const bound = 90 * time.Second // for any command, on a slow and busy machine

// mpiup runs the binary to its end. The environment holds the job's key unless env sets
// MPIUP_KEY.
func mpiup(t testing.TB, env []string, args ...string) ended {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	c := exec.CommandContext(ctx, bin, args...)
	c.Env = append([]string{"PATH=/usr/bin:/bin", "HOME=" + t.TempDir(), "MPIUP_KEY=" + key}, env...)
	for i, kv := range c.Env {
		if strings.HasPrefix(kv, "MPIUP_KEY=") && i != 2 || len(env) > 0 && env[0] == "MPIUP_KEY=" && i == 2 {
			c.Env[2] = "UNUSED="
		}
	}
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	c.WaitDelay = 5 * time.Second
	begun := time.Now()
	err := c.Run()
	e := ended{code: c.ProcessState.ExitCode(), stdout: out.String(), stderr: errs.String(), took: time.Since(begun)}
	if ctx.Err() != nil {
		t.Errorf("mpiup %q hangs: %v\n%s", args, err, e.stderr)
	}
	return e
}

// check compares a command's end with what a case wants.
func (e ended) check(t *testing.T, code int, says ...string) {
	t.Helper()
	if e.code != code {
		t.Errorf("exit code %d, not %d:\n%s", e.code, code, e.stderr)
	}
	for _, s := range says {
		if n := strings.Count(e.stderr, s); n == 0 {
			t.Errorf("it does not say %q:\n%s", s, e.stderr)
		}
	}
	for line := range strings.Lines(e.stderr) {
		if len(line) > 600 {
			t.Errorf("a line of %d bytes: %s", len(line), line)
		}
	}
	if strings.Contains(e.stderr, "panic") || strings.Contains(e.stderr, "goroutine ") {
		t.Errorf("it crashed:\n%s", e.stderr)
	}
}

// agent is a running `mpiup agent`.
type agent struct {
	addr string // without port
	pid  int
	log  *lockedBuffer
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// startAgent starts an agent that ends, with code 0 or 143, when the test does.
func startAgent(t testing.TB, env []string, args ...string) *agent {
	t.Helper()
	a := &agent{addr: address(), log: &lockedBuffer{}}
	all := append([]string{"agent", "--listen", a.addr, "--name", "h" + strings.ReplaceAll(a.addr, ".", "-"), "--no-gossip"}, args...)
	c := exec.Command(bin, all...)
	dir := t.TempDir()
	c.Env = append([]string{"PATH=/usr/bin:/bin", "HOME=" + dir, "TMPDIR=" + dir, "MPIUP_KEY=" + key}, env...)
	c.Dir = dir
	c.Stdout, c.Stderr = a.log, a.log
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	a.pid = c.Process.Pid
	gone := make(chan error, 1)
	go func() { gone <- c.Wait() }()
	t.Cleanup(func() {
		c.Process.Signal(syscall.SIGTERM)
		select {
		case err := <-gone:
			var ee *exec.ExitError
			if err != nil && !(errors.As(err, &ee) && ee.ExitCode() == 143) {
				t.Errorf("agent: %v\n%s", err, a.log)
			}
		case <-time.After(bound):
			t.Errorf("the agent does not end:\n%s", a.log)
			c.Process.Kill()
		}
	})
	eventually(t, "the agent is ready", func() bool { return strings.Contains(a.log.String(), "agent is ready") })
	return a
}

// eventually waits for a condition.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(bound)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", bound, what)
		}
		time.Sleep(20 * time.Millisecond) // the condition is another process's
	}
}

// listen serves each connection to a new loopback address, on the agent's port, with f.
func listen(t testing.TB, f func(net.Conn)) (addr string) {
	t.Helper()
	addr = address()
	l, err := net.Listen("tcp", net.JoinHostPort(addr, port))
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { defer c.Close(); c.SetDeadline(time.Now().Add(bound)); f(c) })
		}
	})
	t.Cleanup(func() { l.Close(); wg.Wait() })
	return addr
}
