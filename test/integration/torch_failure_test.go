package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// trainer is a script that hosts see.
func (l *lab) trainer(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(l.folder(t), "train.py")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// reducing is ranks in all-reduces without end, of which rank 2 does something else at step 20.
const reducing = `
import os, signal, sys, torch, torch.distributed as dist

dist.init_process_group("gloo")
rank, x, step = dist.get_rank(), torch.ones(1000), 0
while True:
    step += 1
    if rank == 2 and step == 20:
        DO
    dist.all_reduce(x)
`

// When one rank of a training fails all fail, most of them since they lost it. The verdict names the one, and what it said.
func TestWhoseFaultATrainingsEndIs(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	python, _ := l.torch(t, "torch-ddp")
	for _, c := range []struct {
		name, does string
		code       int
		says       []string
	}{
		{"it raises", `raise ValueError("loss is nan at step %d" % step)`, 1, []string{"mpiup: rank 2 on w1 ", ": ValueError: loss is nan at step 20\n"}},
		{"killed in an all-reduce", `os.kill(os.getpid(), signal.SIGKILL)`, 137, []string{"mpiup: rank 2 on w1 was killed by signal 9 (SIGKILL)\n"}},
		// What torch raises, with the words of a recorded log: no GPU is here.
		{"CUDA out of memory", `raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 22.00 MiB. GPU 0 has a total capacity of 23.65 GiB of which 11.06 MiB is free.")`, 1,
			[]string{"mpiup: rank 2 on w1 ", ": torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 22.00 MiB.", "mpiup: its GPU has no memory left"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			script := l.trainer(t, strings.Replace(reducing, "DO", c.does, 1))
			l.run(t, job{hosts: "w0:2,w1:2", args: []string{"-n", "4", python, script}}).fails(t, c.code, c.says...)
		})
	}
}
