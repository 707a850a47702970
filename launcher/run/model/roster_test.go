package model

import (
	"fmt"
	"slices"
	"testing"

	"github.com/mpiup/mpiup/internal/job"
)

// The picture of the package's comment.
func run() (first, all Roster) {
	first = Roster{}.Join().Join().Grow(plan(0, 0, 1, 1), []int{0, 1})
	return first, first.Join().Grow(plan(0, 1), []int{1, 2})
}

// plan is one of ranks of the same program, each on a host of the plan's.
func plan(hosts ...int) *job.Plan {
	p := &job.Plan{}
	for rank, h := range hosts {
		p.Placements = append(p.Placements, job.Placement{Rank: job.Rank(rank), Host: h})
	}
	return p
}

func TestWhoIsWhere(t *testing.T) {
	_, r := run()
	for id, want := range []struct {
		host int
		p    job.Process
	}{{0, job.Process{Rank: 0}}, {0, job.Process{Rank: 1}}, {1, job.Process{Rank: 2}}, {1, job.Process{Rank: 3}}, {1, job.Process{Job: 1, Rank: 0}}, {2, job.Process{Job: 1, Rank: 1}}} {
		if h, p := r.HostOf(id), r.Process(id); h != want.host || p != want.p || r.ID(p) != id {
			t.Errorf("id %d: host %d, %v; want %+v", id, h, p, want)
		}
		for h := range 4 {
			if r.Owns(h, uint32(id)) != (h == want.host) {
				t.Errorf("id %d on host %d", id, h)
			}
		}
	}
	if got := r.On(1).String(); got != "2-4" {
		t.Errorf("on host 1: %s", got)
	}
	for number, want := range []Job{{Base: 0, Hosts: []int{0, 1}}, {Number: 1, Base: 4, Hosts: []int{1, 2}}} {
		if got := r.Job(number); !slices.Equal(got.Hosts, want.Hosts) || got.Number != number || got.Base != want.Base {
			t.Errorf("job %d: %+v, want %+v", number, got, want)
		}
	}
	if first, end := r.Job(0).IDs(); first != 0 || end != 4 {
		t.Errorf("ids of job 0: %d to %d", first, end)
	}
	if r.Jobs() != 2 || r.Processes() != 6 || r.Hosts() != 3 {
		t.Errorf("%+v", r)
	}
}

func TestPrograms(t *testing.T) {
	p := plan(0, 0, 1, 0, 0)
	p.Placements[3].App, p.Placements[4].App = 1, 1
	r := Roster{}.Join().Join().Grow(p, []int{0, 1})
	for app, want := range []string{"0-2 on 2, 2 at most", "3-4 on 1, 2 at most"} {
		of := r.Job(0).Programs[app]
		if got := fmt.Sprintf("%v on %d, %d at most", of.Ranks, of.Hosts, of.Most); got != want {
			t.Errorf("program %d: %s, want %s", app, got, want)
		}
	}
	if at := r.Placed(3); at.App != 1 || at.Host != 0 {
		t.Errorf("process 3: %+v", at)
	}
}

// Numbers come from frames.
func TestNumbersOfNobody(t *testing.T) {
	_, r := run()
	for _, id := range []int{-1, 6, 1 << 31} {
		if h := r.HostOf(id); h != -1 {
			t.Errorf("id %d is on host %d", id, h)
		}
	}
	for _, id := range []uint32{6, 1 << 31, 1<<32 - 1} {
		if r.Owns(1, id) {
			t.Errorf("host 1 owns %d", id)
		}
	}
}

// What was handed to others stays as it was.
func TestARosterDoesNotChange(t *testing.T) {
	first, all := run()
	if first.Processes() != 4 || first.Jobs() != 1 || first.Hosts() != 2 || first.HostOf(4) != -1 || first.On(1).String() != "2-3" {
		t.Errorf("it grew: %+v", first)
	}
	if _, end := first.Job(0).IDs(); end != 4 || all.Processes() != 6 {
		t.Errorf("ids of the first job end at %d", end)
	}
}
