package watch

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/mpiup/mpiup/agent/look"
	"github.com/mpiup/mpiup/agent/reap/proctree"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/job"
)

// looksFar is at how many looks memory is looked for once: it moves seldom, and counting it walks all pages.
const looksFar = 8

// claims is how often it is looked whether a rank's process has a page now: one that ends before takes it along.
const claims = 200 * time.Millisecond

// Tell looks at all ranks now and then, until ctx ends: often at first, since the run may be short. leaders are the processes of those
// that run, by id.
func (j *Job) Tell(ctx context.Context, every time.Duration, leaders func() map[uint32]look.Leader, send func(*apiv1.Frame)) {
	every = min(max(every, time.Second/2), bins*bin*3/4) // of bins none may be missed
	next := min(every, time.Second)
	t, c := time.NewTicker(next), time.NewTicker(claims)
	defer t.Stop()
	defer c.Stop()
	proc := proctree.Proc{Root: "/proc"}
	far := map[uint32]float64{}
	for looks := 0; ; looks++ {
		if !j.await(ctx, t.C, c.C, leaders) {
			return
		}
		if next < every {
			next = min(2*next, every)
			t.Reset(next)
		}
		running := leaders()
		used, _ := look.At(proc, slices.Collect(maps.Values(running))) // without /proc there is no cause, but a name
		m := apiv1.PackHost(LoadOf(Host))
		m.Job = j.number
		for _, r := range j.look(running) {
			id := uint32(r.ID)
			if u, ok := used[running[id].PID]; ok {
				r.RankWork = WorkOf(proc, u)
				if looks%looksFar == 0 {
					far[id] = FarOf(Host, u.Main)
				}
			}
			r.Far = far[id]
			m.Ranks = append(m.Ranks, apiv1.PackWaits(r))
		}
		send(m.Frame())
	}
}

// await claims pages until it is time for a look; false: ctx has ended.
func (j *Job) await(ctx context.Context, next, claim <-chan time.Time, leaders func() map[uint32]look.Leader) bool {
	for {
		select {
		case <-next:
			return true
		case <-claim:
			if j.wants() {
				j.claim(leaders())
			}
		case <-ctx.Done():
			return false
		}
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
	m := apiv1.PackHost(monotonic(), job.RankWork{})
	m.Job, m.Ranks = j.number, []*apiv1.RankWaited{apiv1.PackWaits(w.news(id, &j.read))}
	send(m.Frame())
}

// Seen is how long a rank that runs waited since a time of CLOCK_MONOTONIC, for who looks once; main is the process that
// is in MPI for it, 0 if that is not known. A nil Job watches none.
func (j *Job) Seen(id uint32, main int, since time.Duration) (r job.Waits) {
	r.ID = int(id)
	if j == nil {
		return r
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if w := j.ranks[id]; w != nil {
		w.learnMain(main)
		r = w.sample(id, &j.read)
		r.Points = Recent(r.Points, since)
	}
	return r
}
