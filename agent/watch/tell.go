package watch

import (
	"context"
	"time"

	"github.com/mpiup/mpiup/agent/look"
	"github.com/mpiup/mpiup/agent/reap/proctree"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
)

// Told is what is told of a host's ranks at one time. Sums count from their start.
type Told struct {
	At        time.Duration // CLOCK_MONOTONIC
	Throttled time.Duration // this container, by its CPU quota
	Ranks     []News
}

// Message is what a launcher is told of it.
func (t Told) Message(job uint32) *apiv1.Waited {
	w := &apiv1.Waited{Job: job, AtNs: int64(t.At), ThrottledNs: int64(t.Throttled)}
	for _, n := range t.Ranks {
		m := &apiv1.RankWaited{
			Id:        n.ID,
			State:     apiv1.WatchState(n.State),
			Seq:       n.Seq,
			Partial:   n.Partial,
			InsideNs:  int64(n.Inside),
			CpuNs:     int64(n.CPU),
			BlockedNs: int64(n.Blocked),
			QueuedNs:  int64(n.Queued),
		}
		for _, p := range n.Points {
			m.Points = append(m.Points, &apiv1.WaitPoint{Seq: p.Seq, WaitedNs: int64(p.Waited), OtherNs: int64(p.Other), Loose: p.Loose, AtNs: int64(p.At)})
		}
		w.Ranks = append(w.Ranks, m)
	}
	return w
}

// News is what is new of one rank. Points are those that were not told yet.
type News struct {
	ID uint32
	Sample
	CPU, Blocked, Queued time.Duration // as look.Usage has them, and Queued
}

// Tell looks at all ranks now and then, until ctx ends. leaders tells of the processes of those that run.
func (j *Job) Tell(ctx context.Context, every time.Duration, leaders func(tell func(id uint32, pid int)), tell func(Told)) {
	t := time.NewTicker(min(max(every, time.Second/2), time.Minute))
	defer t.Stop()
	proc := proctree.Proc{Root: "/proc"}
	for {
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
		var pids []int
		byID := map[uint32]int{}
		leaders(func(id uint32, pid int) {
			byID[id] = pid
			pids = append(pids, pid)
		})
		used, _ := look.At(proc, pids) // without /proc there is no cause, but a name
		told := Told{At: monotonic(), Throttled: throttled("/sys/fs/cgroup"), Ranks: j.look()}
		for i, n := range told.Ranks {
			if u, ok := used[byID[n.ID]]; ok {
				told.Ranks[i].CPU, told.Ranks[i].Blocked, told.Ranks[i].Queued = u.CPU, u.Delay, queuedOf(proc, u.PIDs)
			}
		}
		tell(told)
	}
}
