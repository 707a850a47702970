package mpilib

import (
	"testing"
	"testing/fstest"
)

func TestFramework(t *testing.T) {
	const (
		plain   = "7f0000000000-7f0000001000 r-xp 00000000 fe:00 1 /usr/lib/x86_64-linux-gnu/libc.so.6\n7f0000002000-7f0000003000 rw-p 00000000 00:00 0 \n"
		torch   = "7f0000000000-7f0000001000 r-xp 00000000 fe:00 2 /usr/lib/x86_64-linux-gnu/libtorch_cpu.so.1.13\n"
		wheel   = "7f0000000000-7f0000001000 r-xp 00000000 fe:00 2 /venv/lib/python3.12/site-packages/torch/lib/libtorch_cpu.so\n"
		jax     = "7f0000000000-7f0000001000 r-xp 00000000 fe:00 3 /venv/lib/python3.11/site-packages/jaxlib/libjax_common.so\n"
		horovod = "7f0000000000-7f0000001000 r-xp 00000000 fe:00 4 /venv/lib/python3.11/site-packages/horovod/torch/mpi_lib_v2.cpython-311-x86_64-linux-gnu.so\n"
		tf      = "7f0000000000-7f0000001000 r-xp 00000000 fe:00 5 /venv/lib/python3.11/site-packages/tensorflow/libtensorflow_framework.so.2\n"
		mpi     = "7f0000000000-7f0000001000 r-xp 00000000 fe:00 6 /usr/lib/libmpi.so.40\n"
	)
	for _, tt := range []struct{ name, maps, child, want string }{
		{"a plain program", plain, "", ""},
		{"MPI", plain + mpi, "", ""},
		{"Debian's torch", plain + torch, "", "torch"},
		{"torch's wheel", plain + wheel, "", "torch"},
		{"JAX", jax, "", "JAX"},
		{"TensorFlow", tf, "", "TensorFlow"},
		{"Horovod stands on torch", torch + mpi + horovod, "", "Horovod"},
		{"in a shell's child", plain, torch, "torch"},
		{"no maps", "", "", ""},
	} {
		fs := fstest.MapFS{"proc/10/maps": {Data: []byte(tt.maps)}}
		if tt.child != "" {
			fs["proc/10/task/10/children"] = &fstest.MapFile{Data: []byte("11 ")}
			fs["proc/11/maps"] = &fstest.MapFile{Data: []byte(tt.child)}
		}
		if got := NewMemory(fs).Framework(10); got != tt.want {
			t.Errorf("%s: %q, not %q", tt.name, got, tt.want)
		}
	}
}

// Programs whose processes are told apart on purpose name a rank and nothing by which ranks meet.
func TestShards(t *testing.T) {
	for _, tt := range []struct {
		argv   []string
		script string
		want   bool
	}{
		{[]string{"python3", "train.py"}, "import torch\nmodel = torch.nn.Linear(3, 1)\n", false},
		{[]string{"python3", "infer.py"}, "import os, torch\nshard = int(os.environ['RANK'])\n", true},
		{[]string{"python3", "infer.py"}, "import os, torch\nshard = int(os.environ['MPIUP_RANK'])\n", true},
		{[]string{"sh", "-c", "python3 infer.py --shard $OMPI_COMM_WORLD_RANK"}, "import torch\n", true},
		{[]string{"python3", "train.py"}, "import os, torch.distributed as dist\nif 'SLURM_PROCID' in os.environ: dist.init_process_group('nccl')\ntorch.cuda.set_device(int(os.environ['LOCAL_RANK']))\n", false},
		{[]string{"python3", "train.py"}, "import os, lightning as L\nprint(os.environ['RANK'])\nL.Trainer().fit(model)\n", false},
		{[]string{"sh", "-c", "python3 train.py --local_rank $LOCAL_RANK"}, "import deepspeed\n", false},
	} {
		if got := shards(tt.argv, []byte(tt.script)); got != tt.want {
			t.Errorf("%q %q: %v", tt.argv, tt.script, got)
		}
	}
}
