package integration

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	testlab "github.com/mpiup/mpiup/test/lab"
	"github.com/mpiup/mpiup/test/need"
	"github.com/mpiup/mpiup/test/netns"
)

type (
	running = testlab.Process
	result  = testlab.Result
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
	build map[string]func() error // guarded by mu
}

// shared has no hosts where none can be made.
var shared = lab{builds: &builds{build: map[string]func() error{}}}

func TestMain(m *testing.M) { os.Exit(testlab.Main(m, shared.setUp, shared.close)) }

func (l *lab) setUp(dir string) (err error) {
	if os.Geteuid() != 0 {
		return nil // every test says what it needs
	}
	l.dir, l.key = dir, filepath.Join(dir, "key")
	if l.bin, err = testlab.Binary(dir); err != nil {
		return err
	}
	if l.venv, err = filepath.Abs("../../.cache/venv"); err != nil {
		return err
	}
	if err = testlab.Keygen(l.bin, l.key, 0o644); err != nil {
		return err
	}
	if l.cluster, err = l.hosts(context.Background(), netns.Config{Hosts: []string{"w0", "w1", "w2"}}); err != nil {
		return err
	}
	l.agents, err = testlab.Agents(context.Background(), l.cluster, l.bin, "agent", "--key", l.key)
	return err
}

func (l *lab) close() error {
	err := testlab.Idle(l.agents)
	if l.cluster != nil {
		err = errors.Join(err, l.cluster.Close())
	}
	return err
}

// hosts makes hosts that see the lab's files.
func (l *lab) hosts(ctx context.Context, cfg netns.Config) (*netns.Cluster, error) {
	cfg.Share = append(cfg.Share, l.dir)
	for _, d := range []string{filepath.Dir(l.bin), l.venv, l.openMPI5(), filepath.Join(filepath.Dir(l.venv), "impi"), frameworksCache()} {
		if _, err := os.Stat(d); err == nil && d != l.dir {
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

// hosted is the lab, for a test that needs hosts.
func hosted(t *testing.T) *lab {
	t.Helper()
	need.Netns(t)
	return &shared
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
		build = sync.OnceValue(func() error { return testlab.Compile(mpicc, name, exe) })
		l.builds.build[exe] = build
	}
	l.builds.mu.Unlock()
	return exe, build()
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

// job is a mpiup run on the launcher, or another command there.
type job struct {
	hosts  string   // --host; "" is none
	args   []string // of mpiup run
	stdin  io.Reader
	stdout io.Writer // default: result.stdout
	env    []string  // besides the host's
	dir    string    // default: /
}

// run starts the job, waits for its end and returns what came of it.
func (l *lab) run(t *testing.T, j job) result {
	t.Helper()
	return l.start(t, j).Wait(t)
}

func (l *lab) start(t *testing.T, j job) *running {
	t.Helper()
	argv := []string{l.bin, "run", "--key", l.key}
	if j.hosts != "" {
		argv = append(argv, "--host", j.hosts)
	}
	return l.command(t, j, append(argv, j.args...)...)
}

// mpiup runs any command of the binary on the launcher.
func (l *lab) mpiup(t *testing.T, args ...string) result {
	t.Helper()
	return l.command(t, job{}, append([]string{l.bin}, args...)...).Wait(t)
}

// command starts argv on the launcher as j says. The test's end kills it if it still runs.
func (l *lab) command(t *testing.T, j job, argv ...string) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cmd := l.cluster.Command(ctx, netns.Launcher, argv...)
	cmd.Stdin, cmd.Stdout = j.stdin, j.stdout
	cmd.WaitDelay = testlab.Bound // for what a killed launcher leaves behind with our pipes
	if j.dir != "" {
		cmd.Dir = j.dir
	}
	if len(j.env) > 0 {
		cmd.Env = append([]string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/root"}, j.env...)
	}
	r, err := testlab.Start(cmd)
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); <-r.Done })
	return r
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
