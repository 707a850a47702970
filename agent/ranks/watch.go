package ranks

import (
	"context"
	"time"

	"github.com/mpiup/mpiup/agent/checkup"
	"github.com/mpiup/mpiup/agent/look"
	"github.com/mpiup/mpiup/agent/watch"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/job"
)

// recorders are what is seen of a job's ranks besides their output.
type recorders struct {
	flight *look.Recorder // of torch's flight recorders; nil: none
	waits  *watch.Job     // how long they wait in MPI; nil: nobody wants to know
	trails *watch.Trails  // what they write of how far they are; nil: nobody wants to know

	devices *checkup.Devices // of the host, as the job finds them
}

// tellWaits tells the launcher now and then how long ranks have waited, until ctx ends.
func (r recorders) tellWaits(ctx context.Context, m *apiv1.Job, procs func() []*Process, send func(*apiv1.Frame)) {
	r.waits.Tell(ctx, time.Duration(max(m.WatchMs, m.WatchLinkedMs))*time.Millisecond, func(tell func(id uint32, pid int)) {
		for _, p := range procs() {
			if !p.Gone() {
				tell(p.ID, p.Pid())
			}
		}
	}, func(w *apiv1.Waited) {
		w.Job = m.Number
		send(w.Frame())
	})
}

// Seen is how long a rank waited since a time of CLOCK_MONOTONIC, as far as it is watched.
func (r recorders) Seen(id uint32, since time.Duration) job.Waits { return r.waits.Seen(id, since) }

// GPUSlow is why the GPUs of some names are held back now; nil: all.
func (r recorders) GPUSlow(ctx context.Context, names []string) job.Slow {
	return r.devices.Slow(ctx, names)
}
