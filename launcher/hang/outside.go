package hang

import (
	"fmt"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/launcher/witness"
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

// Run is what hosts tell of one to who is not its launcher: mpiup ps and mpiup stacks. Ranks that are on no host which answered are
// named first. What hosts tell is of one moment each, so that a barrier counts only where its host has seen it open twice. The zero value
// has no ranks.
type Run struct {
	ranks   map[int]Rank
	picture Picture
	running idset.Set
	untold  bool      // a host has not told which of its ranks there are
	size    int       // ranks of the first job; 0: no host has told
	placed  idset.Set // those of hosts that answered
	records Records
	stacks  []Stack
	of      int // ranks of the first job, whichever hosts were asked; 0: no host has told
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

// Size takes how many ranks the first job has, where only some hosts were asked.
func (r *Run) Size(size int) { r.of = max(r.of, size) }

// In notes that a rank is in a call of MPI, by its own word.
func (r *Run) In(id int, call string) { r.picture.In(map[int]string{id: call}) }

// Look takes where a rank is that has been added.
func (r *Run) Look(w Whereabouts) {
	if k, runs := r.first(int(w.Rank)); runs && w.Number == 0 && k.Host == w.Host {
		r.stacks = append(r.stacks, Stack{k.ID, w})
	}
}

// outside says who is elsewhere while all others wait, as one look at where all ranks are shows.
func (r *Run) outside() (lines []string) {
	if len(r.stacks) != r.of || r.running.Len() != r.of {
		return nil
	}
	o := ByStacks(r.stacks, r.places())
	names := Names{Ranks: r.names, Rank: func(id int) string {
		k := r.ranks[id]
		return fmt.Sprintf("%s on %s (pid %d)", k.name(), k.Host, k.PID)
	}}
	if b := o.Blame(o); len(b.Odd) > 0 {
		for _, l := range b.Lines(names) {
			lines = append(lines, l+", as one look shows")
		}
	}
	return lines
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
	return which + ": on no host that was found and answered; look again in half a minute, or name all hosts by --host " +
		"(ranks in the launcher's own process cannot be asked)"
}

// Hear takes a host's barriers, when all its ranks have been added.
func (r *Run) Hear(host string, report Barriers) {
	var own idset.Set
	for id, k := range r.ranks {
		if k.Host == host {
			own.Add(id)
		}
	}
	r.picture.Add(report, own)
}

// Record takes what a process of a host has called, when all ranks have been added.
func (r *Run) Record(host string, rec Record) error {
	k, _ := r.first(rec.Rank)
	return r.records.Add(host, k.Host, rec)
}

// places are the ranks that run, with their hosts.
func (r *Run) places() witness.Places {
	return witness.Places{All: r.running, Host: func(id int) string { return r.ranks[id].Host }}
}

// firsts are those of the run's first job.
func (r *Run) firsts() witness.Places {
	p := r.places()
	p.All = idset.Set{}
	for id, k := range r.ranks {
		if k.Number == 0 {
			p.All.Add(id)
		}
	}
	return p
}

// most are ranks in a collective's line.
const most = 4

// Lines says who is waited for; nil: nobody, as far as it is known.
func (r *Run) Lines() (lines []string) {
	if unseen := r.unseen(); unseen != "" {
		lines = append(lines, unseen)
	}
	r.picture.See(r.stacks)
	words := Words{Running: r.running, Places: r.places(), Name: func(id int) string { return r.ranks[id].String() }, Names: r.names}
	lines = append(lines, r.picture.Waiting(words, 0)...)
	facts := Facts{Running: r.running, Places: r.places(), Stacks: r.stacks}
	away, doubts := r.records.Away(r.firsts(), facts.seen)
	for n, a := range away {
		if n == most {
			lines = append(lines, fmt.Sprintf("and %d more ranks are absent from it", len(away)-most))
			break
		}
		name := a.Name()
		if k, _ := r.first(a.Rank); a.Own {
			name = k.String()
		}
		lines = append(lines, name+": "+a.Why)
	}
	for _, d := range doubts {
		lines = append(lines, string(d))
	}
	if len(lines) == 0 {
		lines = r.outside()
	}
	return lines
}

// first is a rank of the run's first job.
func (r *Run) first(rank int) (Rank, bool) {
	k, runs := r.ranks[rank] // whose ids begin with 0
	if !runs || k.Number != 0 {
		return Rank{}, false
	}
	return k, true
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
