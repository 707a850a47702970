package launcher

import (
	"fmt"
	"strings"
	"syscall"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/launcher/verdict"
)

// onAborted is MPI_Abort, which ends the run, or a PMIx_Abort of certain processes: those are
// killed, on whatever hosts, and the others go on.
func (r *run) onAborted(h int, m *apiv1.Aborted, at time.Duration) error {
	if m.Id != 0 {
		r.send(h, (&apiv1.AbortNoted{Id: m.Id}).Frame())
	}
	if r.excused(int(m.Rank)) {
		return nil
	}
	if m.Targets != "" {
		left, err := r.left(m.Targets)
		if err == nil {
			r.endWanted(int(m.Rank), left, "PMIx_Abort"+colon(m.Text), m.Code)
			r.signalTo(left, syscall.SIGKILL)
		}
		return err
	}
	f := r.about(verdict.Aborted, h, int(m.Rank))
	f.At, f.Code, f.Text = at, int(m.Code), m.Text
	r.goneAbort(f)
	r.fail(f)
	return nil
}

// maxSignal is the last of Linux's signals (SIGRTMAX).
const maxSignal = 64

// onControl is a PMIx_Job_control: processes get a signal.
func (r *run) onControl(m *apiv1.Control) error {
	left, err := r.left(m.Targets)
	if err == nil && (m.Signal < 1 || m.Signal > maxSignal) {
		err = fmt.Errorf("processes are to get signal %d", m.Signal)
	}
	if err != nil {
		return err
	}
	if m.End {
		r.endWanted(int(m.Rank), left, "PMIx_Job_control", 0)
	}
	r.signalTo(left, syscall.Signal(m.Signal))
	return nil
}

// left is those of the processes that a frame names which are not over.
func (r *run) left(targets string) (left idset.Set, err error) {
	ids, err := idset.Parse(targets)
	if err != nil {
		return left, fmt.Errorf("processes that are to get a signal: %w", err)
	}
	for id := range ids.All() {
		if id >= len(r.ranks) {
			return left, fmt.Errorf("process %d is to get a signal, of %d that there are", id, len(r.ranks))
		}
		if !r.ranks[id].state.over() {
			left.Add(id)
		}
	}
	return left, nil
}

// endWanted notes processes that a process wants ended, which is nobody's failure. All hosts are told
// before they end, so that those who wait for them there are answered, and not a failure either.
func (r *run) endWanted(by int, ids idset.Set, how string, code int32) {
	if ids.Empty() || r.job == jobStopping {
		return
	}
	r.say("%s on %s has ended %s with %s", r.rankName(by), r.host(r.places.hostOf(by)).Name, r.named(ids), how)
	for id := range ids.All() {
		r.ranks[id].wanted = true
	}
	r.live(func(h int) {
		r.send(h, (&apiv1.Gone{Ids: ids.String(), Code: code, Aborted: true, Wanted: true}).Frame())
	})
}

// signalTo sends a signal to processes that run. Those that are to end and do not run yet are killed
// once they do.
func (r *run) signalTo(ids idset.Set, signal syscall.Signal) {
	to := map[int][]uint32{}
	for id := range ids.All() {
		if r.ranks[id].state == rankRunning {
			h := r.places.hostOf(id)
			to[h] = append(to[h], uint32(id))
		}
	}
	for h, ranks := range to {
		r.send(h, (&apiv1.Signal{Number: int32(signal), Ranks: ranks}).Frame())
	}
}

// excused says that a process's end is nobody's failure.
func (r *run) excused(id int) bool { return r.ranks[id].wanted || r.jobOf(id).dropped }

// colon is a text as the end of a sentence.
func colon(text string) string {
	if text == "" {
		return ""
	}
	return ": " + strings.TrimSpace(text)
}
