package verdict

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mpiup/mpiup/internal/job"
)

// A rank that NCCL's watchdog ended waited for another one: that is the verdict's rank. A rank that failed for a reason of its own stays it.
func TestAbsentee(t *testing.T) {
	away := func() []Absentee {
		return []Absentee{{Rank: 2, Own: true, Name: "rank 2", Host: "w1", PID: 7, Why: "it has not called nccl:all_reduce number 4"}}
	}
	const watchdog = "[rank0]:[E1104 ProcessGroupNCCL.cpp:616] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=4, OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600002 milliseconds before timing out."
	for _, c := range []struct {
		name, line string
		exit       job.Exit
		absent     func() []Absentee
		rank       int
		says       bool
	}{
		{"a watchdog", watchdog, job.Exit{Signal: job.SIGABRT}, away, 2, true},
		{"no record", watchdog, job.Exit{Signal: job.SIGABRT}, nil, 0, false},
		{"torch counts otherwise", watchdog, job.Exit{Signal: job.SIGABRT}, func() []Absentee { return []Absentee{{Rank: 2, Name: "torch's rank 2", Why: "it is away"}} }, 0, true},
		{"its own reason", "ValueError: loss is nan", job.Exit{Code: 1}, away, 0, false},
	} {
		k := &Case{Absent: c.absent}
		k.Add(Fault{Event: Ended, Host: "w0", ID: 0, Process: job.Process{}, Exit: c.exit})
		k.Hear(1, func(int) Said { return Said{Last: []string{c.line}} }, time.Time{}, nil)
		v, ok := k.Verdict(Circumstances{})
		if !ok || v.Rank == nil || *v.Rank != c.rank {
			t.Errorf("%s: the verdict is %+v", c.name, v)
		}
		if says := slices.ContainsFunc(v.Evidence, func(l string) bool { return strings.Contains(l, "is the odd one out: it ") }); says != c.says || (len(v.Absent) > 0) != c.says {
			t.Errorf("%s: evidence %q, absent %v", c.name, v.Evidence, v.Absent)
		}
	}
}
