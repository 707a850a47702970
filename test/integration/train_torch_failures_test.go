package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/test/need"
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
		{"it raises", `raise ValueError("loss is nan at step %d" % step)`, 1, []string{"mpiup: rank 2 on w1 ", ": ValueError: loss is nan at step 20 (train.py:"}},
		{"killed in an all-reduce", `os.kill(os.getpid(), signal.SIGKILL)`, 137, []string{"mpiup: rank 2 on w1 was killed by signal 9 (SIGKILL)\n"}},
		// What torch raises, with the words of a recorded log: no GPU is here.
		{"CUDA out of memory", `raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 22.00 MiB. GPU 0 has a total capacity of 23.65 GiB of which 11.06 MiB is free.")`, 1,
			[]string{"mpiup: rank 2 on w1 ", ": torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 22.00 MiB.", "mpiup: its GPU has no memory left"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			script := l.trainer(t, strings.Replace(reducing, "DO", c.does, 1))
			l.run(t, job{hosts: "w0:2,w1:2", args: []string{"-n", "4", python, script}}).Fails(t, c.code, c.says...)
		})
	}
}

// Ranks that load a framework and meet nobody are told of when they end, whatever framework it is.
func TestNobodyTrainsManyTimes(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	const tail = "; --independent if each is meant to run alone\n"
	torch := func(t *testing.T) string { python, _ := l.torch(t, "torch-ddp"); return python }
	jax := func(t *testing.T) string {
		python, whole := framework("jax")
		need.File(t, "jax", whole, "run test/frameworks.sh jax")
		return python
	}
	horovod := func(t *testing.T) string {
		python, whole := framework("horovod")
		need.File(t, "horovod", whole, "run test/frameworks.sh horovod")
		return python
	}
	const alone = "import torch\nmodel = torch.nn.Linear(4, 1)\nfor _ in range(50):\n    model(torch.randn(8, 4)).mean().backward()\n"
	for _, c := range []struct {
		name, script string
		python       func(*testing.T) string
		args         []string
		says         string // "": nothing
	}{
		{"torch without a process group", alone, torch, nil,
			"warning: 4 ranks of PYTHON SCRIPT loaded torch, and none ever met another: if they were to train together, call torch.distributed.init_process_group " +
				"(mpiup run --env torch sets what it reads), and give Lightning's Trainer num_nodes=2 and devices=2" + tail},
		{"meant so", alone, torch, []string{"--independent"}, ""},
		{"told apart on purpose", "import os, torch\nprint(torch.ones(int(os.environ['RANK'])).sum())\n", torch, nil, ""},
		{"a place of its own", "import os, torch.distributed as dist\n" +
			"dist.init_process_group('gloo', init_method='tcp://" + l.cluster.Addr("w0").String() + ":23456', rank=int(os.environ['MPIUP_RANK']), world_size=4)\ndist.barrier()\n", torch, nil, ""},
		{"no framework", "import json, time\ntime.sleep(1)\n", torch, nil, ""},
		{"JAX without initialize", "import jax.numpy\nprint(jax.numpy.ones(3).sum())\n", jax, nil,
			"warning: 4 ranks of PYTHON SCRIPT loaded JAX, and none ever met another: if they were to train together, call jax.distributed.initialize() " +
				"(mpiup run --env jax sets what it reads)" + tail},
		{"Horovod without init", "import torch, horovod.torch\nprint(torch.ones(3).sum())\n", horovod, nil,
			"warning: 4 ranks of PYTHON SCRIPT loaded Horovod, and none ever met another: if they were to train together, call hvd.init() " +
				"(mpiup run --env horovod where it is to meet by Gloo)" + tail},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			python, script := c.python(t), l.trainer(t, c.script)
			r := l.run(t, job{hosts: "w0:2,w1:2", args: append(c.args, "-n", "4", python, script)}).Fails(t, 0)
			said := strings.NewReplacer(python, "PYTHON", script, "SCRIPT").Replace(r.Stderr)
			if c.says == "" && strings.Contains(said, "mpiup:") || c.says != "" && strings.Count(said, "mpiup:") != 1 || !strings.Contains(said, c.says) {
				t.Errorf("says %q, not %q", said, c.says)
			}
		})
	}
}

// A rank that does not come to where the others meet is named with its host, at the time limit and while the run goes on; Ctrl-C then says nothing again.
func TestWhoIsMissingWhereTorchMeets(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	python, _ := l.torch(t, "torch-ddp")
	script := l.trainer(t, "import os, time, torch.distributed as dist\nif os.environ['RANK'] == '2':\n    print('late', flush=True)\n    time.sleep(1000)\ndist.init_process_group('gloo')\n")
	const who = ") has not come to where torch's ranks meet (MASTER_ADDR and MASTER_PORT); ranks 0-1,3 have waited for it for "
	run := func(args ...string) *running {
		return l.start(t, job{hosts: "w0:2,w1:2", args: append(args, "-n", "4", python, script)})
	}
	t.Run("time limit", func(t *testing.T) {
		t.Parallel()
		run("--timeout", "50").Wait(t).Fails(t, 110, "mpiup: rank 2 (w1, pid ", who, "see what it does: on w1 py-spy dump --pid ")
	})
	t.Run("while it runs, and Ctrl-C", func(t *testing.T) {
		t.Parallel()
		r := run("--grace", "1")
		if err := r.Until(r.Stderr, who+"30s"); err != nil {
			t.Fatal(err)
		}
		if err := r.Cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		res := r.Wait(t)
		if n := strings.Count(res.Stderr, who); n != 1 || !strings.HasSuffix(res.Stderr, "\nmpiup: interrupted\n") {
			t.Errorf("said %d times:\n%s", n, res.Stderr)
		}
	})
}
