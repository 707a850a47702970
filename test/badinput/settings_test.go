package badinput

import (
	"strings"
	"testing"
)

// TestWrongSettings: each variable that says what a flag would say is read by every command that has the flag, so that a value that
// cannot be is refused with the variable's name.
func TestWrongSettings(t *testing.T) {
	const (
		run   = "run -n 1 true"
		env   = "env -n 1 true"
		up    = "up --index 0 --http off -n 1 true"
		ompi  = "mpirun -n 1 true"
		horo  = "horovodrun -np 1 true"
		torch = "torchrun --nproc-per-node 1 --no-python true"
	)
	jobs := []string{run, env, up, ompi, horo, torch}
	for _, tt := range []struct {
		set   string
		lines []string
	}{
		{"MPIUP_MPI=pmi3", jobs},
		{"MPIUP_WAIT=soon", jobs},
		{"MPIUP_WAIT=-5", jobs},
		{"MPIUP_WAIT=0", jobs},
		{"MPIUP_NET=10.0.0.0/99", append([]string{"doctor --local"}, jobs...)},
		{"MPIUP_MPI_PORTS=9-1", append([]string{"doctor --local"}, jobs...)},
		{"MPIUP_FABRIC=carrier-pigeon", append([]string{"doctor --local"}, jobs...)},
		{"MPIUP_NCCL=p2p=perhaps", append([]string{"doctor --local"}, jobs...)},
		{"MPIUP_ENV=caffe", jobs},
		{"MPIUP_PTY=yes", jobs},
		{"MPIUP_ALONE_OK=yes", jobs},
		{"MPIUP_PREEMPT_SIGNAL=KILL", jobs},
		{"MPIUP_CHECKPOINT_DIR=here", jobs},
		{"MPIUP_RESTART_COUNT=often", jobs},
		{"MPIUP_POD_GRACE=long", append([]string{"exec 127.0.0.1 -- true", "peers --host 127.0.0.1", "ps --host 127.0.0.1", "doctor --local",
			"stacks --host 127.0.0.1", "shutdown --host 127.0.0.1", "launcher -- true", "agent --http off --listen 127.0.0.1"}, jobs...)},
		{"MPIUP_JOB=a/b\nc", append([]string{"exec 127.0.0.1 -- true", "peers --host 127.0.0.1", "ps --host 127.0.0.1"}, jobs...)},
		{"MPIUP_TERMINATION_LOG=/no/such/file", []string{run, up, ompi, horo, torch}},
		{"MPIUP_SPAWN_HOSTFILES=/no/such", jobs},
		{"MPIUP_INDEX=first", []string{"up --http off -n 1 true"}},
		{"MPIUP_FAMILY=lam", []string{ompi, "mpiexec -n 1 true"}},
		{"MPIUP_POLICY=/no/such", []string{"agent --http off --listen 127.0.0.1", up}},
		{"MPIUP_UP=--sluts 2", []string{ompi, horo, torch}},
	} {
		name, _, _ := strings.Cut(tt.set, "=")
		for _, line := range tt.lines {
			t.Run(tt.set+" "+line, func(t *testing.T) {
				e := mpiup(t, []string{tt.set}, strings.Fields(line)...)
				if e.Code != 240 && e.Code != 244 && e.Code != 251 || strings.Count(e.Stderr, name) != 1 {
					t.Errorf("it ended with %d, and said:\n%s%s", e.Code, e.Stdout, e.Stderr)
				}
			})
		}
	}
}

// TestFlagsComeFirst: a flag that was given wins over its variable, whatever that holds.
func TestFlagsComeFirst(t *testing.T) {
	for _, tt := range []struct{ set, line string }{
		{"MPIUP_MPI=pmi3", "run --mpi auto -n 1 true"},
		{"MPIUP_MPI=native", "run --mpi none -n 1 true"},
		{"MPIUP_WAIT=soon", "run --wait 5 -n 1 true"},
		{"MPIUP_NET=10.0.0.0/99", "run --net lo -n 1 true"},
		{"MPIUP_MPI_PORTS=9-1", "run --mpi-ports 18000-18999 -n 1 true"},
		{"MPIUP_FABRIC=pigeon", "run --fabric tcp -n 1 true"},
		{"MPIUP_NCCL=p2p=perhaps", "run --nccl p2p=off -n 1 true"},
		{"MPIUP_ENV=caffe", "run --env none -n 1 true"},
		{"MPIUP_PTY=yes", "run --pty=false -n 1 true"},
		{"MPIUP_ALONE_OK=yes", "run --alone-ok=false -n 1 true"},
		{"MPIUP_PREEMPT_SIGNAL=KILL", "run --preempt-signal TERM -n 1 true"},
		{"MPIUP_CHECKPOINT_DIR=here", "run --checkpoint-dir /tmp -n 1 true"},
		{"MPIUP_SPAWN_HOSTFILES=/no/such", "run --spawn-hostfiles /tmp -n 1 true"},
		{"MPIUP_POD_GRACE=long", "run --term-grace 5 -n 1 true"},
		{"MPIUP_TERMINATION_LOG=/no/such/file", "run --termination-log " + t.TempDir() + "/log -n 1 true"},
	} {
		t.Run(tt.set, func(t *testing.T) {
			mpiup(t, []string{tt.set}, strings.Fields(tt.line)...).check(t, 0)
		})
	}
}
