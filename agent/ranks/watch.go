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

// watchWaits is what is watched of the job's ranks here; nil: none is to be.
func (st *Job) watchWaits() *watch.Job {
	notice := st.Notice
	if st.Launch.Job.WatchMs == 0 {
		notice = func(bool, string, ...any) {} // nobody has asked
	}
	any := false
	for _, p := range st.Launch.Procs {
		any = any || st.watches(p.App)
	}
	for i, p := range st.programs {
		if p.First != "" {
			notice(true, "--watch-ranks: ranks of %s are not watched: it is linked with %s, which must be loaded before any other library", st.Launch.Apps[i].Argv[0], p.First)
		}
	}
	if !any {
		return nil
	}
	return watch.NewJob(st.s.Host, st.s.ID, st.Launch.Job.Number, st.s.WatchLibrary, notice)
}

// watches says that a program's ranks are to be watched, where any are.
func (st *Job) watches(app uint32) bool {
	if int(app) >= len(st.programs) {
		return st.Launch.Job.WatchMs > 0
	}
	return st.programs[app].First == "" && (st.programs[app].Linked || st.Launch.Job.WatchMs > 0)
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
