package ps

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
)

func TestTable(t *testing.T) {
	state := func(rank uint32, m *apiv1.RankState) *apiv1.RankState {
		m.Rank, m.Launcher, m.Job, m.Pid, m.Main, m.Program, m.Rss = rank, "l0", "j1", int32(100+rank), int32(200+rank), "train", 3<<20
		return m
	}
	rows := Rows("w1", &apiv1.RanksReply{Ranks: []*apiv1.RankState{
		state(2, &apiv1.RankState{State: "D", Cpu: 0.004, SilentNs: int64(90 * time.Second), Phase: apiv1.RankPhase_PHASE_RUNNING, Syscall: "read", Wchan: "nfs_wait"}), nil,
	}})
	rows = append(rows, Rows("w0", &apiv1.RanksReply{Ranks: []*apiv1.RankState{
		state(1, &apiv1.RankState{State: "S", SilentNs: int64(time.Hour), Wrote: true, Phase: apiv1.RankPhase_PHASE_FENCE, Wchan: "futex_wait"}),
		state(0, &apiv1.RankState{State: "R", Cpu: 1.996, SilentNs: 5e8, Wrote: true, Phase: apiv1.RankPhase_PHASE_NEVER, GpuMemory: 80 << 30}),
		{Launcher: "l0", Job: "j1", Number: 1, Rank: 0, State: "?", Cpu: math.NaN(), SilentNs: -5, Phase: 99, Syscall: "poll"},
		{Launcher: "k", Job: "j0", Rank: 7, Cpu: math.Inf(1)},
	}})...)
	Sort(rows)
	want := `job j0, by k
RANK  HOST  PID  PROGRAM  STATE  CPU%  RSS  GPU  OUTPUT      MPI  WAITS IN
7     w0    0             -      0     -    -    none in 0s  -    -
job j1, by l0
RANK  HOST  PID  PROGRAM  STATE     CPU%  RSS   GPU  OUTPUT         MPI         WAITS IN
0     w0    200  train    running   200   3.0M  80G  1s ago         never       -
1     w0    201  train    sleeping  0     3.0M  -    1h0m0s ago     in a fence  futex_wait
2     w1    202  train    in I/O    0     3.0M  -    none in 1m30s  running     nfs_wait
job j1 (spawned, 1), by l0
RANK  HOST  PID  PROGRAM  STATE  CPU%  RSS  GPU  OUTPUT      MPI  WAITS IN
0     w0    0             -      0     -    -    none in 0s  -    poll
`
	if d := cmp.Diff(want, Table(rows)); d != "" {
		t.Error(d)
	}
	if got := Table(nil); got != "no ranks run\n" {
		t.Error(got)
	}
}

func TestBytes(t *testing.T) {
	for n, want := range map[uint64]string{0: "-", 1: "1", 1023: "1023", 1024: "1.0K", 10 << 10: "10K", 999 << 10: "999K", 1023 << 10: "1.0M",
		1536 << 20: "1.5G", 1 << 60: "1.0E", math.MaxUint64: "16E"} {
		if got := Bytes(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}
