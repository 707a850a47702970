package session

import (
	"strings"
	"testing"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
)

func word(job uint32, refused string) *apiv1.Frame {
	return (&apiv1.Proceed{Job: job, Refused: refused}).Frame()
}

// A job whose launcher wants to compare libraries first starts nothing before its word.
func TestNothingStartsBeforeTheWord(t *testing.T) {
	for _, tt := range []struct {
		name    string
		answer  *apiv1.Frame
		mpi     apiv1.Pmi
		started bool
		failed  string
	}{
		{"go on", word(0, ""), apiv1.Pmi_PMI_AUTO, true, ""},
		{"refused", word(0, "two libraries"), apiv1.Pmi_PMI_AUTO, false, "two libraries"},
		{"go on where the user chose the protocol", word(0, ""), apiv1.Pmi_PMI_FD, true, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newClient(t, newTable(t), '1', "life-1")
			c.dial(false)
			l := jobLaunch(0, 0, 1, "exit 0")
			l.Job.Await, l.Job.Pmi = true, tt.mpi
			c.start(l)
			seen := c.until(func(f *apiv1.Frame) bool { return f.GetChosen() != nil })
			if last := seen[len(seen)-1].GetChosen(); !last.Waits || len(c.session().jobs.Number(0).All()) > 0 {
				t.Fatalf("%v: %d processes run", last, len(c.session().jobs.Number(0).All()))
			}
			c.send(tt.answer)
			seen = c.until(func(f *apiv1.Frame) bool { return f.GetStarted() != nil || f.GetStartFailed() != nil })
			last := seen[len(seen)-1]
			if (last.GetStarted() != nil) != tt.started || !strings.Contains(last.GetStartFailed().GetText(), tt.failed) {
				t.Errorf("%v", last)
			}
		})
	}
}

// Who waits for the word ends with the job, and a word that nobody waits for does no harm.
func TestTheWordIsNotWaitedForForEver(t *testing.T) {
	c := newClient(t, newTable(t), '1', "life-1")
	c.dial(false)
	l := jobLaunch(0, 0, 1, "exit 0")
	l.Job.Await, l.Job.Pmi = true, apiv1.Pmi_PMI_AUTO
	c.start(l)
	c.until(func(f *apiv1.Frame) bool { return f.GetChosen() != nil })
	c.send(word(9, ""))
	c.send((&apiv1.Stop{Why: "enough"}).Frame())
	c.send((&apiv1.Bye{}).Frame())
	for _, f := range c.until(isClosed) {
		if f.GetStarted() != nil {
			t.Error("a process was started")
		}
	}
}
