package integration

import (
	"testing"

	"github.com/mpiup/mpiup/test/need"
)

// JAX's initialize() finds the others without an argument.
func TestJAXBare(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	python, whole := framework("jax")
	need.File(t, "jax", whole, "run test/frameworks.sh jax")
	script := l.example(t, "jax")
	learns(t, l.run(t, job{hosts: "w0:2,w1:1", args: []string{"-n", "3", python, script}}), 3)
}
