package run

import (
	"slices"
	"testing"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/job"
)

// An agent that names processes that are not there does not keep to the protocol.
func TestControlOfNobody(t *testing.T) {
	r := aboutToLaunch(t, Config{})
	for _, c := range []*apiv1.Control{{Targets: "4", Signal: 9}, {Targets: "x", Signal: 9}, {Targets: "0", Signal: 65}, {Targets: "0"}} {
		if err := r.onControl(c); err == nil {
			t.Errorf("%v was taken", c)
		}
	}
}

func TestRanksOn(t *testing.T) {
	r := &roster{hosts: []*host{{}, {}, {}}}
	add := func(hostOf ...int) {
		plan := &job.Plan{Hosts: make([]job.Host, 2)}
		for _, h := range hostOf {
			plan.Placements = append(plan.Placements, job.Placement{Host: h})
		}
		r.add(&jobRun{}, plan, []int{0, 1})
	}
	add(0, 0, 1)
	add(0)
	add(1, 0)
	over := func(ids ...int) {
		for id := range r.ranks {
			if r.ranks[id].state = rankRunning; slices.Contains(ids, id) {
				r.ranks[id].state = rankExited
			}
		}
	}
	for _, tt := range []struct {
		over []int
		want string
	}{
		{nil, "ranks 0-1 and rank 0 of spawned job 1 and rank 1 of spawned job 2"},
		{[]int{0, 3}, "ranks 0-1 and rank 1 of spawned job 2"},
		{[]int{0, 1, 3, 5}, "ranks 0-1 and rank 0 of spawned job 1 and rank 1 of spawned job 2"},
	} {
		over(tt.over...)
		if got := r.ranksOn(0); got != tt.want {
			t.Errorf("%v over: %q, want %q", tt.over, got, tt.want)
		}
	}
	if got := r.ranksOn(2); got != "no ranks" {
		t.Errorf("of an empty host: %q", got)
	}
}

// Hosts with more ranks than CPUs are told of once, though each job that is spawned makes them more.
func TestCrowdedHostsAreToldOfOnce(t *testing.T) {
	r := aboutToLaunch(t, Config{})
	for _, w := range []string{"more ranks than usable CPUs on h (4 on 2)", "more ranks than usable CPUs on h (5 on 2)"} {
		r.once(moreRanks, w)
	}
	r.play(r.take())
	if want := "mpiup: more ranks than usable CPUs on h (4 on 2)\n"; r.said.String() != want {
		t.Errorf("says %q, want %q", r.said.String(), want)
	}
}
