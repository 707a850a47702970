package ranks

import (
	"time"

	"github.com/mpiup/mpiup/agent/look"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
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
		tally, looked, err := watcher.Look(ranks)
		if err != nil {
			return // without /proc there is nothing to see
		}
		m := activityOf(st.Launch.Job.Number, tally, looked, at)
		if m.Memory, m.MemoryLimit = st.s.Host.Memory(); looked.Again && !proto.Equal(m, told) {
			told = m
			st.send(m.Frame())
		}
	}
}

// watched are the job's ranks here that run, and at what the agent looks of all of them by itself.
func (st *Job) watched() (ranks []look.Rank, at apiv1.Looked) {
	waiting := st.s.Waiting()
	at = apiv1.Looked_LOOKED_OUTPUT
	for _, p := range st.All() {
		if p.Gone() {
			continue
		}
		phase := p.Phase(waiting)
		if phase > apiv1.RankPhase_PHASE_NEVER { // programs without MPI hear nothing of it
			at |= apiv1.Looked_LOOKED_PMI
		}
		ranks = append(ranks, look.Rank{ID: int(p.ID), PID: p.Pid(), Output: uint64(p.wrote.Load()), Library: uint64(phase), GPUs: p.GPUNames()})
	}
	return ranks, at
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

// activityOf is a tally for the launcher.
func activityOf(job uint32, t look.Tally, looked look.Looked, at apiv1.Looked) *apiv1.Activity {
	for bit, yes := range map[apiv1.Looked]bool{
		apiv1.Looked_LOOKED_IO:      looked.IO,
		apiv1.Looked_LOOKED_SOCKETS: looked.Sockets,
		apiv1.Looked_LOOKED_GPU:     looked.GPUs,
	} {
		if yes {
			at |= bit
		}
	}
	m := &apiv1.Activity{Job: job, Works: t.Works.String(), Busy: t.Busy.String(), Idle: t.Idle.String(), Looked: uint32(at)}
	for _, p := range t.Places {
		m.Places = append(m.Places, &apiv1.Place{Ids: p.IDs.String(), Where: p.Where})
	}
	return m
}
