package session

import (
	"testing"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
)

// A host answers who of its ranks has not spoken; one whose library gets nothing from mpiup may well never.
func TestAskedWhoWaits(t *testing.T) {
	for _, tt := range []struct {
		name string
		pmi  apiv1.Pmi
		want string
	}{
		{"silent", apiv1.Pmi_PMI_FD, "4-5"},
		{"not spoken to", apiv1.Pmi_PMI_NONE, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newClient(t, newTable(t), '1', "life-1")
			c.dial(false)
			first := jobLaunch(0, 0, 4, "exec sleep 1000")
			first.Job.Pmi = apiv1.Pmi_PMI_NONE
			c.start(first)
			l := jobLaunch(1, 4, 2, "exec sleep 1000")
			l.Job.Pmi = tt.pmi
			c.start(l)
			c.times(6, started)
			c.send((&apiv1.AskWaits{Id: 5}).Frame())
			all := c.until(func(f *apiv1.Frame) bool { return f.GetWaits() != nil })
			w := all[len(all)-1].GetWaits()
			if w.Id != 5 || w.Silent != tt.want || len(w.Waits) > 0 {
				t.Errorf("answered %v, want the silent %q", w, tt.want)
			}
		})
	}
}
