// Package absent says of the runs on hosts who is waited for: in a barrier of MPI_Init and its like, and in a collective that torch's flight
// recorders know. mpiup ps and mpiup stacks print it. PURE.
//
//	Run.Add (a rank), Place (a host's ranks), Hear (its barriers), Record (a process's collectives) ──Lines──▶ text
//
// Ranks that are on no host which answered are named first.
// What hosts tell is of one moment each, so that a barrier counts only where its host has seen it open twice.
package absent

import (
	"fmt"
	"slices"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/launcher/collective"
	"github.com/mpiup/mpiup/launcher/holdup"
)

// Rank is a process of a run.
type Rank struct {
	ID     int // in the run
	Rank   uint32
	Number uint32 // of its job
	Host   string
	PID    int32
}

func (r Rank) String() string { return fmt.Sprintf("%s (%s, pid %d)", r.name(), r.Host, r.PID) }

func (r Rank) name() string {
	if r.Number != 0 {
		return fmt.Sprintf("rank %d of spawned job %d", r.Rank, r.Number)
	}
	return fmt.Sprintf("rank %d", r.Rank)
}

// Run is what hosts tell of one. The zero value has no ranks.
type Run struct {
	ranks   map[int]Rank
	picture holdup.Picture
	running idset.Set
	untold  bool      // a host has not told which of its ranks there are
	size    int       // ranks of the first job; 0: no host has told
	placed  idset.Set // those of hosts that answered
	records map[int]collective.Record
	from    map[int]string // the host of each record
}

// Add takes a rank that runs.
func (r *Run) Add(k Rank) {
	if r.ranks == nil {
		r.ranks = map[int]Rank{}
	}
	r.ranks[k.ID] = k
	r.running.Add(k.ID)
}

// Place takes how many ranks the first job has, and which of them are on a host, whether they still run. Size 0 is a host that does not
// tell: then nobody knows which ranks no host has.
func (r *Run) Place(size int, here idset.Set) {
	r.size, r.placed, r.untold = max(r.size, size), r.placed.Union(here), r.untold || size == 0
}

// unseen is a line about ranks that no host has; "": each has one, or it is not known.
func (r *Run) unseen() string {
	if r.untold || r.size == 0 {
		return ""
	}
	ids := idset.Range(0, r.size-1).Sub(r.placed)
	if ids.Empty() {
		return ""
	}
	which := ids.Named("rank")
	if len(which) > 80 {
		which = fmt.Sprintf("%d of %d ranks", ids.Len(), r.size)
	}
	return which + ": on no host that was found and answered; look again in half a minute, or name all hosts by --host (ranks in the launcher's own process cannot be asked)"
}

// Hear takes a host's barriers, when all its ranks have been added.
func (r *Run) Hear(host string, report holdup.Report) {
	var own idset.Set
	for id, k := range r.ranks {
		if k.Host == host {
			own.Add(id)
		}
	}
	r.picture.Add(report, own)
}

// Record takes what a process of a host has called.
func (r *Run) Record(host string, rec collective.Record) {
	if r.records == nil {
		r.records, r.from = map[int]collective.Record{}, map[int]string{}
	}
	r.records[rec.Rank], r.from[rec.Rank] = rec, host
}

// most are ranks in a collective's line.
const most = 4

// Lines says who is waited for; nil: nobody, as far as it is known.
func (r *Run) Lines() (lines []string) {
	if unseen := r.unseen(); unseen != "" {
		lines = append(lines, unseen)
	}
	waiting, _ := r.picture.Waiting(holdup.Run{Running: r.running, Name: func(id int) string { return r.ranks[id].String() }, Names: r.names}, 0)
	lines = append(lines, waiting...)
	records := make([]collective.Record, 0, len(r.records))
	for _, rec := range r.records {
		records = append(records, rec)
	}
	slices.SortFunc(records, func(a, b collective.Record) int { return a.Rank - b.Rank })
	a, found := collective.Find(records)
	if !found {
		return lines
	}
	same := r.same()
	n := 0
	for rank := range a.Ranks.All() {
		if n++; n > most {
			lines = append(lines, fmt.Sprintf("and %d more ranks are absent from it", a.Ranks.Len()-most))
			break
		}
		name := fmt.Sprintf("torch's rank %d", rank)
		if k, runs := r.first(rank); same && runs {
			name = k.String()
		} else if host := r.from[rank]; host != "" {
			name += " on " + host
		}
		lines = append(lines, name+": "+a.Why(rank, func(ids idset.Set) string {
			if same {
				return ids.Named("rank")
			}
			return "torch's " + ids.Named("rank")
		}))
	}
	return lines
}

// first is a rank of the run's first job.
func (r *Run) first(rank int) (Rank, bool) {
	k, runs := r.ranks[rank] // whose ids begin with 0
	return k, runs && k.Number == 0
}

// same says that torch counts the ranks as the run does: each record came from the host of that rank.
func (r *Run) same() bool {
	for rank, host := range r.from {
		if k, runs := r.first(rank); !runs || k.Host != host {
			return false
		}
	}
	return true
}

// names are processes by their ranks, where they are of the first job; else how many there are.
func (r *Run) names(ids idset.Set) string {
	if ids.Len() == 1 {
		return r.ranks[ids.First()].name()
	}
	for id := range ids.All() {
		if _, first := r.first(id); !first {
			return fmt.Sprintf("%d ranks", ids.Len())
		}
	}
	return ids.Named("rank")
}
