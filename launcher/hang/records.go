package hang

import (
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/mpiup/mpiup/internal/frameworks"
	"github.com/mpiup/mpiup/internal/idset"
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

// Away are those of the first job. hostOf is a rank's host there, "" where there is no such rank. Torch counts the ranks as
// the job does where each record came from the host of that rank; under torchrun it does not.
func (r *Records) Away(hostOf func(rank int) string) (list []Away) {
	records := slices.SortedFunc(maps.Values(r.of), func(a, b Record) int { return a.Rank - b.Rank })
	a, found := Find(records)
	if !found {
		return nil
	}
	same := true
	for rank, host := range r.from {
		same = same && hostOf(rank) == host
	}
	const mostText, told = 200, 8
	ranks := func(ids idset.Set) string {
		name := ids.Named("rank")
		if len(name) > mostText {
			name = fmt.Sprintf("%d ranks", ids.Len())
		}
		if same {
			return name
		}
		return "torch's " + name
	}
	for rank := range a.Ranks.All() {
		e := Away{Rank: rank, Host: r.from[rank]}
		if len(list) < told {
			e.Why = a.Why(rank, ranks)
		}
		if own := hostOf(rank); same && own != "" {
			e.Own, e.Host = true, own
		}
		list = append(list, e)
	}
	return list
}
