package exchange

import (
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/idset"
)

// maxWaits bounds the barriers that a launcher is told of at once.
const maxWaits = 16

// Look tells the launcher when ranks here have waited long in a barrier; it is called with every step of the clock.
// Barriers of processes of several jobs (MPI_Comm_connect) are not looked at.
func (x *Exchange) Look(now time.Duration) {
	x.mu.Lock()
	due := x.stalls.Due(now)
	x.mu.Unlock()
	if !due {
		return
	}
	if w, news := x.waits(now); news {
		x.Send(w.Frame())
	}
}

// answerWaits tells the launcher who waits and who is silent here.
func (x *Exchange) answerWaits(id uint64) {
	w, _ := x.waits(x.cfg.Clock.Now())
	w.Id = id
	x.Send(w.Frame())
}

// waits is this host's part of who waits for whom; news: somebody has waited for long and that was not
// said yet.
func (x *Exchange) waits(now time.Duration) (w *apiv1.Waits, news bool) {
	w = &apiv1.Waits{}
	var open []uint64
	var silent idset.Set
	for _, st := range x.Jobs.All() {
		if !st.Served() {
			continue
		}
		for _, p := range st.All() {
			if p.Silent() {
				silent.Add(int(p.ID))
			}
		}
	}
	for _, b := range x.Engine.Waits(maxWaits) {
		open = append(open, b.Number)
		w.Waits = append(w.Waits, &apiv1.Wait{Set: b.Set, Entered: b.Entered.String(), Absent: b.Absent.String()})
	}
	w.Silent = silent.String()
	x.mu.Lock()
	defer x.mu.Unlock()
	ages, news := x.stalls.Look(now, open)
	for i, age := range ages {
		w.Waits[i].Seconds = uint32(age / time.Second)
	}
	return w, news
}
