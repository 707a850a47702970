package badinput

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestNeverOnFewer: who was told that there are several hosts runs on no fewer, whatever command and name it is, unless it says so.
func TestNeverOnFewer(t *testing.T) {
	two := write(t, t.TempDir(), "hostfile", "127.0.0.1 slots=2\n127.0.0.2 slots=2\n", 0o644)
	const (
		grove = "GROVE_PCLQ_NAME=g-0-d-0-ldr GROVE_PCLQ_POD_INDEX=0 GROVE_HEADLESS_SERVICE=g-0.ns.svc.cluster.local GROVE_PCSG_TEMPLATE_NUM_PODS=3"
		lws   = "LWS_LEADER_ADDRESS=vllm-0.vllm.prod LWS_GROUP_SIZE=3"
		few   = "says that the job has 3 hosts"
	)
	operator := "OMPI_MCA_orte_default_hostfile=" + two
	keyed := "MPIUP_KEY=" + key // on no volume of its own
	for _, tt := range []struct {
		env, line string
		code      int
		says      string
	}{
		{"", "run --size 3 -n 1 true", 244, "--size 3: all hosts but this one need the job's secret"},
		{"", "env --size 3 -n 1 true", 244, "--size 3"},
		{"", "run --dry-run --size 3 -n 1 true", 244, "--size 3"},
		{"", "up --index 0 --size 3 -n 1 true", 244, "secret"},
		{"", "doctor --size 3", 244, "--size 3"},
		{"", "run --mpi native --size 3 -n 1 true", 241, "nothing names the hosts"},
		{"", "exec --size 3 w0 -- true", 244, "secret"},
		{"", "launcher --size 3 -- true", 244, "secret"},
		{"", "launcher --host 127.0.0.1 -- true", 244, "secret"},
		{"", "peers --size 3", 244, "secret"},
		{"", "ps --size 3", 244, "secret"},
		{"", "shutdown --size 3", 244, "secret"},
		{"", "torchrun --nnodes 2:3 --nproc-per-node 1 --no-python true", 241, "the hosts have room for 1 rank"},
		{"PET_NNODES=3 MPIUP_MPI=native", "mpirun -n 1 true", 241, "nothing names the hosts"},
		{"PET_NNODES=3 MPIUP_UP=1", "mpirun -n 1 true", 244, "secret"},
		{"PET_NNODES=3", "run --independent -n 1 true", 244, "PET_NNODES=3"},
		{"PET_NNODES=3", "up -n 1 true", 244, "secret"},
		{operator + " PET_NNODES=3", "torchrun --nproc-per-node 1 --no-python true", 241, "--nnodes 3"},
		{operator + " PET_NNODES=3", "horovodrun -np 1 true", 241, few},
		{"PET_NNODES=many", "run -n 1 true", 240, "PET_NNODES"},
		{"PET_NNODES=3:2", "doctor", 240, "PET_NNODES"},
		{"PET_NNODES=many MPIUP_MPI=native", "mpirun -n 1 true", 240, "PET_NNODES"},
		{"PET_NNODES=many", "run --mpi native -n 1 true", 240, "PET_NNODES"},
		{"PET_NNODES=0", "mpirun -n 1 true", 240, "PET_NNODES"},
		{"", "torchrun --nnodes 3 --nproc-per-node 1 --no-python true", 244, "--nnodes 3"},
		{keyed, "run --size 3 --wait 1 -n 1 true", 241, "of the 3 hosts of --size 3"},
		{keyed, "up --index 0 --size 3 --wait 2 --http off -n 1 true", 241, "of the 3 hosts of --size 3"},
		{keyed, "doctor --size 3 --wait 1", 241, "of the 3 hosts of --size 3"},
		{keyed, "peers --size 3 --wait 1", 241, "name the hosts with --host or MPIUP_HOSTS\n"},
		{keyed, "exec --size 3 --host 127.0.0.1,127.0.0.2 127.0.0.1 -- true", 240, "names 2 hosts"},
		{keyed, "peers --size 3 --hostfile " + two, 240, "names 2 hosts"},
		{"", "run --size 3 --host 127.0.0.1 -n 1 true", 240, "--size 3, and --host names 1 host"},
		{"", "run --size 1 --host 127.0.0.1,127.0.0.2 -n 1 true", 240, "--host names 2 hosts"},
		{"", "run --size 3 --hostfile " + two + " -n 1 true", 240, "names 2 hosts"},
		{"", "run --mpi native --size 3 --host 127.0.0.1 -n 1 true", 240, "names 1 host"},
		{operator, "run --size 3 -n 1 true", 241, two + " names 2 hosts"},
		{operator, "doctor --size 3", 241, "names 2 hosts"},
		{operator, "run --mpi native --size 3 -n 1 true", 241, "names 2 hosts"},
		{operator, "exec --size 3 127.0.0.1 -- true", 241, "names 2 hosts"},
		{operator + " PET_NNODES=3", "run -n 1 true", 241, few},
		{"PET_NNODES=3", "run -n 1 true", 244, "PET_NNODES=3"},
		{"PET_NNODES=2:3", "run -n 1 true", 244, "PET_NNODES=2:3"},
		{"PET_NNODES=3", "env -n 1 true", 244, "PET_NNODES=3"},
		{"PET_NNODES=3", "doctor", 244, "PET_NNODES=3"},
		{keyed + " PET_NNODES=3", "doctor --host 127.0.0.1", 241, few},
		{"PET_NNODES=3", "run --host 127.0.0.1 -n 1 true", 241, "for a run on fewer"},
		{"PET_NNODES=3", "mpirun -n 1 true", 244, "--host localhost"},
		{"PET_NNODES=3", "mpiexec -n 1 true", 244, "PET_NNODES=3"},
		{"PET_NNODES=3", "mpirun --host 127.0.0.1 -n 1 true", 241, "env -u PET_NNODES"},
		{"PET_NNODES=3", "horovodrun -np 1 true", 244, "PET_NNODES=3"},
		{"PET_NNODES=3", "torchrun --nproc-per-node 1 --no-python true", 244, "--nnodes 3"},
		{"PET_NNODES=3 JOB_COMPLETION_INDEX=0", "run -n 1 true", 240, "JOB_COMPLETION_INDEX"}, // this host has another name
		{grove, "run -n 1 true", 244, "g-0-d-0-ldr-0"},
		{grove, "mpirun -n 1 true", 244, "g-0-d-0-ldr-0"},
		{grove, "run --host 127.0.0.1 -n 1 true", 241, few},
		{lws, "run -n 1 true", 244, "vllm-0"},
		{lws, "doctor", 244, "secret"},
		{lws, "run --host 127.0.0.1 -n 1 true", 241, few},

		// What says that it is meant, or says nothing of several hosts.
		{"PET_NNODES=3", "run --local -n 1 true", 0, ""},
		{"PET_NNODES=3", "doctor --local", 0, ""},
		{"PET_NNODES=3", "run --size 1 --host 127.0.0.1 -n 1 true", 0, ""},
		{"PET_NNODES=3", "run --size 1 -n 1 true", 0, ""},
		{"PET_NNODES=3", "mpirun --host localhost -n 1 true", 0, ""},
		{"PET_NNODES=3", "torchrun --standalone --nproc-per-node 1 --no-python true", 0, ""},
		{"PET_NNODES=1:4", "run -n 1 true", 0, ""},
		{"PET_NNODES=many", "run --local -n 1 true", 0, ""},
		{"PET_NNODES=many", "run --size 1 -n 1 true", 0, ""},
		{"GROVE_PCSG_TEMPLATE_NUM_PODS=x", "run -n 1 true", 0, ""},
		{"PET_NNODES=3 MPIUP_RANK=0", "mpirun -n 1 true", 0, ""}, // a rank's own
		{"JOB_COMPLETION_INDEX=2", "run -n 1 true", 0, "all ranks run in this pod alone"},
		{"JOB_COMPLETION_INDEX=2", "mpirun -n 1 true", 0, "all ranks run in this pod alone"},
		{"JOB_COMPLETION_INDEX=2", "doctor", 0, "all ranks run in this pod alone"},
		{"JOB_COMPLETION_INDEX=2", "run --local -n 1 true", 0, ""},
		{"GROVE_PCLQ_NAME=g-0-d-0-ldr", "run -n 1 true", 0, "all ranks run in this pod alone"},
	} {
		t.Run(strings.ReplaceAll(tt.env+" "+tt.line, two, filepath.Base(two)), func(t *testing.T) {
			e := mpiup(t, append([]string{"MPIUP_KEY="}, strings.Fields(tt.env)...), strings.Fields(tt.line)...)
			e.check(t, tt.code, tt.says)
			if tt.code == 0 && tt.says == "" && strings.Contains(e.Stderr, "pod") {
				t.Errorf("it says %s", e.Stderr)
			}
		})
	}
}
