package integration

import (
	"os"
	"path/filepath"
	"testing"
)

// Lightning forms one world, where without its variables each rank trained alone and nothing failed.
func TestLightningBare(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	learns(t, l.run(t, job{hosts: "w0:2,w1:2", args: []string{"-n", "4", newTorch(t), l.example(t, "lightning")}}), 4)
}

// Accelerate needs no launcher of its own; without a GPU it takes rank and size from other variables than torch.
func TestAccelerateBare(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	script := l.training(t, "../frameworks/accelerate.py")
	learns(t, l.run(t, job{hosts: "w0:2,w1:2", args: []string{"-n", "4", newTorch(t), script}}), 4)
}

// DeepSpeed's engine without its runner. What it would compile at its first start has been compiled.
func TestDeepSpeedBare(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	python := newTorch(t)
	bin := filepath.Dir(python)
	r := l.run(t, job{hosts: "w0:2,w1:2", args: []string{"-n", "4",
		"-x", "TORCH_EXTENSIONS_DIR=" + filepath.Join(bin, "../extensions"), "-x", "PATH=" + bin + ":" + os.Getenv("PATH"),
		python, l.example(t, "deepspeed")}})
	learns(t, r, 4)
}
