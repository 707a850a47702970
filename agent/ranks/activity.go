package ranks

import (
	"time"

	"github.com/mpiup/mpiup/agent/look"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/job"
	"google.golang.org/protobuf/proto"
)

// Bounds of the time between two looks at whether ranks work.
const (
	minActivity = time.Second
	maxActivity = time.Minute
)

// watchActivity looks now and then whether the job's ranks here work, and tells the launcher when that changes.
func watchActivity(st *Job) {
	t := time.NewTicker(min(max(time.Duration(st.Launch.Job.ActivityMs)*time.Millisecond, minActivity), maxActivity))
	defer t.Stop()
	var told *apiv1.Activity
	var watcher look.Watcher
	if st.s.Watch != nil {
		watcher.Busy = st.busyGPUs
	}
	for {
		select {
		case <-t.C:
		case <-st.ctx.Done():
			return
		}
		ranks, at := st.watched()
		a, again, err := watcher.Look(ranks)
		if err != nil {
			return // without /proc there is nothing to see
		}
		a.Looked |= at
		m := apiv1.PackActivity(st.Launch.Job.Number, a)
		if m.Memory, m.MemoryLimit = st.s.Host.Memory(); again && !proto.Equal(m, told) {
			told = m
			st.send(m.Frame())
		}
	}
}

// watched are the job's ranks here that run, and at what the agent looks of all of them by itself.
func (st *Job) watched() (ranks []look.Rank, at job.Looked) {
	waiting := st.s.Waiting()
	at = job.AtOutput
	for _, p := range st.All() {
		if p.Gone() {
			continue
		}
		phase := p.Phase(waiting)
		if phase > apiv1.RankPhase_PHASE_NEVER { // programs without MPI hear nothing of it
			at |= job.AtPMI
		}
		ranks = append(ranks, look.Rank{ID: int(p.ID), Leader: p.Leader(), Output: uint64(p.wrote.Load()), Library: uint64(phase), GPUs: p.GPUNames()})
	}
	return ranks, at
}

// firstProcesses are the job's ranks here that run, by their processes as they were started.
func (st *Job) firstProcesses() map[int]uint32 {
	of := map[int]uint32{}
	for _, p := range st.All() {
		if !p.Gone() {
			of[p.Pid()] = p.ID
		}
	}
	return of
}

// busyGPUs are those of this host that work, if it has any.
func (st *Job) busyGPUs() (uuids []string, ok bool) {
	gpus, _ := st.s.Watch.Latest()
	for _, g := range gpus {
		if g.Usage.Compute > 0 {
			uuids = append(uuids, g.UUID)
		}
	}
	return uuids, len(gpus) > 0
}
