package ranks

import (
	"strings"
	"testing"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"google.golang.org/protobuf/proto"
)

// elsewhere is a job without ranks on this host.
func elsewhere(job, base, size uint32) *apiv1.Launch {
	return &apiv1.Launch{Job: &apiv1.Job{Number: job, Base: base, Size: size, Spawned: job > 0}, Number: 1}
}

// unstarted is a job of no session.
func unstarted(m *apiv1.Launch) *Job {
	m = proto.CloneOf(m)
	m.Job.Pmi = apiv1.Pmi_PMI_NONE
	return New(&Shared{}, parsed(m), nil)
}

func TestJobsAreFoundByID(t *testing.T) {
	var j Jobs
	for _, l := range []*apiv1.Launch{elsewhere(0, 0, 4), elsewhere(2, 6, 3), elsewhere(1, 4, 1)} {
		if err := j.Check(l); err != nil {
			t.Fatalf("job %d: %v", l.Job.Number, err)
		}
		j.Add(unstarted(l))
	}
	for id, want := range map[uint32]int{0: 0, 3: 0, 4: 1, 5: -1, 6: 2, 8: 2, 9: -1, 1<<32 - 1: -1} {
		got := -1
		if st := j.Of(id); st != nil {
			got = int(st.Launch.Job.Number)
		}
		if got != want {
			t.Errorf("id %d belongs to job %d, not %d", id, got, want)
		}
	}
}

// Notices name a spawned job's ranks by that job, as the launcher does.
func TestProcessesAreNamed(t *testing.T) {
	for want, p := range map[string]*Process{
		"rank 3":                  {Job: unstarted(elsewhere(0, 0, 4)), Spec: &apiv1.Proc{Rank: 3}, ID: 3},
		"rank 1 of spawned job 2": {Job: unstarted(elsewhere(2, 6, 3)), Spec: &apiv1.Proc{Rank: 1}, ID: 7},
	} {
		if got := p.String(); got != want {
			t.Errorf("it is %s, not %s", got, want)
		}
	}
}

func TestJobsThatMayNotJoin(t *testing.T) {
	first, second := elsewhere(0, 0, 4), elsewhere(1, 8, 4)
	orphan, own := elsewhere(2, 12, 1), elsewhere(2, 12, 1)
	orphan.Job.Parent, own.Job.Parent = 7, 12
	command := elsewhere(2, 12, 1)
	command.Exec = &apiv1.Exec{}
	other := elsewhere(2, 12, 1)
	other.Number = 2
	for _, tt := range []struct {
		name  string
		known []*apiv1.Launch
		l     *apiv1.Launch
		want  string // of the error; empty: none
	}{
		{"first", nil, first, ""},
		{"between", []*apiv1.Launch{first, second}, elsewhere(2, 4, 4), ""},
		{"above", []*apiv1.Launch{first, second}, elsewhere(2, 12, 1), ""},
		{"before the first", nil, second, "before job 0"},
		{"number twice", []*apiv1.Launch{first, second}, elsewhere(1, 12, 1), "already"},
		{"reaches into the next", []*apiv1.Launch{first, second}, elsewhere(2, 4, 5), "ids 4 to 8"},
		{"begins in the last", []*apiv1.Launch{first, second}, elsewhere(2, 11, 1), "ids 11 to 11"},
		{"same base", []*apiv1.Launch{first, second}, elsewhere(2, 8, 1), "ids 8 to 8"},
		{"around another", []*apiv1.Launch{first, second}, elsewhere(2, 7, 9), "ids 7 to 15"},
		{"parent unknown", []*apiv1.Launch{first, second}, orphan, "process 7"},
		{"its own parent", []*apiv1.Launch{first, second}, own, "process 12"},
		{"command", []*apiv1.Launch{first, second}, command, "only job"},
		{"other incarnation", []*apiv1.Launch{first, second}, other, "number 2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var j Jobs
			for _, l := range tt.known {
				j.Add(unstarted(l))
			}
			err := j.Check(tt.l)
			if (tt.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestJobsAreBounded(t *testing.T) {
	var j Jobs
	for n := range uint32(maxJobs) {
		j.Add(unstarted(elsewhere(n, n, 1)))
	}
	if err := j.Check(elsewhere(maxJobs, maxJobs, 1)); err == nil {
		t.Error("one job more was taken")
	}
}

func TestCommandOf(t *testing.T) {
	for _, tt := range []struct {
		argv []string
		want string
	}{
		{[]string{"a", "b c", ""}, `a "b c" ""`},
		{[]string{"sshpass", "-p", "pw", "train", "--password", "it", "URL=https://bob:pw@host/x"}, "sshpass -p *** train --password *** URL=https://***@host/x"},
		{[]string{"a", "x\nlevel=ERROR"}, `a "x\nlevel=ERROR"`},
		{[]string{strings.Repeat("x", 5000), "y"}, strings.Repeat("x", MaxAuditCommand) + "... ..."},
	} {
		if got := CommandOf([]*apiv1.App{{Argv: tt.argv}}); got != tt.want {
			t.Errorf("%.100q, not %.100q", got, tt.want)
		}
	}
}
