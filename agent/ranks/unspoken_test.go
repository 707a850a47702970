package ranks

import (
	"slices"
	"syscall"
	"testing"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
)

func TestYoungRanksAreLookedAtOften(t *testing.T) {
	var whole []time.Duration
	children, idle, at, w := 0, false, time.Duration(0), true
	for n := 0; n < 2000; n++ {
		last := at
		if at, w = lookAfter(at, idle); at == 0 {
			break
		}
		if at <= last || at > young && !w && at-last > childLook {
			t.Fatalf("a look at %v after one at %v", at, last)
		}
		if w {
			whole = append(whole, at)
		} else {
			children++
		}
		idle = at > 20*time.Second
	}
	for i, w := range []time.Duration{10, 20, 40, 80, 130} {
		if whole[i] != w*time.Millisecond {
			t.Errorf("look %d after %v, not %v ms", i, whole[i], w)
		}
	}
	if end := whole[len(whole)-3:]; !slices.Equal(end, oldLooks) || len(whole) > 50 || at != 0 {
		t.Errorf("%d looks at ranks, the last after %v, and at their children %d, the next after %v", len(whole), end, children, at)
	}
	if children < 170 || children > 190 { // from 2 to 20 s, ten a second
		t.Errorf("%d looks at children", children)
	}
}

// TestRanksOfAProgramAreAlike: two ranks that had a library mapped speak for those that nobody looked at.
func TestRanksOfAProgramAreAlike(t *testing.T) {
	const library = "MPI of the test"
	for _, tt := range []struct {
		name string
		seen []uint32 // ids of ranks that had it
		want string
	}{
		{"none", nil, ""},
		{"one may want to be alone", []uint32{0}, ""},
		{"two", []uint32{0, 1}, library},
		{"two of another program", []uint32{3, 4}, ""},
		{"itself", []uint32{2}, library},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := jobLaunch(5, `trap "exit 0" TERM; echo ready; while :; do sleep 1000 & wait; done`)
			l.Job.Pmi = apiv1.Pmi_PMI_FD
			l.Apps = append(l.Apps, l.Apps[0])
			l.Procs[3].App, l.Procs[4].App = 1, 1
			up := started(t, l)
			up.times(5, func(f *apiv1.Frame) bool { return f.GetOutput() != nil })
			for _, id := range tt.seen {
				name := library
				up.job.Process(id).mapped.Store(&name)
			}
			up.job.Process(2).Signal(syscall.SIGTERM)
			if x := up.until(exited).GetExited(); x.Rank != 2 || x.Code != 0 || x.Library != tt.want {
				t.Errorf("told of %v", x)
			}
		})
	}
}

// TestWhichYoungRanksAreLookedAt: two of each program, until they were seen with a library or ended; all when
// they are older.
func TestWhichYoungRanksAreLookedAt(t *testing.T) {
	l := jobLaunch(6, `exec sleep 1000`)
	l.Job.Pmi = apiv1.Pmi_PMI_FD
	l.Apps = append(l.Apps, l.Apps[0])
	l.Procs[4].App, l.Procs[5].App = 1, 1
	up := started(t, l)
	up.times(6, func(f *apiv1.Frame) bool { return f.GetStarted() != nil })
	st := up.job
	ids := func(every bool) (ids []uint32) {
		for _, p := range worthALook(st, every, map[uint32]bool{}) {
			ids = append(ids, p.ID)
		}
		return ids
	}
	check := func(what string, every bool, want ...uint32) {
		t.Helper()
		if got := ids(every); !slices.Equal(got, want) {
			t.Errorf("%s: %v, not %v", what, got, want)
		}
	}
	check("young", false, 0, 1, 4, 5)
	check("old", true, 0, 1, 2, 3, 4, 5)
	name := "MPI"
	st.Process(0).mapped.Store(&name)
	st.Process(4).pmi.Store(int32(apiv1.PmiState_PMI_RUNNING))
	check("one was seen, one spoke", false, 1, 5)
	check("old, one was seen, one spoke", true, 1, 2, 3, 5)
	st.Process(1).Signal(syscall.SIGKILL)
	up.until(exited)
	check("one has ended", false, 2, 5)
}
