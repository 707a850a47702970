package integration

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mpiup/mpiup/test/need"
	"github.com/mpiup/mpiup/test/netns"
)

// lab is what all tests of this package share.
type lab struct {
	dir     string // seen by all hosts
	bin     string
	key     string
	venv    string // of test/wheels.sh
	cluster *netns.Cluster
	agents  map[string]*running
	builds  *builds
}

// builds are the programs compiled so far, by path.
type builds struct {
	mu    sync.Mutex
	build map[string]func() (string, error) // guarded by mu
}

// shared is nil where hosts cannot be made.
var shared *lab

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	if os.Geteuid() != 0 {
		return m.Run() // every test says what it needs
	}
	l, err := newLab()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		if l != nil {
			l.close()
		}
		return 1
	}
	shared = l
	code := m.Run()
	if err := l.close(); err != nil && code == 0 { // a failed test may leave its run behind
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

func newLab() (*lab, error) {
	dir, err := os.MkdirTemp("", "mpiup-integration-")
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return nil, err
	}
	l := &lab{dir: dir, key: filepath.Join(dir, "key"), agents: map[string]*running{},
		builds: &builds{build: map[string]func() (string, error){}}}
	if l.bin, err = binary(dir); err != nil {
		return l, err
	}
	if l.venv, err = filepath.Abs("../../.cache/venv"); err != nil {
		return l, err
	}
	key, err := exec.Command(l.bin, "keygen").Output()
	if err != nil {
		return l, fmt.Errorf("keygen: %w", err)
	}
	if err := os.WriteFile(l.key, key, 0o644); err != nil {
		return l, err
	}
	if l.cluster, err = l.hosts(context.Background(), netns.Config{Hosts: []string{"w0", "w1", "w2"}}); err != nil {
		return l, err
	}
	for _, h := range l.cluster.Workers() {
		cmd := l.cluster.RunInit(context.Background(), h, l.bin, "agent", "--key", l.key)
		if l.agents[h], err = startCommand(cmd); err != nil {
			return l, err
		}
	}
	for h, a := range l.agents {
		if err := a.until(a.stderr, "agent is ready"); err != nil {
			return l, fmt.Errorf("agent on %s: %w", h, err)
		}
	}
	return l, nil
}

// binary is $MPIUP_BIN, or mpiup built here.
func binary(dir string) (string, error) {
	if bin := os.Getenv("MPIUP_BIN"); bin != "" {
		return filepath.Abs(bin)
	}
	bin := filepath.Join(dir, "mpiup")
	cmd := exec.Command("go", "build", "-o", bin, "github.com/mpiup/mpiup/cmd/mpiup")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build mpiup: %w\n%s", err, out)
	}
	return bin, nil
}

// hosts makes hosts that see the lab's files.
func (l *lab) hosts(ctx context.Context, cfg netns.Config) (*netns.Cluster, error) {
	cfg.Share = append(cfg.Share, l.dir)
	for _, d := range []string{filepath.Dir(l.bin), l.venv, l.openMPI5(), frameworksCache()} {
		if _, err := os.Stat(d); err == nil && d != l.dir && hidden(d) {
			cfg.Share = append(cfg.Share, d)
		}
	}
	return netns.Up(ctx, cfg)
}

// frameworksCache is where test/frameworks.sh builds.
func frameworksCache() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "mpiup", "frameworks")
}

// hidden says that hosts have a directory of their own in place of one that holds path.
func hidden(path string) bool {
	for _, own := range []string{"/tmp/", "/run/", "/root/", "/dev/shm/"} {
		if strings.HasPrefix(path+"/", own) {
			return true
		}
	}
	return false
}

func (l *lab) close() error {
	var errs []error
	for h, a := range l.agents {
		errs = append(errs, a.cmd.Process.Signal(syscall.SIGTERM))
		if r, err := a.end(); err != nil {
			errs = append(errs, fmt.Errorf("agent on %s: %w", h, err))
		} else if r.code != 0 {
			errs = append(errs, fmt.Errorf("agent on %s ended with %d when idle:\n%s", h, r.code, r.stderr[max(0, len(r.stderr)-2000):]))
		}
	}
	if l.cluster != nil {
		errs = append(errs, l.cluster.Close())
	}
	return errors.Join(append(errs, os.RemoveAll(l.dir))...)
}

// hosted is the lab, for a test that needs hosts.
func hosted(t *testing.T) *lab {
	t.Helper()
	need.Netns(t)
	return shared
}

// apart is the lab with hosts of the test's own, without agents.
func (l *lab) apart(t *testing.T, cfg netns.Config) *lab {
	t.Helper()
	c, err := l.hosts(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return &lab{dir: l.dir, bin: l.bin, key: l.key, venv: l.venv, cluster: c, builds: l.builds}
}

// program compiles test/mpi/NAME.c once.
func (l *lab) program(t *testing.T, name string) string {
	t.Helper()
	need.MPICH(t)
	exe, err := l.compiled("mpicc.mpich", name)
	if err != nil {
		t.Fatal(err)
	}
	return exe
}

func (l *lab) compiled(mpicc, name string) (string, error) {
	exe := filepath.Join(l.dir, strings.ReplaceAll(mpicc, "/", "_")+"-"+name)
	l.builds.mu.Lock()
	build, ok := l.builds.build[exe]
	if !ok {
		build = sync.OnceValues(func() (string, error) {
			cc := exec.Command(mpicc, "-O1", "-Wall", "-rdynamic", "-o", exe, "../mpi/"+name+".c")
			if out, err := cc.CombinedOutput(); err != nil {
				return "", fmt.Errorf("%v: %w\n%s", cc, err, out)
			}
			return exe, nil
		})
		l.builds.build[exe] = build
	}
	l.builds.mu.Unlock()
	return build()
}

// folder is a directory of the test that all hosts see.
func (l *lab) folder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp(l.dir, "test-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	return dir
}

// eventually waits until f holds; it looks every few milliseconds.
func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(bound); !f(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", bound, what)
		}
	}
}

// matching are the pids outside of processes on a host whose command line holds text.
func (l *lab) matching(t *testing.T, host, text string) []int {
	t.Helper()
	all, err := l.cluster.Processes(host)
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, p := range all {
		if strings.Contains(p.Argv, text) {
			pids = append(pids, p.Pid)
		}
	}
	return pids
}
