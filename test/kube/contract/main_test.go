package contract

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/mpiup/mpiup/test/need"
)

// built is a directory with the binary, programs and volumes, which all hosts see.
var built string

func TestMain(m *testing.M) {
	klog.SetLogger(logr.Discard()) // the controllers' own logs
	ctrl.SetLogger(logr.Discard())
	dir, err := os.MkdirTemp("/tmp", "mpiup-contract-")
	if err == nil {
		err = os.Chmod(dir, 0o755) // ranks of any uid execute what lies here
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	built = dir
	code := m.Run()
	// MPI Operator never ends its event recorder and klog never its clock.
	if err := goleak.Find(goleak.IgnoreAnyFunction("k8s.io/apimachinery/pkg/watch.(*Broadcaster).loop"),
		goleak.IgnoreAnyFunction("k8s.io/client-go/tools/record.(*eventBroadcasterImpl).StartEventWatcher.func1"),
		goleak.IgnoreAnyFunction("k8s.io/klog/v2.(*flushDaemon).run.func1")); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.RemoveAll(dir)
	os.Exit(code)
}

// binary is the binary under test: $MPIUP_BIN, or one built here.
var binary = sync.OnceValues(func() (string, error) {
	path := filepath.Join(built, "mpiup")
	if bin := os.Getenv("MPIUP_BIN"); bin != "" {
		data, err := os.ReadFile(bin)
		if err != nil {
			return "", fmt.Errorf("MPIUP_BIN: %w", err)
		}
		return path, os.WriteFile(path, data, 0o755)
	}
	cmd := exec.Command("go", "build", "-o", path, "./cmd/mpiup")
	cmd.Dir = "../../.." // the binary of its own module, with its own requirements
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return path, nil
})

// program compiles test/mpi/hello.c, once for each compiler of Debian's.
func program(t *testing.T, compiler string) string {
	t.Helper()
	return compiled(t, compiler, "hello")
}

// compiled is a program of test/mpi, made by a compiler of Debian's.
func compiled(t *testing.T, compiler, name string) string {
	t.Helper()
	if compiler == "mpicc.mpich" {
		need.MPICH(t)
	} else {
		need.Program(t, "mpicc.openmpi", "openmpi-bin and libopenmpi-dev")
	}
	path := filepath.Join(built, name+"."+compiler)
	once(t, path, compiler, "-O1", "-rdynamic", "-o", path, "../../mpi/"+name+".c")
	return path
}

// once runs a command that makes a file or directory, unless it is there.
func once(t *testing.T, path string, argv ...string) {
	t.Helper()
	making.Lock()
	defer making.Unlock()
	if _, err := os.Stat(path); err == nil {
		return
	}
	if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", path, err, out)
	}
}

var making sync.Mutex

// script writes a program for sh that all hosts see.
func script(t *testing.T, text string) string {
	t.Helper()
	f, err := os.CreateTemp(built, "script-")
	must(t, err)
	_, err = f.WriteString("#!/bin/sh\n" + text + "\n")
	must(t, errors.Join(err, f.Chmod(0o755), f.Close()))
	return f.Name()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
