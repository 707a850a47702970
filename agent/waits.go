package agent

import (
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/idset"
)

// maxWaits bounds the barriers that a launcher is told of at once.
const maxWaits = 16

// lookAtWaits tells the launcher when ranks here have waited long in a barrier. Barriers of processes of
// several jobs (MPI_Comm_connect) are not looked at.
func (s *session) lookAtWaits(now time.Duration) {
	s.mu.Lock()
	due := s.state == launched && s.stalls.Due(now)
	s.mu.Unlock()
	if !due {
		return
	}
	if w, news := s.waits(now); news {
		s.send(w.Frame())
	}
}

// answerWaits tells the launcher who waits and who is silent here.
func (s *session) answerWaits(id uint64) {
	w, _ := s.waits(s.agent.clock.Now())
	w.Id = id
	s.send(w.Frame())
}

// waits is this host's part of who waits for whom; news: somebody has waited for long and that was not
// said yet.
func (s *session) waits(now time.Duration) (w *apiv1.Waits, news bool) {
	w = &apiv1.Waits{}
	var open []uint64
	var silent idset.Set
	for _, st := range s.steps() {
		if !st.Served() {
			continue
		}
		for _, p := range st.All() {
			if p.Silent() {
				silent.Add(int(p.ID))
			}
		}
	}
	for _, b := range s.engine.Waits(maxWaits) {
		open = append(open, b.Number)
		w.Waits = append(w.Waits, &apiv1.Wait{Set: b.Set, Entered: b.Entered.String(), Absent: b.Absent.String()})
	}
	w.Silent = silent.String()
	s.mu.Lock()
	defer s.mu.Unlock()
	ages, news := s.stalls.Look(now, open)
	for i, age := range ages {
		w.Waits[i].Seconds = uint32(age / time.Second)
	}
	return w, news
}
