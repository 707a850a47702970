package integration

import "testing"

// mpiup under torchrun's name, with its command line: the ranks of all nodes from here, a pod's part of them on each, and
// one pod's alone. torch's own torchrun is not asked: none stands where python3 is looked for.
func TestAsTorchrun(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	_, script := l.torch(t, "torch-ddp")
	hosts := "OMPI_MCA_orte_default_hostfile=" + l.file(t, "w0 slots=1\nw1 slots=1\n")
	name := l.link(t, "torchrun")
	for _, c := range []struct {
		name  string
		run   func(t *testing.T) result
		ranks int
	}{
		{"all nodes", func(t *testing.T) result {
			return l.called(t, "torchrun", job{env: []string{hosts, "RANK=9", "MASTER_ADDR=nowhere", "MASTER_PORT=1"}}, "--nnodes=2", "--nproc-per-node", "2", script)
		}, 4},
		{"a part on each host", func(t *testing.T) result {
			return l.run(t, job{hosts: "w0,w1", args: []string{"--ppn", "1", "-x", "PET_NPROC_PER_NODE=2", name, script}})
		}, 4},
		{"a part on each host, under mpirun", func(t *testing.T) result {
			return l.called(t, "mpirun", job{}, "-host", "w0,w1", "-npernode", "1", name, "--nnodes", "2", "--nproc-per-node", "2", "--rdzv-backend", "c10d",
				"--rdzv-id", "7", "--rdzv-endpoint", l.cluster.Addr("w0").String()+":29417", script)
		}, 4},
		{"this pod alone", func(t *testing.T) result {
			return l.called(t, "torchrun", job{env: []string{hosts}}, "--standalone", "--nproc-per-node", "2", script)
		}, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			learns(t, c.run(t), c.ranks)
		})
	}
}

// Ranks find what torchrun's processes have, whichever way they were started, and their numbers go over all pods.
func TestWhatTorchrunsRanksGet(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	name, script := l.link(t, "torchrun"), l.trainer(t, "import os, sys\n"+
		"e = os.environ\n"+
		"sys.stdout.write(' '.join(e.get(n, 'none') for n in ['RANK', 'WORLD_SIZE', 'LOCAL_RANK', 'LOCAL_WORLD_SIZE', 'GROUP_RANK', 'GROUP_WORLD_SIZE', 'ROLE_RANK', 'ROLE_NAME', "+
		"'TORCHELASTIC_RUN_ID', 'TORCHELASTIC_USE_AGENT_STORE', 'OMP_NUM_THREADS', 'MASTER_PORT']) + '\\n')\n")
	told := "OMPI_MCA_orte_default_hostfile=" + l.file(t, "w0 slots=1\nw1 slots=1\n")
	env := []string{told, "OMP_NUM_THREADS=3", "RANK=9", "TORCHELASTIC_RUN_ID=outer", "ROLE_RANK=8"}
	for _, c := range []struct {
		name   string
		env    []string
		args   []string
		stdout string // lines, sorted
	}{
		{"all nodes", env, []string{"--nnodes", "2", "--nproc-per-node", "2", "--master-port", "29418", "--rdzv-id", "7"},
			"0 4 0 2 0 2 0 default 7 False 3 29418\n1 4 1 2 0 2 1 default 7 False 3 29418\n2 4 0 2 1 2 2 default 7 False 3 29418\n3 4 1 2 1 2 3 default 7 False 3 29418\n"},
		{"a part, numbered outside", append(env[:len(env):len(env)], "MPIUP_SIZE=3", "MPIUP_LOCAL_SIZE=1"), []string{"--nnodes", "3", "--node-rank", "2", "--nproc-per-node", "2", "--master-addr", "nowhere", "--role", "worker"},
			"4 6 0 2 2 3 4 worker none False 3 29500\n5 6 1 2 2 3 5 worker none False 3 29500\n"},
		{"a part, by variables", []string{"MPIUP_SIZE=3", "MPIUP_LOCAL_SIZE=1", "PET_NNODES=3", "PET_NODE_RANK=1", "PET_NPROC_PER_NODE=2", "PET_MASTER_ADDR=nowhere", "PET_MASTER_PORT=29400"}, nil,
			"2 6 0 2 1 3 2 default none False 1 29400\n3 6 1 2 1 3 3 default none False 1 29400\n"},
		{"alone, of which one is shown", nil, []string{"--nproc-per-node", "2", "--master-port", "29419", "--local-ranks-filter", "1"}, "1 2 1 2 0 1 1 default none False 1 29419\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := l.command(t, job{env: append(c.env, "MPIUP_KEY="+l.key)}, append(append([]string{name}, c.args...), script)...).Wait(t).OK(t)
			if got := inOrder(r.Stdout); got != c.stdout {
				t.Errorf("ranks say\n%s, not\n%s%s", got, c.stdout, r.Stderr)
			}
		})
	}
}

// A pod's part ends with its rank's code and reason; the launcher's hosts are named where a line starts ranks of this pod alone.
func TestHowTorchrunEnds(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	script := l.trainer(t, "import os\nif os.environ['RANK'] == '3':\n    raise ValueError('loss is nan')\nimport time\ntime.sleep(1000)\n")
	told := "OMPI_MCA_orte_default_hostfile=" + l.file(t, "w0 slots=1\nw1 slots=1\n")
	outside := job{env: []string{"MPIUP_SIZE=2", "MPIUP_LOCAL_SIZE=1"}}
	l.called(t, "torchrun", outside, "--nnodes", "2", "--node-rank", "1", "--nproc-per-node", "2", "--master-addr", "nowhere", script).Fails(t, 1, ": ValueError: loss is nan (train.py:3)\n")
	l.called(t, "torchrun", job{env: []string{told}}, "--nproc-per-node", "4", script).Fails(t, 1, "torchrun (mpiup): all ranks run in this pod; --nnodes 2 starts them on the job's 2 hosts\n", ": ValueError: loss is nan (train.py:3)\n")
	l.called(t, "torchrun", job{}, "--nnodes", "2", "--node-rank", "1", "--rdzv-conf", "join_timeout=1", "--master-addr", "nowhere", script).Fails(t, 242, "torchrun (mpiup): no torchrun lets this node in at nowhere:29500 within 1s")
}
