package chaos

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/test/need"
	"github.com/mpiup/mpiup/test/netns"
)

// Hosts of the one cluster: workers are handed out to scenarios, launchers are for those that
// stop, throttle or cut off the launcher's host.
const (
	workers   = 30
	launchers = 10
	parallel  = "10" // scenarios at once, of at most 3 workers each: they wait more than they work
)

// world is what all scenarios share.
var world struct {
	cluster *netns.Cluster
	dir     string
	mpiup   string
	key     string
	counter string
	bigkvs  string // "" without a compiler
	steady  string // "" without MPICH
	err     error
}

func TestMain(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f != nil && f.Value.String() != "1" {
		_ = f.Value.Set(parallel)
	}
	os.Exit(withWorld(m))
}

func withWorld(m *testing.M) (code int) {
	if os.Geteuid() != 0 {
		return m.Run() // which skips, or fails where it may not skip
	}
	dir, err := os.MkdirTemp("", "mpiup-chaos-")
	if err == nil {
		world.dir = dir
		defer os.RemoveAll(dir)
		err = build()
	}
	if err == nil {
		for i := range workers {
			pool.free = append(pool.free, fmt.Sprintf("w%d", i))
		}
		for i := range launchers {
			pool.free = append(pool.free, fmt.Sprintf("l%d", i))
		}
		hosts := slices.Clone(pool.free)
		world.cluster, err = netns.Up(context.Background(), netns.Config{Hosts: hosts, Share: []string{dir, filepath.Dir(world.mpiup)}})
	}
	world.err = err
	code = m.Run()
	if world.cluster != nil {
		if err := world.cluster.Close(); err != nil {
			fmt.Fprintln(os.Stderr, "chaos:", err)
			code = max(code, 1)
		}
	}
	return code
}

// build makes the programs and the job's secret.
func build() error {
	world.key = filepath.Join(world.dir, "key")
	world.counter = filepath.Join(world.dir, "counter")
	world.mpiup = os.Getenv("MPIUP_BIN")
	goBuild := func(out, pkg string) error {
		cmd := exec.Command("go", "build", "-o", out, pkg)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if b, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("go build %s: %w: %s", pkg, err, b)
		}
		return nil
	}
	var errs []error
	if world.mpiup == "" {
		world.mpiup = filepath.Join(world.dir, "mpiup")
		errs = append(errs, goBuild(world.mpiup, "github.com/mpiup/mpiup/cmd/mpiup"))
	}
	errs = append(errs, os.WriteFile(world.key, []byte("the secret of the chaos tests\n"), 0o600),
		goBuild(world.counter, "./counter"))
	for _, p := range []struct {
		out      *string
		name, cc string
	}{{&world.bigkvs, "bigkvs", "cc"}, {&world.steady, "steady", "mpicc.mpich"}} {
		cc, err := exec.LookPath(p.cc)
		if err != nil {
			continue
		}
		*p.out = filepath.Join(world.dir, p.name)
		if b, err := exec.Command(cc, "-O1", "-rdynamic", "-o", *p.out, "../mpi/"+p.name+".c").CombinedOutput(); err != nil {
			errs = append(errs, fmt.Errorf("%s %s.c: %w: %s", p.cc, p.name, err, b))
		}
	}
	return errors.Join(errs...)
}

// cluster is the shared one; the test is skipped where there can be none.
func cluster(t *testing.T) *netns.Cluster {
	t.Helper()
	need.Netns(t)
	if world.err != nil {
		t.Fatal(world.err)
	}
	return world.cluster
}

// summary is the last lines of a text, for failures.
func summary(s string) string {
	l := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(l[max(0, len(l)-12):], "\n")
}
