package ranks

import (
	"context"
	"time"

	"github.com/mpiup/mpiup/agent/look"
	"github.com/mpiup/mpiup/agent/watch"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
)

// recorders are what ranks of a job write for us besides their output.
type recorders struct {
	flight *look.Recorder // of torch's flight recorders; nil: none
	waits  *watch.Job     // how long they wait in MPI; nil: nobody wants to know
}

// tellWaits tells the launcher now and then how long ranks have waited, until ctx ends.
func (r recorders) tellWaits(ctx context.Context, m *apiv1.Job, procs func() []*Process, send func(*apiv1.Frame)) {
	r.waits.Tell(ctx, time.Duration(m.WatchMs)*time.Millisecond, func(tell func(id uint32, pid int)) {
		for _, p := range procs() {
			if !p.Gone() {
				tell(p.ID, p.Pid())
			}
		}
	}, func(t watch.Told) { send(t.Message(m.Number).Frame()) })
}
