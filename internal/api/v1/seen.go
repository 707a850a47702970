package apiv1

import (
	"fmt"
	"math"
	"time"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/pattern"
)

// What agents see ranks do, as it travels. What makes no sense is an error, and what is too much is cut.

// PackActivity makes a message of what a job's ranks have done.
func PackActivity(number uint32, a job.Activity) *Activity {
	m := &Activity{Job: number, Works: a.Works.String(), Busy: a.Busy.String(), Idle: a.Idle.String(), Looked: uint32(a.Looked)}
	for _, p := range a.Places {
		m.Places = append(m.Places, &Place{Ids: p.IDs.String(), Where: p.Where})
	}
	return m
}

// Seen is what a host tells, in a run of so many processes.
func (m *Activity) Seen(processes int) (a job.Activity, err error) {
	a.Looked = job.Looked(m.Looked & 0xff)
	for _, set := range []struct {
		to   *idset.Set
		text string
	}{{&a.Works, m.Works}, {&a.Busy, m.Busy}, {&a.Idle, m.Idle}} {
		if *set.to, err = idset.Within(set.text, processes); err != nil {
			return a, err
		}
	}
	for _, p := range m.Places[:min(len(m.Places), job.MaxPlaces)] {
		ids, err := idset.Within(p.GetIds(), processes)
		if err != nil {
			return a, err
		}
		a.Places = append(a.Places, job.Place{Where: fmt.Sprintf("%.*s", job.MaxWhere, p.GetWhere()), IDs: ids})
	}
	return a, nil
}

// PackHost makes a message of a host alone, at a time of its clock.
func PackHost(at time.Duration, w job.RankWork) *Waited {
	return &Waited{AtNs: int64(at), ThrottledNs: int64(w.Throttled), MemoryStalledNs: int64(w.Memory), IoStalledNs: int64(w.Storage),
		Segments: w.Segments, Resent: w.Resent, LinkErrors: w.LinkErrors, Mhz: w.MHz}
}

// PackWaits makes a message of a rank's; what is its host's goes by PackHost.
func PackWaits(r job.Waits) *RankWaited {
	m := &RankWaited{Id: uint32(r.ID), State: WatchState(r.State), Seq: r.Seq, Partial: r.Partial,
		InsideNs: int64(r.Inside), ElsewhereNs: int64(r.Elsewhere), Call: r.Call, CalledNs: int64(r.Called),
		CpuNs: int64(r.CPU), QueuedNs: int64(r.Queued), BlockedNs: int64(r.Blocked), ReadBack: r.ReadBack,
		Far: uint32(math.Round(1000 * r.Far)), GpuSlow: uint32(r.GPU), Segments: r.Segments, Resent: r.Resent,
		StepNs: int64(r.Step), StepCalls: r.StepCalls}
	for _, p := range r.Points {
		m.Points = append(m.Points, &WaitPoint{Seq: p.Seq, WaitedNs: int64(p.Waited), OtherNs: int64(p.Other), Loose: p.Loose, AtNs: int64(p.At)})
	}
	return m
}

// Bounds of what a host tells.
const (
	maxPoints = 64 // of one rank
	maxSum    = 1000 * 24 * time.Hour
	slowBits  = uint32(job.SlowByHeat | job.SlowByPower | job.SlowByOther)
)

// Seen is what a host tells of ranks, which are on it, and at what time of its own clock. Times out of bounds count as the bound.
func (m *Waited) Seen(ranks []*RankWaited, on idset.Set) (at time.Duration, list []job.Waits, err error) {
	for _, r := range ranks {
		if !on.Contains(int(r.GetId())) || len(r.Points) > maxPoints || r.State < 0 || r.State > WatchState_WATCH_LOST {
			return 0, nil, fmt.Errorf("how long rank %d waited, in %d points and state %d", r.GetId(), len(r.GetPoints()), r.GetState())
		}
		w := job.Waits{ID: int(r.Id), State: job.WatchState(r.State), Seq: r.Seq, Partial: r.Partial, Inside: sum(r.InsideNs), Elsewhere: sum(r.ElsewhereNs),
			Call: r.InCall(), Called: sum(r.CalledNs), Step: sum(r.StepNs), StepCalls: r.StepCalls, RankWork: work(m, r)}
		for _, p := range r.Points {
			point := job.WaitPoint{Seq: p.GetSeq(), Waited: sum(p.GetWaitedNs()), Other: sum(p.GetOtherNs()), Loose: p.GetLoose(), At: sum(p.GetAtNs())}
			w.Points = append(w.Points, point)
		}
		list = append(list, w)
	}
	return sum(m.AtNs), list, nil
}

// calls are names of calls of MPI.
var calls = pattern.Of(`^MPI_[A-Z][a-z_]{1,40}$`)

// InCall is the call that the rank is in; "": in none, or what is told is no name of one.
func (m *RankWaited) InCall() string {
	if !calls().MatchString(m.GetCall()) {
		return ""
	}
	return m.Call
}

func sum(ns int64) time.Duration { return min(max(time.Duration(ns), 0), maxSum) }

func work(host *Waited, r *RankWaited) job.RankWork {
	w := job.RankWork{CPU: sum(r.CpuNs), Queued: sum(r.QueuedNs), Blocked: sum(r.BlockedNs), ReadBack: r.ReadBack, Far: float64(min(r.Far, 1000)) / 1000,
		GPU: job.Slow(r.GpuSlow & slowBits), Segments: r.Segments, Resent: r.Resent,
		Throttled: sum(host.ThrottledNs), Memory: sum(host.MemoryStalledNs), Storage: sum(host.IoStalledNs), LinkErrors: host.LinkErrors, MHz: host.Mhz}
	if w.Segments == 0 {
		w.Segments, w.Resent = host.Segments, host.Resent
	}
	return w
}
