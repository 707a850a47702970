package ranks

import (
	"slices"
	"time"

	"github.com/mpiup/mpiup/agent/activity"
	"github.com/mpiup/mpiup/agent/procs"
	"github.com/mpiup/mpiup/agent/reap/proctree"
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
	every := min(max(time.Duration(st.Launch.Job.ActivityMs)*time.Millisecond, minActivity), maxActivity)
	t := time.NewTicker(every)
	defer t.Stop()
	var told *apiv1.Activity
	before, looked := map[int]activity.Sample{}, time.Now()
	for {
		select {
		case <-t.C:
		case <-st.ctx.Done():
			return
		}
		now, at, err := sampleRanks(st, before)
		if err != nil {
			return // without /proc there is nothing to see
		}
		m := activityOf(st.Launch.Job.Number, activity.Count(before, now, time.Since(looked)))
		m.Looked = uint32(at)
		if len(before) > 0 && !proto.Equal(m, told) {
			told = m
			st.send(m.Frame())
		}
		before, looked = now, time.Now()
	}
}

// sampleRanks is what the job's ranks here have done so far, by id, and at what was looked of all of them. Sockets and GPUs are looked at
// only where nothing else shows work.
func sampleRanks(st *Job, before map[int]activity.Sample) (map[int]activity.Sample, apiv1.Looked, error) {
	list := slices.DeleteFunc(st.All(), (*Process).Gone)
	pids := make([]int, len(list))
	for i, p := range list {
		pids[i] = p.Pid()
	}
	used, err := procs.Look(proctree.Proc{Root: "/proc"}, pids)
	if err != nil {
		return nil, 0, err
	}
	waiting, out := st.s.Waiting(), map[int]activity.Sample{}
	looked, quiet := apiv1.Looked_LOOKED_OUTPUT|apiv1.Looked_LOOKED_IO, true
	if slices.ContainsFunc(list, func(p *Process) bool { return p.Phase(waiting) > apiv1.RankPhase_PHASE_NEVER }) { // programs without MPI hear nothing of it
		looked |= apiv1.Looked_LOOKED_PMI
	}
	for _, p := range list {
		u, there := used[p.Pid()]
		if !there {
			continue
		}
		s := activity.Sample{CPU: u.CPU, IO: u.IO, Faults: u.Faults, Delay: u.Delay, Output: uint64(p.wrote.Load()), Library: uint64(p.Phase(waiting)),
			Running: u.State == 'R', Where: u.Kernel.String()}
		out[int(p.ID)] = s
		if u.Blind {
			looked &^= apiv1.Looked_LOOKED_IO
		}
		old, known := before[int(p.ID)]
		quiet = quiet && (!known || activity.Judge(old, s, time.Minute) != activity.Works)
	}
	if quiet {
		looked |= lookAtSockets(list, used, out) | lookAtGPUs(st, list, out)
	}
	return out, looked, nil
}

// lookAtSockets adds what the ranks' own sockets have moved.
func lookAtSockets(list []*Process, used map[int]procs.Usage, out map[int]activity.Sample) apiv1.Looked {
	all, err := procs.Traffic()
	if err != nil {
		return 0
	}
	looked := apiv1.Looked_LOOKED_SOCKETS
	for _, p := range list {
		s, there := out[int(p.ID)]
		if !there {
			continue
		}
		if s.Traffic, err = procs.Own(proctree.Proc{Root: "/proc"}, used[p.Pid()].PIDs, all); err != nil {
			looked, s.Traffic = 0, nil
		}
		out[int(p.ID)] = s
	}
	return looked
}

// lookAtGPUs adds whether a GPU works that a rank may use.
func lookAtGPUs(st *Job, list []*Process, out map[int]activity.Sample) (looked apiv1.Looked) {
	if st.s.Watch == nil {
		return 0
	}
	gpus, _ := st.s.Watch.Latest()
	if len(gpus) > 0 {
		looked = apiv1.Looked_LOOKED_GPU
	}
	for _, p := range list {
		s, there := out[int(p.ID)]
		if !there {
			continue
		}
		names := p.GPUNames()
		for _, g := range gpus {
			s.GPU = s.GPU || g.Usage.Compute > 0 && (len(names) == 0 || slices.Contains(names, g.UUID))
		}
		out[int(p.ID)] = s
	}
	return looked
}

// activityOf is a tally for the launcher.
func activityOf(job uint32, t activity.Tally) *apiv1.Activity {
	m := &apiv1.Activity{Job: job, Works: t.Works.String(), Busy: t.Busy.String(), Idle: t.Idle.String()}
	for _, p := range t.Places {
		m.Places = append(m.Places, &apiv1.Place{Ids: p.IDs.String(), Where: p.Where})
	}
	return m
}
