// Package lab has what tests of the built program share: the program and a job's secret, agents that are ready,
// commands to start, watch and judge, and waiting for what another process does.
//
//	Main ── a directory, removed after the package's tests
//	Binary, Secret, Keygen, Compile ── mpiup, a key, programs of test/mpi
//	Start(netns.Cmd), StartHere(exec.Cmd) ── Process ── End, Wait ── Result ── OK, Fails, Ends
//	Agents ── a ready agent on each worker of a netns.Cluster, as PID 1
//	Loopback ── a ready agent on an address of 127.0.0.0/8, for tests without root
//	Commit, Load, There ── what kept results name, and what hosts share
//	Eventually ── a condition that another process brings about
//
// A Process and a Text may be used by several goroutines. The package makes no hosts: test/netns does.
package lab

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Bound is far beyond what anything here takes on a slow and busy machine: only what hangs reaches it.
const Bound = 3 * time.Minute

// Eventually fails the test if a condition does not hold within Bound; it looks every few milliseconds.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for late := time.After(Bound); !ok(); {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("not within %v: %s", Bound, what)
		}
	}
}

// Main runs a package's tests with a directory of their own, in which every user may read, and returns the exit code.
// setUp is called first, tearDown (or nil) last; an error of either is told and fails the package.
func Main(m *testing.M, setUp func(dir string) error, tearDown func() error) (code int) {
	dir, err := os.MkdirTemp("", "mpiup-test-")
	if err == nil {
		defer os.RemoveAll(dir)
		err = os.Chmod(dir, 0o755) // ranks of any uid execute what lies here
	}
	if err == nil {
		err = setUp(dir)
	}
	if err == nil {
		code = m.Run()
	}
	if tearDown != nil {
		if e := tearDown(); err == nil && code == 0 { // a failed test may leave its run behind
			err = e
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// Binary is $MPIUP_BIN, or mpiup built into dir.
func Binary(dir string) (string, error) {
	if bin := os.Getenv("MPIUP_BIN"); bin != "" {
		return filepath.Abs(bin)
	}
	return BinaryIn(dir)
}

// BinaryIn is a copy of $MPIUP_BIN in dir, or mpiup built there, for hosts that see nothing else of it.
func BinaryIn(dir string) (string, error) {
	path := filepath.Join(dir, "mpiup")
	bin := os.Getenv("MPIUP_BIN")
	if bin == "" {
		return path, Build(path, "./cmd/mpiup")
	}
	program, err := os.ReadFile(bin)
	if err != nil {
		return "", fmt.Errorf("MPIUP_BIN: %w", err)
	}
	return path, os.WriteFile(path, program, 0o755)
}

// Build builds a package of mpiup's module, by its path there, with the versions that the module requires.
func Build(out, pkg string, flags ...string) error {
	root, err := Root()
	if err != nil {
		return err
	}
	cmd := exec.Command("go", append(append([]string{"build", "-o", out}, flags...), pkg)...)
	cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	return quietly(cmd)
}

// Secret is a new job's secret, by mpiup keygen.
func Secret(mpiup string) ([]byte, error) {
	text, err := exec.Command(mpiup, "keygen").Output()
	if err != nil {
		return nil, fmt.Errorf("%s keygen: %w", mpiup, err)
	}
	return text, nil
}

// Keygen writes a new job's secret to a file.
func Keygen(mpiup, file string, mode os.FileMode) error {
	text, err := Secret(mpiup)
	if err != nil {
		return err
	}
	return os.WriteFile(file, text, mode)
}

// Compile makes a program of test/mpi/NAME.c with a C compiler.
func Compile(cc, name, out string) error {
	root, err := Root()
	if err != nil {
		return err
	}
	return quietly(exec.Command(cc, "-O1", "-Wall", "-rdynamic", "-o", out, filepath.Join(root, "test", "mpi", name+".c")))
}

// Root is the directory of mpiup's module, in or below which tests run.
func Root() (string, error) {
	dir, err := os.Getwd()
	for ; err == nil && dir != "/"; dir = filepath.Dir(dir) {
		if text, _ := os.ReadFile(filepath.Join(dir, "go.mod")); strings.HasPrefix(string(text), "module github.com/mpiup/mpiup\n") {
			return dir, nil
		}
	}
	return "", fmt.Errorf("no directory of mpiup's module holds this one: %w", err)
}

// quietly runs a command whose output matters if it fails.
func quietly(cmd *exec.Cmd) error {
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w\n%s", cmd, err, out)
	}
	return nil
}
