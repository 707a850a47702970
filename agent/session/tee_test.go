package session

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/job"
)

// TestWorkerLogsOfSpawnedJobs: lines go by job and rank there as at the launcher, and so does what ranks log
// through PMIx.
func TestWorkerLogsOfSpawnedJobs(t *testing.T) {
	var out, errs bytes.Buffer
	a, _ := tableOf(t, func(c *Config) { c.Stdout, c.Stderr = &out, &errs })
	c := newClient(t, a, '1', "life-1")
	c.dial(false)
	for _, l := range []*apiv1.Launch{jobLaunch(0, 0, 2, `echo "rank $MPIUP_RANK"`), jobLaunch(3, 2, 2, `echo "child $MPIUP_RANK"`)} {
		l.Job.WorkerLogs = true
		c.start(l)
		c.times(2, outputEnd)
	}
	c.session().jobs.Of(3).Show(3, job.Stderr, []byte("logged\n"))
	c.send((&apiv1.Bye{}).Frame())
	c.until(isClosed)
	lines := slices.Sorted(strings.Lines(out.String()))
	want := []string{"[0] rank 0\n", "[1] rank 1\n", "[3.0] child 0\n", "[3.1] child 1\n"}
	if !slices.Equal(lines, want) || errs.String() != "[3.1] logged\n" {
		t.Errorf("logs %q and %q", lines, errs.String())
	}
}
