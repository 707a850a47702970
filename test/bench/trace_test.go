package main

import (
	"math"
	"testing"
)

// A trace is shared out without loss: what each had, and what nobody had, is the time of both processors.
func TestTrace(t *testing.T) {
	const text = `          perf 10/10    [000] 100.000000: sched:sched_switch: prev_comm=perf prev_pid=10 prev_prio=120 prev_state=S ==> next_comm=mpiup next_pid=22 next_prio=120
       swapper     0/0     [001] 100.000000: sched:sched_switch: prev_comm=swapper/1 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=mpiup next_pid=31 next_prio=120
         hello 31/31    [001] 100.001000: sched:sched_process_exec: filename=/w/hello pid=31 old_pid=31
         mpiup 20/22    [000] 100.002000: sched:sched_switch: prev_comm=mpiup prev_pid=22 prev_prio=120 prev_state=S ==> next_comm=swapper/0 next_pid=0 next_prio=120
         async 31/33    [001] 100.004000: sched:sched_switch: prev_comm=async prev_pid=33 prev_prio=120 prev_state=S ==> next_comm=mpiup next_pid=40 next_prio=120
         bench 9/9    [001] 100.005000: signal:signal_generate: sig=9 errno=0 code=0 comm=hello pid=31 grp=1 res=0
         hello 31/31    [001] 100.005500: sched:sched_process_exit: comm=hello pid=31 prio=120 group_dead=true
         mpiup 40/40    [001] 100.006000: signal:signal_generate: sig=15 errno=0 code=0 comm=hello pid=32 grp=1 res=0
         mpiup 40/40    [001] 100.006500: signal:signal_generate: sig=15 errno=0 code=0 comm=hello pid=33 grp=1 res=0
         mpiup 40/40    [001] 100.010000: sched:sched_switch: prev_comm=mpiup prev_pid=40 prev_prio=120 prev_state=S ==> next_comm=swapper/1 next_pid=0 next_prio=120
       swapper 0/0    [000] 100.010000: sched:sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=x next_pid=1 next_prio=120
         mpiup 20/20    [000] 100.009500: sched:sched_process_exit: comm=mpiup pid=20 prio=120 group_dead=true
`
	p := panel{trace: readTrace(text), from: 100, to: 100.010, launcher: 20, program: "/w/hello"}
	want := [kinds]float64{byRank: 0.004, byAgent: 0.006, byLauncher: 0.002, byNobody: 0.008}
	for _, n := range []int{1, 7, 240} {
		var got [kinds]float64
		for _, c := range p.columns(n) {
			for k, s := range c {
				got[k] += s
			}
		}
		for k := range want {
			if math.Abs(got[k]-want[k]) > 1e-6 {
				t.Errorf("in %d columns %s had %v s, want %v", n, kindNames[k], got[k], want[k])
			}
		}
	}
	p.mark(31)
	want2 := []float64{100.0055, 100.006, 100.0065, 100.0095}
	for i, m := range p.marks {
		if math.Abs(m.at-want2[i]) > 1e-9 {
			t.Errorf("%q at %v, want %v", m.text, m.at, want2[i])
		}
	}
}
