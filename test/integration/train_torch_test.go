package integration

import (
	"path/filepath"
	"testing"

	"github.com/mpiup/mpiup/test/need"
)

// torch is Debian's Python with its torch, and an example's script.
func (l *lab) torch(t *testing.T, example string) (python, script string) {
	t.Helper()
	need.File(t, "torch", "/usr/lib/python3/dist-packages/torch/version.py", "install python3-torch")
	return "/usr/bin/python3", l.example(t, example)
}

// newTorch is the Python of the newest torch, which runs on CPUs here, with what stands on torch.
func newTorch(t *testing.T) (python string) {
	t.Helper()
	python, whole := framework("torch")
	need.File(t, "newtorch", whole, "run test/frameworks.sh torch")
	return python
}

// A script of torch's needs no launcher of its own and no flag.
func TestTorchDDPBare(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	python, script := l.torch(t, "torch-ddp")
	learns(t, l.run(t, job{hosts: "w0:2,w1:2", args: []string{"-n", "4", python, script}}), 4)
}

// One bare torchrun on each host: together they start one job, two processes a host here.
func TestTorchrunBare(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	_, script := l.torch(t, "torch-ddp")
	r := l.run(t, job{hosts: "w0,w1", args: []string{"--ppn", "1", "-x", "PET_NPROC_PER_NODE=2", "/usr/bin/torchrun", script}})
	learns(t, r, 4)
}

// The same with the newest torch, whose torchrun is another.
func TestNewTorchBare(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	python := newTorch(t)
	torchrun := filepath.Join(filepath.Dir(python), "torchrun")
	for _, c := range []struct {
		name, hosts string
		args        []string
	}{
		{"DDP", "w0:2,w1:2", []string{"-n", "4", python}},
		{"torchrun", "w0,w1", []string{"--ppn", "1", "-x", "PET_NPROC_PER_NODE=2", torchrun}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			learns(t, l.run(t, job{hosts: c.hosts, args: append(c.args, l.example(t, "torch-ddp"))}), 4)
		})
	}
}

// Two jobs meet on the same hosts at the same time, and neither at the other's port.
func TestTorchJobsBesideEachOther(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	python, script := l.torch(t, "torch-ddp")
	var both []*running
	for range 2 {
		both = append(both, l.start(t, job{hosts: "w0:1,w1:1", args: []string{"-n", "2", python, script}}))
	}
	for _, r := range both {
		learns(t, r.Wait(t), 2)
	}
}
