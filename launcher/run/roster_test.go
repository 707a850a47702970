package run

import (
	"slices"
	"strings"
	"testing"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/job"
)

// An agent that names processes that are not there does not keep to the protocol.
func TestControlOfNobody(t *testing.T) {
	r := aboutToLaunch(t, Config{})
	for _, c := range []*apiv1.Control{{Targets: "4", Signal: 9}, {Targets: "x", Signal: 9}, {Targets: "0", Signal: 65}, {Targets: "0"}} {
		if err := r.onControl(0, c); err == nil {
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

// Whatever a host says of its rank's wishes, no rank of another job and none that speaks no PMIx is ended or signalled by it, and a run in which
// any was does not end with 0.
func TestWishesOfALiar(t *testing.T) {
	for _, tt := range []struct {
		name         string
		own, other   job.Protocol // what the hosts have chosen; 0xff: nothing
		targets      string
		nonsense     bool
		ended, fails bool
	}{
		{"both speak PMIx", job.PMIx, job.PMIx, "1", false, true, true},
		{"the rank speaks PMI-1", job.PMI1, job.PMIx, "1", true, false, true},
		{"the rank speaks nothing", job.NoProtocol, job.PMIx, "1", true, false, true},
		{"nothing was chosen for the rank", 0xff, job.PMIx, "1", true, false, true},
		{"the other speaks PMI-1", job.PMIx, job.PMI1, "1", false, false, false},
		{"a rank that there is not", job.PMIx, job.PMIx, "7", true, false, true},
	} {
		for how, frame := range map[string]*apiv1.Frame{
			"abort":   (&apiv1.Aborted{Rank: 0, Targets: tt.targets}).Frame(),
			"control": (&apiv1.Control{Rank: 0, Targets: tt.targets, Signal: job.SIGKILL}).Frame(),
			"end":     (&apiv1.Control{Rank: 0, Targets: tt.targets, Signal: job.SIGTERM, End: true}).Frame(),
		} {
			s := &script{t: t, out: &strings.Builder{}}
			s.begin([]string{"2", "2", "auto"})
			for id, p := range []job.Protocol{tt.own, tt.other} {
				if p != 0xff {
					s.step(Frame{Host: id, Frame: (&apiv1.Chosen{Pmi: apiv1.Pmi(p)}).Frame()})
				}
				s.step(Frame{Host: id, Frame: (&apiv1.Started{Rank: uint32(id), Pid: 1}).Frame()})
			}
			s.out.Reset()
			s.step(Frame{Host: 0, Frame: frame})
			said := s.out.String()
			if got := strings.Contains(said, "w1 signal "); got != tt.ended {
				t.Errorf("%s, %s: a signal is sent: %t\n%s", tt.name, how, got, said)
			}
			if got := s.run.verdict.Any(); got != tt.nonsense {
				t.Errorf("%s, %s: the host is told of: %t\n%s", tt.name, how, got, said)
			}
			for id := range 2 {
				s.step(Frame{Host: id, Frame: (&apiv1.Exited{Rank: uint32(id), Pmi: apiv1.PmiState_PMI_FINALIZED}).Frame()})
				s.step(Frame{Host: id, Frame: (&apiv1.OutputEnd{Rank: uint32(id)}).Frame()})
			}
			s.step(Over{})
			if got := s.run.verdict.Exit() != 0; got != tt.fails {
				t.Errorf("%s, %s: the run ends with %d", tt.name, how, s.run.verdict.Exit())
			}
		}
	}
}
