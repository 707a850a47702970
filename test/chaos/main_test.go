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
	"sync"
	"testing"

	"github.com/mpiup/mpiup/test/lab"
	"github.com/mpiup/mpiup/test/need"
	"github.com/mpiup/mpiup/test/netns"
)

// Hosts of the one cluster: workers are handed out to scenarios, launchers are for those that
// stop, throttle or cut off the launcher's host.
const (
	workers   = 40
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
}

func TestMain(m *testing.M) {
	flag.Parse()
	asked := false
	flag.Visit(func(f *flag.Flag) { asked = asked || f.Name == "test.parallel" })
	if !asked {
		_ = flag.Set("test.parallel", parallel)
	}
	os.Exit(lab.Main(m, setUp, func() error {
		if world.cluster == nil {
			return nil
		}
		return world.cluster.Close()
	}))
}

func setUp(dir string) error {
	if os.Geteuid() != 0 {
		return nil // every test skips, or fails where it may not skip
	}
	world.dir = dir
	if err := build(); err != nil {
		return err
	}
	return nil
}

// up makes the shared cluster, of which the matrix has no need.
var up = sync.OnceValue(func() (err error) {
	for i := range workers {
		pool.free = append(pool.free, fmt.Sprintf("w%d", i))
	}
	for i := range launchers {
		pool.free = append(pool.free, fmt.Sprintf("l%d", i))
	}
	world.cluster, err = netns.Up(context.Background(), netns.Config{Hosts: slices.Clone(pool.free), Share: []string{world.dir, filepath.Dir(world.mpiup)}})
	return err
})

// build makes the programs and the job's secret.
func build() (err error) {
	world.key, world.counter = filepath.Join(world.dir, "key"), filepath.Join(world.dir, "counter")
	if world.mpiup, err = lab.Binary(world.dir); err != nil {
		return err
	}
	errs := []error{lab.Keygen(world.mpiup, world.key, 0o600), lab.Build(world.counter, "./test/chaos/counter")}
	for _, p := range []struct {
		out      *string
		name, cc string
	}{{&world.bigkvs, "bigkvs", "cc"}, {&world.steady, "steady", "mpicc.mpich"}} {
		if _, err := exec.LookPath(p.cc); err == nil {
			*p.out = filepath.Join(world.dir, p.name)
			errs = append(errs, lab.Compile(p.cc, p.name, *p.out))
		}
	}
	return errors.Join(errs...)
}

// cluster is the shared one; the test is skipped where there can be none.
func cluster(t *testing.T) *netns.Cluster {
	t.Helper()
	need.Netns(t)
	if err := up(); err != nil {
		t.Fatal(err)
	}
	return world.cluster
}

// summary is the last lines of a text, for failures.
func summary(s string) string {
	l := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(l[max(0, len(l)-12):], "\n")
}
