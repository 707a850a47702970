package slow

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mpiup/mpiup/test/lab"
	"github.com/mpiup/mpiup/test/need"
	"github.com/mpiup/mpiup/test/netns"
)

const (
	first, second = "w0", "w1"
	bound         = 3 * time.Minute
)

// seconds are the hosts of which each try has one for itself.
var seconds = []string{second, "w2", "w3", "w4", "w5", "w6"}

// world is what all tries share.
var world struct {
	dir, mpiup, key string
	cluster         *netns.Cluster
	agents          map[string]*lab.Process
	slowed          map[string][]string // argv, by what the program is written with
	balanced        map[string]string   // by MPI library
	groups          []string            // cgroups to remove
	alone           sync.RWMutex        // who uses processors must be alone
	free            chan string         // of seconds, those that no try has
	mu              sync.Mutex          // guards groups
}

func TestMain(m *testing.M) {
	os.Exit(lab.Main(m, func(dir string) error { world.dir = dir; return nil }, func() error {
		if world.cluster == nil {
			return nil
		}
		err := errors.Join(lab.Idle(world.agents), world.cluster.Close())
		for _, dir := range slices.Backward(world.groups) {
			err = errors.Join(err, os.Remove(dir))
		}
		return err
	}))
}

// hosted makes the hosts, agents and programs.
func hosted(t *testing.T) {
	t.Helper()
	need.Netns(t)
	need.MPICH(t)
	need.Program(t, "mpicc.openmpi", "libopenmpi-dev")
	if err := up(); err != nil {
		t.Fatal(err)
	}
	need.File(t, "watch", filepath.Join(filepath.Dir(world.mpiup), "libmpiup-watch.so"), "make watch")
}

var up = sync.OnceValue(func() (err error) {
	w := &world
	w.free = make(chan string, len(seconds))
	for _, host := range seconds {
		w.free <- host
	}
	w.key = filepath.Join(w.dir, "key")
	if w.mpiup, err = lab.Binary(w.dir); err != nil {
		return err
	}
	if err = errors.Join(lab.Keygen(w.mpiup, w.key, 0o644), compile()); err != nil {
		return err
	}
	w.cluster, err = netns.Up(context.Background(), netns.Config{Hosts: append([]string{first}, seconds...), Share: lab.There(w.dir, filepath.Dir(w.mpiup), venv())})
	if err != nil {
		return err
	}
	w.agents, err = lab.Agents(context.Background(), w.cluster, w.mpiup, "agent", "--key", w.key)
	return err
})

// venv is where test/wheels.sh has mpi4py.
func venv() string {
	root, _ := lab.Root()
	return filepath.Join(root, ".cache", "venv")
}

// compile makes the programs, of test/mpi. Those whose compiler or library is not here are left out.
func compile() error {
	root, err := lab.Root()
	if err != nil {
		return err
	}
	source := func(name string) string { return filepath.Join(root, "test", "mpi", name) }
	world.slowed, world.balanced = map[string][]string{}, map[string]string{}
	var errs []error
	build := func(out, compiler string, args ...string) string {
		path := filepath.Join(world.dir, out)
		cmd := exec.Command(compiler, append([]string{"-O1", "-o", path}, args...)...)
		cmd.Dir = world.dir
		if text, err := cmd.CombinedOutput(); err != nil {
			errs = append(errs, fmt.Errorf("%v: %w\n%s", cmd, err, text))
		}
		return path
	}
	step := build("step.o", "gcc", "-c", "-fPIC", "-Wall", source("step.c"))
	for _, l := range []struct{ name, cc, fortran string }{{"MPICH", "mpicc.mpich", "mpif90.mpich"}, {"Open MPI", "mpicc.openmpi", "mpif90.openmpi"}} {
		world.slowed[l.name] = []string{build("slowed."+l.cc, l.cc, "-Wall", "-rdynamic", source("slowed.c"), step)}
		world.balanced[l.name] = build("balanced."+l.cc, l.cc, "-Wall", "-rdynamic", source("balanced.c"), step)
		if _, err := exec.LookPath("gfortran"); err == nil {
			world.slowed["Fortran, "+l.name] = []string{build("slowed."+l.fortran, l.fortran, source("slowed.f90"), step)}
		}
	}
	python := filepath.Join(venv(), "bin", "python")
	if exec.Command(python, "-c", "import mpi4py").Run() == nil {
		text, err := os.ReadFile(source("slowed.py"))
		path := filepath.Join(world.dir, "slowed.py")
		errs = append(errs, err, os.WriteFile(path, text, 0o644))
		world.slowed["mpi4py"] = []string{python, path, build("libstep.so", "gcc", "-shared", step)}
	}
	return errors.Join(errs...)
}

// job is a mpiup run whose last rank is alone on a host, or half of whose ranks are there.
type job struct {
	ranks, onFirst int
	last           string
	window         time.Duration
	flags, program []string
}

func (j job) start(ctx context.Context) (*lab.Process, error) {
	argv := slices.Concat([]string{world.mpiup, "run", "--key", world.key, "--host", fmt.Sprintf("%s:%d,%s:%d", first, j.onFirst, j.last, j.ranks-j.onFirst),
		"-n", strconv.Itoa(j.ranks), "--stdin", "none", "--watch-ranks", "--watch-window", j.window.String()}, j.flags, []string{"--"}, j.program)
	cmd := world.cluster.Command(ctx, netns.Launcher, argv...)
	cmd.WaitDelay = 5 * time.Second // for what holds its output
	return lab.Start(cmd)
}

// number is that of an environment variable.
func number(name string, usual int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return usual
}

// said are the lines in which a run names who the others wait for.
func said(stderr string) (names []string) {
	for line := range strings.Lines(stderr) {
		text, own := strings.CutPrefix(line, "mpiup: ")
		if own && strings.HasPrefix(text, "rank") && (strings.Contains(text, ": the others waited ") || strings.Contains(text, ": all others have waited ")) {
			names = append(names, strings.TrimSpace(text))
		}
	}
	return names
}
