package session

import (
	"testing"
	"time"

	"github.com/mpiup/mpiup/agent/ranks"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
)

// TestAnAbortOfPMIKeepsItsConnection: clients that wait for an answer, which there is none, are held too.
func TestAnAbortOfPMIKeepsItsConnection(t *testing.T) {
	c := newClient(t, newTable(t), '1', "life-1")
	c.dial(false)
	l := jobLaunch(0, 0, 2, `[ $PMI_RANK = 1 ] || exec sleep 1000
echo "cmd=init pmi_version=1 pmi_subversion=1" >&3; read -r answer <&3
echo "cmd=abort exitcode=42" >&3; read -r answer <&3
echo let go; exec sleep 1000`)
	l.Job.Pmi = apiv1.Pmi_PMI_FD
	begun := time.Now()
	c.start(l)
	seen := c.until(func(f *apiv1.Frame) bool { return f.GetAborted() != nil })
	if a := seen[len(seen)-1].GetAborted(); a.Rank != 1 || a.Code != 42 {
		t.Errorf("told of %v", a)
	}
	if out := stdout(c.until(func(f *apiv1.Frame) bool { return f.GetOutput() != nil })); out != "let go\n" {
		t.Errorf("wrote %q", out)
	}
	if took := time.Since(begun); took < ranks.AbortBound {
		t.Errorf("let go %v after the start", took)
	}
}
