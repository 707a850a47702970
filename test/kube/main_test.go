package kube_test

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mpiup/mpiup/test/lab"
	"github.com/mpiup/mpiup/test/need"
	"github.com/mpiup/mpiup/test/netns"
)

// built is a directory with the binary and programs, which all hosts see.
var built string

func TestMain(m *testing.M) {
	os.Exit(lab.Main(m, func(dir string) error { built = dir; return nil }, func() error { return goleak.Find() }))
}

// mpiup is the binary under test.
var mpiup = sync.OnceValues(func() (string, error) { return lab.BinaryIn(built) })

// hello is test/mpi/hello.c, compiled with Debian's MPICH.
var hello = sync.OnceValues(func() (string, error) {
	path := filepath.Join(built, "hello")
	return path, lab.Compile("mpicc.mpich", "hello", path)
})

func mpiHello(t *testing.T) string {
	t.Helper()
	need.MPICH(t)
	path, err := hello()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// cluster is the hosts of one test.
type cluster struct {
	*netns.Cluster
	t      *testing.T
	bin    string
	dir    string // volumes of the pods, which all hosts see
	family netns.Family

	mu      sync.Mutex
	volumes int // guarded by mu: made so far
}

// up makes hosts that pods or nodes can be started on. Names resolve for nobody yet.
func up(t *testing.T, family netns.Family, domain string, hosts ...string) *cluster {
	t.Helper()
	need.Netns(t)
	bin, err := mpiup()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp(built, "volumes-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	c, err := netns.Up(t.Context(), netns.Config{Hosts: hosts, DNS: true, Domain: "x.ns.svc." + domain,
		Family: family, Share: []string{built}})
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range append(c.Workers(), netns.Launcher) {
		c.DNS().Remove(c.FQDN(h))
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return &cluster{Cluster: c, t: t, bin: bin, dir: dir, family: family}
}

// bound is far beyond what a pod's command takes on a slow machine.
const bound = 90 * time.Second

// within says whether ok came true in d.
func within(ctx context.Context, d time.Duration, ok func() bool) bool {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}
	return true
}
