package contract

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	testlab "github.com/mpiup/mpiup/test/lab"
	"github.com/mpiup/mpiup/test/need"
)

// built is a directory with the binary, programs and volumes, which all hosts see.
var built string

func TestMain(m *testing.M) {
	klog.SetLogger(logr.Discard()) // the controllers' own logs
	ctrl.SetLogger(logr.Discard())
	os.Exit(testlab.Main(m, func(dir string) error { built = dir; return nil }, func() error {
		// MPI Operator never ends its event recorder and klog never its clock; Trainer 2.3.0 neither its server of statuses.
		return goleak.Find(goleak.IgnoreAnyFunction("github.com/kubeflow/trainer/v2/pkg/statusserver.(*Server).Start"),
			goleak.IgnoreAnyFunction("k8s.io/apimachinery/pkg/watch.(*Broadcaster).loop"),
			goleak.IgnoreAnyFunction("k8s.io/client-go/tools/record.(*eventBroadcasterImpl).StartEventWatcher.func1"),
			goleak.IgnoreAnyFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"))
	}))
}

// binary is the binary under test.
var binary = sync.OnceValues(func() (string, error) { return testlab.BinaryIn(built) })

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
