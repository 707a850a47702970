package launcher

import (
	"fmt"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/idset"
)

// onAborted is MPI_Abort, which ends the run, or a PMIx_Abort of certain processes: those are
// killed, on whatever hosts, and the others go on.
func (r *run) onAborted(h int, m *apiv1.Aborted, at time.Duration) error {
	if r.excused(int(m.Rank)) {
		return nil
	}
	if m.Targets != "" {
		return r.endWanted(h, m)
	}
	f := r.about(faultAbort, h, int(m.Rank))
	f.at, f.code, f.text = at, int(m.Code), m.Text
	r.goneAbort(f)
	r.fail(f)
	return nil
}

// endWanted ends processes that a process wants ended, which is nobody's failure. All hosts are told
// before, so that those who wait for them there are answered, and not a failure either.
func (r *run) endWanted(h int, m *apiv1.Aborted) error {
	ids, err := idset.Parse(m.Targets)
	if err != nil {
		return fmt.Errorf("processes to end: %w", err)
	}
	var left idset.Set
	for id := range ids.All() {
		if id >= len(r.ranks) {
			return fmt.Errorf("process %d is to end, of %d that there are", id, len(r.ranks))
		}
		if !r.ranks[id].state.over() {
			left.Add(id)
		}
	}
	if left.Empty() || r.job == jobStopping {
		return nil
	}
	r.say("%s on %s has ended %s with PMIx_Abort%s", r.rankName(int(m.Rank)), r.host(h).name, r.named(left), colon(m.Text))
	r.live(func(h int) {
		r.send(h, &apiv1.Frame{Body: &apiv1.Frame_Gone{Gone: &apiv1.Gone{Ids: left.String(), Code: m.Code, Aborted: true, Wanted: true}}})
	})
	for id := range left.All() {
		r.ranks[id].wanted = true
		if r.ranks[id].state == rankRunning { // else when it is told that it runs
			r.end(id)
		}
	}
	return nil
}

// excused says that a process's end is nobody's failure.
func (r *run) excused(id int) bool { return r.ranks[id].wanted || r.jobOf(id).dropped }
