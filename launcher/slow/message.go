package slow

import (
	"fmt"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/pattern"
)

// Bounds of what a host tells.
const (
	maxPoints = 64 // of one rank
	maxSum    = 1000 * 24 * time.Hour
	slowBits  = uint32(job.SlowByHeat | job.SlowByPower | job.SlowByOther)
)

// Parse reads what a host tells of its ranks, which are on, and at what time of its own clock. Times out of bounds count as the bound.
func Parse(m *apiv1.Waited, on idset.Set) (at time.Duration, reports []Report, err error) {
	for _, r := range m.Ranks {
		if !on.Contains(int(r.GetId())) || len(r.Points) > maxPoints || r.State < 0 || r.State > apiv1.WatchState_WATCH_LOST {
			return 0, nil, fmt.Errorf("how long rank %d waited, in %d points and state %d", r.GetId(), len(r.GetPoints()), r.GetState())
		}
		report := Report{
			ID:        int(r.Id),
			State:     State(r.State),
			Seq:       r.Seq,
			Partial:   r.Partial,
			Inside:    sum(r.InsideNs),
			Elsewhere: sum(r.ElsewhereNs),
			Work:      work(m, r),
			Call:      CallOf(r.Call),
			Called:    sum(r.CalledNs),
		}
		for _, p := range r.Points {
			report.Points = append(report.Points, Point{
				Seq:    p.GetSeq(),
				Waited: sum(p.GetWaitedNs()),
				Other:  sum(p.GetOtherNs()),
				Loose:  p.GetLoose(),
				At:     sum(p.GetAtNs()),
			})
		}
		reports = append(reports, report)
	}
	return sum(m.AtNs), reports, nil
}

// calls are names of calls of MPI.
var calls = pattern.Of(`^MPI_[A-Z][a-z_]{1,40}$`)

// CallOf is the call that a host tells of; "": what it tells is the name of none.
func CallOf(name string) string {
	if !calls().MatchString(name) {
		return ""
	}
	return name
}

func sum(ns int64) time.Duration { return min(max(time.Duration(ns), 0), maxSum) }

func work(host *apiv1.Waited, r *apiv1.RankWaited) Work {
	segments, resent := r.Segments, r.Resent
	if segments == 0 {
		segments, resent = host.Segments, host.Resent
	}
	return Work{
		CPU:        sum(r.CpuNs),
		Queued:     sum(r.QueuedNs),
		Blocked:    sum(r.BlockedNs),
		ReadBack:   r.ReadBack,
		Far:        float64(min(r.Far, 1000)) / 1000,
		Throttled:  sum(host.ThrottledNs),
		Memory:     sum(host.MemoryStalledNs),
		Storage:    sum(host.IoStalledNs),
		Segments:   segments,
		Resent:     resent,
		LinkErrors: host.LinkErrors,
		MHz:        host.Mhz,
		GPU:        job.Slow(r.GpuSlow & slowBits),
	}
}
