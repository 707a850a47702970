package verdict

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mpiup/mpiup/internal/job"
)

// A rank that NCCL's watchdog ended waited for another one: that is the verdict's rank. A rank that failed for a reason of its own stays it.
func TestAbsentee(t *testing.T) {
	away := func() []job.Absentee {
		return []job.Absentee{{Rank: 2, Own: true, Name: "rank 2", Host: "w1", PID: 7, Why: "it has not called nccl:all_reduce number 4"}}
	}
	const watchdog = "[rank0]:[E1104 ProcessGroupNCCL.cpp:616] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=4, OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600002 milliseconds before timing out."
	for _, c := range []struct {
		name, line string
		exit       job.Exit
		absent     func() []job.Absentee
		rank       int
		says       bool
	}{
		{"a watchdog", watchdog, job.Exit{Signal: job.SIGABRT}, away, 2, true},
		{"no record", watchdog, job.Exit{Signal: job.SIGABRT}, nil, 0, false},
		{"torch counts otherwise", watchdog, job.Exit{Signal: job.SIGABRT}, func() []job.Absentee { return []job.Absentee{{Rank: 2, Name: "torch's rank 2", Why: "it is away"}} }, 0, true},
		{"its own reason", "ValueError: loss is nan", job.Exit{Code: 1}, away, 0, false},
	} {
		k := &Case{Absent: c.absent}
		k.Add(Fault{Event: Ended, Host: "w0", ID: 0, Process: job.Process{}, Exit: c.exit})
		k.Hear(1, func(int) Said { return Said{Last: []string{c.line}} }, time.Time{}, nobody)
		v, ok := k.Verdict(Circumstances{})
		if !ok || v.Rank == nil || *v.Rank != c.rank {
			t.Errorf("%s: the verdict is %+v", c.name, v)
		}
		if says := slices.ContainsFunc(v.Evidence, func(l string) bool { return strings.Contains(l, "is the odd one out: it ") }); says != c.says || (len(v.Absent) > 0) != c.says {
			t.Errorf("%s: evidence %q, absent %v", c.name, v.Evidence, v.Absent)
		}
	}
}

// Many that are absent are named as a set, all of them, and the one that reports it is not.
func TestManyAbsentees(t *testing.T) {
	var list []job.Absentee
	for rank := 2; rank < 12; rank++ {
		list = append(list, job.Absentee{Rank: rank, Own: true, Name: "rank " + strconv.Itoa(rank), Host: "w1", Why: "it has not called nccl:all_reduce number 4"})
	}
	k := &Case{Absent: func() []job.Absentee { return list }}
	k.Add(Fault{Event: Ended, Host: "w0", ID: 0, Process: job.Process{}, Exit: job.Exit{Signal: job.SIGABRT}})
	k.Hear(1, func(int) Said {
		return Said{Last: []string{"[E1104 ProcessGroupNCCL.cpp:616] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=4) ran for 600002 milliseconds before timing out."}}
	}, time.Time{}, nil)
	v, _ := k.Verdict(Circumstances{PID: 7})
	const want = "ranks 2-11 are the odd ones out: they are absent from a collective; of rank 2: it has not called nccl:all_reduce number 4"
	if v.Rank != nil || v.Host != "" || v.PID != 0 || v.Ranks != "2-11" || len(v.Absent) != 10 || !slices.Contains(v.Evidence, want) {
		t.Errorf("%+v", v)
	}
}
