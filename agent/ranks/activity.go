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
		now, err := sampleRanks(st, before)
		if err != nil {
			return // without /proc there is nothing to see
		}
		m := activityOf(st.Launch.Job.Number, activity.Count(before, now, time.Since(looked)))
		if len(before) > 0 && !proto.Equal(m, told) {
			told = m
			st.send(m.Frame())
		}
		before, looked = now, time.Now()
	}
}

// sampleRanks is what the job's ranks here have done so far, by id. GPUs are asked about only where nothing else shows work.
func sampleRanks(st *Job, before map[int]activity.Sample) (map[int]activity.Sample, error) {
	list := slices.DeleteFunc(st.All(), (*Process).Gone)
	pids := make([]int, len(list))
	for i, p := range list {
		pids[i] = p.Pid()
	}
	used, err := procs.Look(proctree.Proc{Root: "/proc"}, pids)
	if err != nil {
		return nil, err
	}
	waiting, out := st.s.Waiting(), map[int]activity.Sample{}
	quiet := true
	for _, p := range list {
		u, there := used[p.Pid()]
		if !there {
			continue
		}
		s := activity.Sample{CPU: u.CPU, IO: u.IO, Output: uint64(p.wrote.Load()), Library: uint64(p.Phase(waiting)),
			Running: u.State == 'R', Where: u.Kernel.String()}
		out[int(p.ID)] = s
		old, known := before[int(p.ID)]
		quiet = quiet && (!known || activity.Judge(old, s, time.Minute) != activity.Works)
	}
	if quiet && st.s.Watch != nil {
		gpus, _ := st.s.Watch.Latest()
		for _, p := range list {
			if s, there := out[int(p.ID)]; there {
				names := p.GPUNames()
				for _, g := range gpus {
					s.GPU = s.GPU || g.Usage.Compute > 0 && (len(names) == 0 || slices.Contains(names, g.UUID))
				}
				out[int(p.ID)] = s
			}
		}
	}
	return out, nil
}

// activityOf is a tally for the launcher.
func activityOf(job uint32, t activity.Tally) *apiv1.Activity {
	m := &apiv1.Activity{Job: job, Works: t.Works.String(), Busy: t.Busy.String(), Idle: t.Idle.String()}
	for _, p := range t.Places {
		m.Places = append(m.Places, &apiv1.Place{Ids: p.IDs.String(), Where: p.Where})
	}
	return m
}
