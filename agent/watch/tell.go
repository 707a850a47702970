package watch

import (
	"context"
	"time"

	"github.com/mpiup/mpiup/agent/look"
	"github.com/mpiup/mpiup/agent/reap/proctree"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
)

// News is what is new of one rank. Points are those that were not told yet.
type News struct {
	ID uint32
	Sample
	Used   look.Usage
	Queued time.Duration // its threads were ready to run, and had no processor
	Far    uint32        // thousandths of its memory that are on other NUMA nodes (FarOf)
}

// Message is what a launcher is told of it.
func (n News) Message() *apiv1.RankWaited {
	m := &apiv1.RankWaited{
		Id:          n.ID,
		State:       apiv1.WatchState(n.State),
		Seq:         n.Seq,
		Partial:     n.Partial,
		InsideNs:    int64(n.Inside),
		ElsewhereNs: int64(n.Elsewhere),
		CpuNs:       int64(n.Used.CPU),
		BlockedNs:   int64(n.Used.Delay),
		QueuedNs:    int64(n.Queued),
		ReadBack:    n.Used.ReadBack,
		Far:         n.Far,
		Call:        n.Call,
		CalledNs:    int64(n.Called),
	}
	for _, p := range n.Points {
		m.Points = append(m.Points, &apiv1.WaitPoint{Seq: p.Seq, WaitedNs: int64(p.Waited), OtherNs: int64(p.Other), Loose: p.Loose, AtNs: int64(p.At)})
	}
	return m
}

// Message is what a launcher is told of a host at one time.
func (l Load) Message() *apiv1.Waited {
	return &apiv1.Waited{
		AtNs:            int64(l.At),
		ThrottledNs:     int64(l.Throttled),
		MemoryStalledNs: int64(l.Memory),
		IoStalledNs:     int64(l.Storage),
		Segments:        l.Segments,
		Resent:          l.Resent,
		LinkErrors:      l.LinkErrors,
		Mhz:             l.MHz,
	}
}

// looksFar is at how many looks memory is looked for once: it moves seldom, and counting it walks all pages.
const looksFar = 8

// Tell looks at all ranks now and then, until ctx ends: often at first, since the run may be short. leaders tells of the processes of those
// that run.
func (j *Job) Tell(ctx context.Context, every time.Duration, leaders func(tell func(id uint32, pid int)), tell func(*apiv1.Waited)) {
	every = min(max(every, time.Second/2), time.Minute)
	next := min(every, time.Second)
	t := time.NewTicker(next)
	defer t.Stop()
	proc := proctree.Proc{Root: "/proc"}
	far := map[uint32]uint32{}
	for looks := 0; ; looks++ {
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
		if next < every {
			next = min(2*next, every)
			t.Reset(next)
		}
		var pids []int
		byID := map[uint32]int{}
		leaders(func(id uint32, pid int) {
			byID[id] = pid
			pids = append(pids, pid)
		})
		used, _ := look.At(proc, pids) // without /proc there is no cause, but a name
		m := LoadOf(Host).Message()
		for _, n := range j.look() {
			if u, ok := used[byID[n.ID]]; ok {
				n.Used, n.Queued = u, QueuedOf(proc, u.PIDs)
				if looks%looksFar == 0 {
					far[n.ID] = FarOf(Host, u.Main)
				}
			}
			n.Far = far[n.ID]
			m.Ranks = append(m.Ranks, n.Message())
		}
		tell(m)
	}
}

// Last tells what the page of a rank says that has ended: a run that is over before anybody looked is measured by it. A nil Job watches none.
func (j *Job) Last(id uint32, send func(*apiv1.Frame)) {
	if j == nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	w := j.ranks[id]
	if w == nil || w.over {
		return
	}
	w.over = true
	n := w.news(id)
	m := (Load{At: monotonic()}).Message()
	m.Job, m.Ranks = j.number, []*apiv1.RankWaited{n.Message()}
	send(m.Frame())
}

// Seen is how long a rank that runs waited since a time of CLOCK_MONOTONIC, for who looks once. A nil Job watches none.
func (j *Job) Seen(id uint32, since time.Duration) (n News) {
	n.ID = id
	if j == nil {
		return n
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if w := j.ranks[id]; w != nil {
		n.Sample = w.sample()
		n.Points = n.Recent(since)
	}
	return n
}
