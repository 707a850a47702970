package kube_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mpiup/mpiup/test/need"
	"github.com/mpiup/mpiup/test/netns"
)

// built is a directory with the binary and programs, which all hosts see.
var built string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "mpiup-kube-")
	if err == nil {
		err = os.Chmod(dir, 0o755) // ranks of any uid execute what lies here
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	built = dir
	code := m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.RemoveAll(dir)
	os.Exit(code)
}

// mpiup is the binary under test: $MPIUP_BIN, or one built here.
var mpiup = sync.OnceValues(func() (string, error) {
	bin := os.Getenv("MPIUP_BIN")
	path := filepath.Join(built, "mpiup")
	if bin == "" {
		cmd := exec.Command("go", "build", "-o", path, "./cmd/mpiup")
		cmd.Dir = "../.." // the binary of its own module, with its own requirements
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("build: %w\n%s", err, out)
		}
		return path, nil
	}
	data, err := os.ReadFile(bin)
	if err != nil {
		return "", fmt.Errorf("MPIUP_BIN: %w", err)
	}
	return path, os.WriteFile(path, data, 0o755)
})

// hello is test/mpi/hello.c, compiled with Debian's MPICH.
var hello = sync.OnceValues(func() (string, error) {
	path := filepath.Join(built, "hello")
	out, err := exec.Command("mpicc.mpich", "-O1", "-rdynamic", "-o", path, "../mpi/hello.c").CombinedOutput()
	if err != nil {
		err = fmt.Errorf("hello.c: %w\n%s", err, out)
	}
	return path, err
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

// bound is far beyond what anything here takes on a slow machine.
const bound = 90 * time.Second

// eventually waits for a condition that some program brings about.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	if !within(t.Context(), bound, ok) {
		t.Fatalf("not within %v: %s", bound, what)
	}
}

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
