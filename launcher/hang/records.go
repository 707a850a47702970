package hang

import (
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/mpiup/mpiup/internal/frameworks"
	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/launcher/witness"
)

// Records are what the flight recorders of a run's first job have, as hosts tell it. The zero value has none.
type Records struct {
	of   map[int]Record // by torch's rank
	from map[int]string // the host of each
	held map[string]int // bytes of each host's
}

// MaxHeld bounds what is kept of one host, in bytes.
const MaxHeld = 8 << 20

// Add takes what one process of a host has; a later one of a rank replaces an earlier one. The word of owner, the host of the job's rank of
// that number ("": there is none), is not replaced by another's: torch may count as the job does. An error is a host that tells too much.
func (r *Records) Add(host, owner string, rec Record) error {
	if r.of == nil {
		r.of, r.from, r.held = map[int]Record{}, map[int]string{}, map[string]int{}
	}
	at, known := r.from[rec.Rank]
	if known && at != host && at == owner {
		return nil
	}
	cost := rec.Bytes()
	if known && at == host {
		cost -= r.of[rec.Rank].Bytes()
	}
	if r.held[host]+cost > MaxHeld {
		return fmt.Errorf("told more than %d bytes of flight recorders", MaxHeld)
	}
	if known && at != host {
		r.held[at] -= r.of[rec.Rank].Bytes()
	}
	r.held[host] += cost
	r.of[rec.Rank], r.from[rec.Rank] = rec, host
	return nil
}

// Any says that there are some.
func (r *Records) Any() bool { return len(r.of) > 0 }

// All are the records, each with its host.
func (r *Records) All() iter.Seq2[string, frameworks.Flight] {
	return func(yield func(string, frameworks.Flight) bool) {
		for rank, rec := range r.of {
			if !yield(r.from[rank], rec) {
				return
			}
		}
	}
}

// Away is a rank that is absent from a collective in which others wait.
type Away struct {
	Rank int    // of the job where Own, else torch's
	Own  bool   // the job counts its ranks as torch does
	Host string // "": unknown
	Why  string // of the first few
}

// Name is the rank as torch counts it.
func (a Away) Name() string {
	name := fmt.Sprintf("torch's rank %d", a.Rank)
	if a.Host != "" {
		name += " on " + a.Host
	}
	return name
}

// Away are those of the first job who may be accused, and what is said beside. places are the job's ranks and hosts. Torch counts the ranks as
// the job does where each record came from the host of that rank; under torchrun it does not. seen says whom of some their own hosts saw
// elsewhere while they saw others wait; nil: nobody looked.
func (r *Records) Away(places witness.Places, seen func(about, by idset.Set) idset.Set) (list []Away, doubts []Doubt) {
	records := slices.SortedFunc(maps.Values(r.of), func(a, b Record) int { return a.Rank - b.Rank })
	absences, disputes := Find(records)
	if len(absences)+len(disputes) == 0 {
		return nil, nil
	}

	same := true
	for rank, host := range r.from {
		same = same && places.All.Contains(rank) && places.Host(rank) == host
	}
	if !same {
		places, seen = r.places(places), nil
	}
	for _, d := range disputes[:min(len(disputes), maxDisputes)] {
		doubts = append(doubts, d.doubt(same))
	}

	for i, a := range absences {
		claim := witness.Claim{About: a.Ranks, By: a.By, Shared: true}
		if seen != nil {
			claim.Seen = seen(a.Ranks, a.By)
		}
		if named := places.Accused(claim); !named.Empty() {
			a.Ranks = named
			return r.told(a, places, same), doubts
		}
		if i == 0 {
			doubts = append(doubts, a.doubt(same))
		}
	}
	return nil, doubts
}

// maxDisputes are told of.
const maxDisputes = 2

// places are torch's ranks by the hosts whose records they are, where torch counts otherwise than the job, whose hosts count too.
func (r *Records) places(of witness.Places) witness.Places {
	hosts := map[string]bool{}
	for id := range of.All.All() {
		hosts[of.Host(id)] = true
	}
	var all idset.Set
	for rank := range r.from {
		all.Add(rank)
	}
	return witness.Places{All: all, Host: func(rank int) string { return r.from[rank] }, Hosts: len(hosts)}
}

// told are the absent of one collective.
func (r *Records) told(a Absence, places witness.Places, same bool) (list []Away) {
	const told = 8
	for rank := range a.Ranks.All() {
		e := Away{Rank: rank, Host: r.from[rank]}
		if len(list) < told {
			e.Why = a.Why(rank, ranksOfTorch(same))
		}
		if same && places.All.Contains(rank) {
			e.Own, e.Host = true, places.Host(rank)
		}
		list = append(list, e)
	}
	return list
}

// ranksOfTorch names ranks as torch counts them; same: the job counts them so too.
func ranksOfTorch(same bool) func(ids idset.Set) string {
	const mostText = 200
	return func(ids idset.Set) string {
		name := ids.Named("rank")
		if len(name) > mostText {
			name = fmt.Sprintf("%d ranks", ids.Len())
		}
		if same {
			return name
		}
		return "torch's " + name
	}
}
