package run

import (
	"fmt"
	"maps"
	"slices"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/launcher/collective"
	"github.com/mpiup/mpiup/launcher/verdict"
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

	records map[int]collective.Record // by torch's rank
	from    map[int]int               // the host of each
}

// Bounds of what hosts tell.
const (
	maxRecords = 1 << 16
	maxGroups  = 64
	maxOps     = 5
	maxWord    = 200
	maxAbsent  = 4 // absent ranks in a verdict
)

// hear takes what a host tells of one process. Jobs that ranks spawned count their own ranks and are not looked at.
func (f *flights) hear(h int, m *apiv1.Flight) error {
	if m.Job != 0 || len(f.records) >= maxRecords {
		return nil
	}
	r, err := RecordOf(m)
	if err != nil {
		return err
	}
	if f.records == nil {
		f.records, f.from = map[int]collective.Record{}, map[int]int{}
	}
	f.records[r.Rank], f.from[r.Rank] = r, h
	if len(m.Dump) > 0 {
		f.give(Dump{Rank: r.Rank, Host: f.hosts[h].Name, Gzip: m.Dump})
	}
	f.verdict.Absent = f.away
	return nil
}

// RecordOf is what a host tells of one process, as far as it keeps to the protocol.
func RecordOf(m *apiv1.Flight) (r collective.Record, err error) {
	r.Rank = int(m.Rank)
	for _, g := range m.Groups[:min(len(m.Groups), maxGroups)] {
		ranks, err := idset.Parse(g.GetRanks())
		if err != nil {
			return r, err
		}
		group := collective.Group{Name: word(g.GetName()), What: word(g.GetWhat()), Ranks: ranks, Last: g.GetLast()}
		for _, o := range g.Ops[:min(len(g.Ops), maxOps)] {
			group.Ops = append(group.Ops, collective.Op{Seq: o.GetSeq(), Name: word(o.GetName()), Shape: word(o.GetShape()), Done: o.GetDone(), Where: word(o.GetWhere())})
		}
		r.Groups = append(r.Groups, group)
	}
	return r, nil
}

// word is a short text of a stranger's.
func word(s string) string { return visible.Line(s[:min(len(s), maxWord)]) }

// same says that torch counts the ranks as the job does: each record came from the host of that rank. Under torchrun it does not.
func (f *flights) same() bool {
	for rank, h := range f.from {
		if rank >= f.jobs[0].size() || f.hostOf(rank) != h {
			return false
		}
	}
	return true
}

// away are the ranks that are absent from a collective in which others wait, as far as it is known.
func (f *flights) away() (list []verdict.Absentee) {
	records := slices.SortedFunc(maps.Values(f.records), func(a, b collective.Record) int { return a.Rank - b.Rank })
	a, found := collective.Find(records)
	if !found {
		return nil
	}
	same := f.same()
	ranks := func(ids idset.Set) string {
		if same {
			return f.named(ids)
		}
		return "torch's " + ids.Named("rank")
	}
	for rank := range a.Ranks.All() {
		if len(list) == maxAbsent {
			break
		}
		e := verdict.Absentee{Rank: rank, Why: a.Why(rank, ranks), Name: fmt.Sprintf("torch's rank %d", rank)}
		h, from := f.from[rank]
		switch {
		case same && rank < f.jobs[0].size():
			e.Own, e.Name, e.Host, e.PID = true, f.rankName(rank), f.hosts[f.of[rank]].Name, int(f.ranks[rank].pid)
		case from:
			e.Host = f.hosts[h].Name
		}
		list = append(list, e)
	}
	return list
}
