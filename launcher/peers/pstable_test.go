package peers

import (
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTable(t *testing.T) {
	row := func(rank uint32, r psRow) psRow {
		r.Launcher, r.Job, r.Rank, r.PID, r.Main, r.Program, r.RSS = "l0", "j1", rank, int32(100+rank), int32(200+rank), "train", 3<<20
		return r
	}
	rows := []psRow{
		row(2, psRow{Host: "w1", State: stateName("D"), CPU: 0.4, Silent: 90, Phase: "running", Syscall: "read", Wchan: "nfs_wait"}),
		row(1, psRow{Host: "w0", State: stateName("S"), Silent: 3600, Wrote: true, Phase: "in a fence", Wchan: "futex_wait"}),
		row(0, psRow{Host: "w0", State: stateName("R"), CPU: 199.6, Silent: 0.5, Wrote: true, Phase: "never", GPUMemory: 80 << 30}),
		{Launcher: "l0", Job: "j1", Number: 1, Host: "w0", State: stateName("?"), Phase: "-", Syscall: "poll"},
		{Launcher: "k", Job: "j0", Restarts: 2, Rank: 7, Host: "w0", State: stateName(""), Phase: "-"},
	}
	slices.SortStableFunc(rows, psRow.compare)
	want := `job j0, by k, started again 2 times
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
	if d := cmp.Diff(want, tableOf(rows, nil, 0)); d != "" {
		t.Error(d)
	}
	if got := tableOf(nil, nil, 0); got != "no ranks run\n" {
		t.Error(got)
	}
}

func TestBytes(t *testing.T) {
	for n, want := range map[uint64]string{0: "-", 1: "1", 1023: "1023", 1024: "1.0K", 10 << 10: "10K", 999 << 10: "999K", 1023 << 10: "1.0M",
		1536 << 20: "1.5G", 1 << 60: "1.0E", math.MaxUint64: "16E"} {
		if got := bytesOf(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}
