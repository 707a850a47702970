package session

import (
	"strconv"
	"strings"
	"testing"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"golang.org/x/sys/unix"
)

// pmixLaunch is a job for PMIx of which this host, "w0", has all ranks.
func pmixLaunch(job, base, size uint32, script string) *apiv1.Launch {
	l := jobLaunch(job, base, size, script)
	l.Job.Pmi, l.Job.Namespace = apiv1.Pmi_PMI_PMIX, "ns-"+strconv.Itoa(int(job))
	l.Job.Layout = []*apiv1.HostRanks{{Name: "w0", Ranks: "0-" + strconv.Itoa(int(size-1))}}
	return l
}

// TestOnePMIxServerForAllJobs: ranks of all jobs of a session find the same server, which tells
// each of its own job.
func TestOnePMIxServerForAllJobs(t *testing.T) {
	c := newClient(t, newTable(t), '1', "life-1")
	c.dial(false)
	script := `echo "$PMIX_SERVER_URI41 $PMIX_NAMESPACE.$PMIX_RANK $OMPI_COMM_WORLD_RANK/$OMPI_COMM_WORLD_SIZE"; exec sleep 1000`
	wrote := func(f *apiv1.Frame) bool { return f.GetOutput() != nil }
	c.start(pmixLaunch(0, 0, 1, script))
	first := strings.Fields(stdout(c.until(wrote)))
	c.start(elsewhere(1, 1, 2)) // of another host, and without PMIx
	child := pmixLaunch(2, 3, 1, script)
	child.Job.Parent = 0
	c.start(child)
	second := strings.Fields(stdout(c.until(wrote)))
	if len(first) != 3 || len(second) != 3 || first[0] != second[0] || !strings.Contains(first[0], "tcp4://127.0.0.1:") {
		t.Fatalf("told %q and %q", first, second)
	}
	if first[1] != "ns-0.0" || second[1] != "ns-2.0" || second[2] != "0/1" {
		t.Errorf("told %q and %q", first, second)
	}
}

func TestJobsThatPMIxRefuses(t *testing.T) {
	c := newClient(t, newTable(t), '1', "life-1")
	c.dial(false)
	c.start(elsewhere(0, 0, 1)) // does not speak PMIx
	c.start(pmixLaunch(1, 1, 1, "sleep 1000"))
	seen := c.until(func(f *apiv1.Frame) bool { return f.GetStartFailed() != nil })
	if f := seen[len(seen)-1].GetStartFailed(); f.Rank != 1 || !strings.Contains(f.Text, "rank 0 of job 0") {
		t.Errorf("got %v", f)
	}
	strange := elsewhere(2, 2, 2)
	strange.Job.Namespace, strange.Job.Layout = "ns-2", []*apiv1.HostRanks{{Name: "w1", Ranks: "0-8"}}
	c.start(strange)
	seen = c.until(func(f *apiv1.Frame) bool { return f.GetNotice() != nil })
	if n := seen[len(seen)-1].GetNotice(); !strings.Contains(n.Text, "job 2") {
		t.Errorf("got %v", n)
	}
}

// Open MPI's ranks that share CPUs share a process session where the kernel schedules by those; others have their own.
func TestCrowdedRanksStayTogether(t *testing.T) {
	mine, err := unix.Getsid(0)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name  string
		ranks uint32
		pmi   apiv1.Pmi
		may   bool
	}{
		{"two on two CPUs", 2, apiv1.Pmi_PMI_PMIX, false},
		{"four of Open MPI", 4, apiv1.Pmi_PMI_PMIX, true},
		{"four of MPICH", 4, apiv1.Pmi_PMI_FD, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newClient(t, newTable(t), '1', "life-1") // of 2 CPUs
			c.dial(false)
			l := pmixLaunch(0, 0, tt.ranks, "exec sleep 1000")
			l.Job.Pmi = tt.pmi
			c.start(l)
			c.times(int(tt.ranks), started)
			want := tt.may && c.table.cfg.Host.Cgroups().Autogrouped()
			for _, p := range c.session().jobs.Processes() {
				if sid, err := unix.Getsid(p.Pid()); err != nil || (sid == mine) != want {
					t.Errorf("session %d of %d, want it shared: %v (%v)", sid, mine, want, err)
				}
			}
		})
	}
}

func TestCrowdedRanksYield(t *testing.T) {
	c := newClient(t, newTable(t), '1', "life-1") // of 2 CPUs
	c.dial(false)
	script := `echo "$OMPI_MCA_mpi_oversubscribe"; exec sleep 1000`
	say := func(job, base uint32, env ...string) string {
		l := pmixLaunch(job, base, 1, script)
		l.Apps[0].Env = env
		c.start(l)
		return strings.TrimSpace(stdout(c.until(func(f *apiv1.Frame) bool { return f.GetOutput() != nil })))
	}
	for i, tt := range []struct {
		name string
		env  []string
		want string
	}{
		{"alone", nil, ""},
		{"a processor each", nil, ""},
		{"one too many", nil, "1"},
		{"as the user says", []string{"OMPI_MCA_mpi_oversubscribe=0"}, "0"},
	} {
		if got := say(uint32(i), uint32(i), tt.env...); got != tt.want {
			t.Errorf("%s: %q", tt.name, got)
		}
	}
}
