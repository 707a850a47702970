package integration

import (
	"testing"

	"github.com/mpiup/mpiup/test/need"
)

// TensorFlow's strategy of several workers is told of them where the user names it.
func TestTensorFlow(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	python, whole := framework("tensorflow")
	need.File(t, "tensorflow", whole, "run test/frameworks.sh tensorflow")
	script := l.training(t, "../frameworks/tensorflow.py")
	learns(t, l.run(t, job{hosts: "w0:2,w1:2", args: []string{"-n", "4", "--env", "tf", python, script}}), 4)
}
