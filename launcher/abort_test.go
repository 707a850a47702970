package launcher

import (
	"slices"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/job"
)

// A process that another has ended fails nobody: the rest goes on. All hosts are told first.
func TestProcessesThatOthersEnd(t *testing.T) {
	for _, tt := range []struct {
		by, says string
		w0, w1   []string
	}{
		{"culler", "mpiup: rank 0 on w0 has ended rank 1 with PMIx_Abort: enough\n",
			[]string{"gone 1 code 3 signal 0 host false"}, []string{"gone 1 code 3 signal 0 host false", "signal 9 to [1]"}},
		{"chief", "mpiup: rank 0 on w0 has ended rank 1 with PMIx_Job_control\n",
			[]string{"gone 1 code 0 signal 0 host false"}, []string{"gone 1 code 0 signal 0 host false", "signal 9 to [1]"}},
	} {
		t.Run(tt.by, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hosts := []job.Host{{Name: "w0", Slots: 2}, {Name: "w1", Slots: 2}}
				first := []job.App{{Argv: []string{tt.by}, N: 1}, {Argv: []string{"stays"}, N: 1}, {Argv: []string{"lingers"}, N: 1}}
				code, _, errs, seen := playSpawn(t, hosts, first, apiv1.Pmi_PMI_PMIX)
				if code != 0 || errs != tt.says {
					t.Errorf("code %d, %q; want 0, %q", code, errs, tt.says)
				}
				if d := cmp.Diff([][]string{tt.w0, tt.w1}, [][]string{seen["w0"][1:], seen["w1"][1:]}); d != "" {
					t.Error(d)
				}
			})
		})
	}
}

// An agent that names processes that are not there does not keep to the protocol.
func TestControlOfNobody(t *testing.T) {
	r := newRun(Config{})
	r.ranks = make([]rankInfo, 2)
	for _, c := range []*apiv1.Control{{Targets: "2", Signal: 9}, {Targets: "x", Signal: 9}, {Targets: "0", Signal: 65}, {Targets: "0"}} {
		if err := r.onControl(c); err == nil {
			t.Errorf("%v was taken", c)
		}
	}
}

func TestRanksOn(t *testing.T) {
	r := newRun(Config{})
	r.places = newPlaces()
	add := func(number int, hostOf ...int) {
		j := &jobRun{number: number, base: r.places.ids(), plan: &job.Plan{Placements: make([]job.Placement, len(hostOf))}}
		r.jobs = append(r.jobs, j)
		r.ranks = append(r.ranks, make([]rankInfo, len(hostOf))...)
		r.places.grow(hostOf)
	}
	add(0, 0, 0, 1)
	add(1, 0)
	add(2, 1, 0)
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
