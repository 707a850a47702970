package run

import (
	"fmt"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/launcher/hang"
	"github.com/mpiup/mpiup/launcher/verdict"
	"github.com/mpiup/mpiup/launcher/witness"
)

// flightUse is what agents are asked for of torch's flight recorders. Commands, and ranks that are no job, have none.
func (c *Config) flightUse() apiv1.FlightUse {
	switch {
	case c.Exec != nil || c.Linger:
		return apiv1.FlightUse_FLIGHT_NONE
	case c.Dumps:
		return apiv1.FlightUse_FLIGHT_DUMP
	}
	return apiv1.FlightUse_FLIGHT_RECORD
}

// flights is what the flight recorders of the first job's processes have, as hosts tell it.
type flights struct {
	shared
	verdict *verdict.Case

	records hang.Records
}

// Bounds: torch's ranks that one of ours may start, and absent ranks in a verdict.
const perRank, maxAbsent = 256, 64

// hear takes what a host tells of one process. Jobs that ranks spawned count their own ranks and are not looked at. A rank that is on
// the host that tells of it, where torch counts as we do, is told of by no other.
func (f *flights) hear(h int, m *apiv1.Flight) error {
	if m.Job != 0 {
		return nil
	}
	size := f.jobs[0].Size()
	r, err := hang.RecordOf(m, min(size*perRank, hang.MaxTorch))
	if err != nil {
		return err
	}
	if err := f.records.Add(f.hosts[h].Name, f.owner(r.Rank), r); err != nil {
		return err
	}
	if len(m.Dump) > 0 {
		f.give(Dump{Rank: r.Rank, Host: f.hosts[h].Name, Gzip: m.Dump})
	}
	f.verdict.Absent = f.away
	return nil
}

// owner is the host of torch's rank, where it counts as we do; else "".
func (f *flights) owner(rank int) string {
	if rank < 0 || rank >= f.jobs[0].Size() {
		return ""
	}
	return f.hosts[f.who.HostOf(rank)].Name
}

// firsts are the first job's ranks, with their hosts.
func (r *roster) firsts() witness.Places {
	return witness.Places{All: idset.Range(0, r.jobs[0].Size()-1), Host: r.hostName}
}

// places are those that run, of all jobs.
func (r *roster) places() witness.Places {
	p := witness.Places{All: r.running(), Host: r.hostName}
	for _, j := range r.jobs {
		if first, end := j.IDs(); end > first {
			p.Jobs = append(p.Jobs, idset.Range(first, end-1))
		}
	}
	return p
}

func (r *roster) hostName(id int) string {
	h := r.who.HostOf(id)
	if h < 0 {
		return ""
	}
	return r.hosts[h].Name
}

// away are those as a verdict has them.
func (f *flights) away() (list []job.Absentee) {
	away, _ := f.records.Away(f.firsts(), nil)
	for _, a := range away[:min(len(away), maxAbsent)] {
		e := job.Absentee{Rank: a.Rank, Own: a.Own, Host: a.Host, Why: a.Why, Name: fmt.Sprintf("torch's rank %d", a.Rank)}
		if a.Own {
			e.Name, e.PID = f.rankName(a.Rank), int(f.ranks[a.Rank].pid)
		}
		list = append(list, e)
	}
	return list
}
