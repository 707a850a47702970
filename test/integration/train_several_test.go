package integration

import (
	"path/filepath"
	"testing"

	"github.com/mpiup/mpiup/test/need"
)

// Ranks that use two frameworks are of one world in both, each of which has a port of its own.
func TestTorchAndJAXInOneProcess(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	python := newTorch(t)
	jax, whole := framework("jax")
	need.File(t, "jax", whole, "run test/frameworks.sh jax")
	packages, err := filepath.Glob(filepath.Join(filepath.Dir(jax), "../lib/python3*/site-packages"))
	if err != nil || len(packages) != 1 {
		t.Fatalf("packages of JAX: %q, %v", packages, err)
	}
	// JAX's own come first: it needs what it was installed with, and torch does not mind.
	r := l.run(t, job{hosts: "w0:2,w1:2", args: []string{"-n", "4", "-x", "PYTHONPATH=" + packages[0], python, l.training(t, "../frameworks/torch-and-jax.py")}})
	learns(t, r, 4)
}

// torch meets by itself and Horovod by MPI, or both by Gloo, each in its own way.
func TestTorchAndHorovodInOneProcess(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	python, whole := framework("horovod")
	need.File(t, "horovod", whole, "run test/frameworks.sh horovod")
	for _, c := range []struct {
		name string
		args []string
	}{
		{"MPI", nil},
		{"Gloo", []string{"--env", "torch,horovod"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			args := append([]string{"-n", "4"}, c.args...)
			learns(t, l.run(t, job{hosts: "w0:2,w1:2", args: append(args, python, l.training(t, "../frameworks/torch-and-horovod.py"))}), 4)
		})
	}
}
