package hang

import (
	"fmt"
	"time"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/launcher/witness"
)

// Facts are what hosts have told of a run that does not go on. A stall, --init-timeout, --timeout and Ctrl-C ask them the same question.
type Facts struct {
	Running    idset.Set
	Places     witness.Places // of those that run
	Barriers   *Picture       // what hosts have answered; nil: nobody was asked
	Mute       bool           // ranks are offered neither PMI nor PMIx: barriers are nobody's
	Records    *Records       // of flight recorders; nil: there are none
	Unmet, Met idset.Set      // who has not come to where a framework's other ranks are, and those
	Watch      *Watch         // nil: what ranks do does not count
	Stacks     []Stack        // where ranks are, as far as their hosts have looked
	Now        time.Duration
	Quiet      time.Duration // what ranks do counts once none has worked for so long
}

// Brief is how long no rank may have worked, at --timeout and on Ctrl-C, for what each does to tell who is waited for.
const Brief = 10 * time.Second

// Blame is who others wait for, as far as it is known. The zero value names nobody.
type Blame struct {
	Odd    []Odd
	Sure   bool    // ranks wait for them in an exchange, or a collective; else it follows from what they do
	Few    []Does  // of one rank or two that idle, and of which neither is named
	Doubts []Doubt // what ranks say of themselves, and names nobody
}

// Does is what a rank does.
type Does struct {
	ID   int
	What string // "waits in futex"
}

// Odd are ranks that do, or have not done, something else than the others.
type Odd struct {
	IDs  idset.Set // of the run; empty: ranks that torch alone counts
	Who  string    // "torch's rank 2 on w1", where IDs are empty
	Why  string    // of one: "it waits in futex while others use CPU"
	Many string    // of several: "they wait in futex while others use CPU"
}

// Blame is the first that the facts tell: who is absent from a collective by the ranks' own records, who has not come to where others
// wait in MPI_Init or another exchange, who does something else than the others.
func (f Facts) Blame() Blame {
	var doubts []Doubt
	if f.Records != nil {
		away, said := f.Records.Away(f.Places, f.seen)
		if doubts = said; len(away) > 0 {
			return blameAway(away, doubts)
		}
	}
	b := f.unrecorded()
	b.Doubts = doubts
	return b
}

// blameAway names those who are absent from a collective.
func blameAway(away []Away, doubts []Doubt) Blame {
	b := Blame{Sure: true, Doubts: doubts}
	if ids, own := ownOf(away); len(away) > maxSubject && own { // as a set
		b.Odd = []Odd{{IDs: ids, Many: fmt.Sprintf("they are absent from a collective; of rank %d: %s", away[0].Rank, away[0].Why)}}
		return b
	}
	for _, a := range away {
		o := Odd{Who: a.Name(), Why: a.Why}
		if a.Own {
			o.IDs = idset.Of(a.Rank)
		}
		b.Odd = append(b.Odd, o)
	}
	return b
}

// unrecorded is the blame by what hosts see themselves.
func (f Facts) unrecorded() Blame {
	if f.Barriers != nil && !f.Mute {
		if odd := f.Barriers.odd(f, 0); len(odd) > 0 {
			return Blame{Odd: odd, Sure: true}
		}
	}
	unmet := f.Places.Accused(witness.Claim{About: f.Unmet, By: f.Met, Seen: f.Places.Beside(f.Unmet, f.Met)})
	if 2*f.Unmet.Len() <= f.Running.Len() && !unmet.Empty() {
		return Blame{
			Odd:  []Odd{{IDs: unmet, Why: "it has not come to where others wait for it", Many: "they have not come to where others wait for them"}},
			Sure: true,
		}
	}
	if f.Watch == nil || f.Quiet == 0 {
		return Blame{}
	}
	s, quiet := f.Watch.Look(f.Now, f.Quiet, f.Running)
	if !quiet {
		return Blame{}
	}
	b := Blame{Odd: oddOf(f.Places, f.Watch.odd(s), f.Running)}
	if few := s.Idle.Len() <= 2 && s.Busy.Empty(); len(b.Odd) == 0 && few && !s.Asleep {
		for id := range s.Idle.All() {
			does := Does{id, "idles"}
			if where := f.Watch.ranks[id].where; where != "" {
				does.What = "waits in " + where
			}
			b.Few = append(b.Few, does)
		}
	}
	return b
}

// seen are those of some ranks that are outside of calls that wait while others of their own hosts wait in some, as their hosts' looks show: at
// stacks, else at what ranks that do not work do. They are half of the ranks at most.
func (f Facts) seen(about, by idset.Set) idset.Set {
	if 2*about.Len() > f.Running.Len() {
		return idset.Set{}
	}
	waiting, outside := Waiting(f.Stacks).Intersect(by), elsewhere(f.Stacks).Intersect(about)
	seen := f.Places.Beside(outside, waiting)
	if f.Watch == nil || f.Quiet == 0 {
		return seen
	}
	s, quiet := f.Watch.Look(f.Now, f.Quiet, f.Running)
	if !quiet {
		return seen
	}
	for _, o := range f.Watch.odd(s) {
		seen = seen.Union(f.Places.Beside(o.IDs.Intersect(about), by))
	}
	return seen
}

// oddOf are those of odd ones out who may be accused by what hosts see of all that run: each by its own host, where that has others, or by most.
func oddOf(p witness.Places, list []Odd, running idset.Set) (odd []Odd) {
	var all idset.Set
	for _, o := range list {
		all = all.Union(o.IDs)
	}
	others := running.Sub(all)
	claim := witness.Claim{About: all, By: others, Seen: p.Beside(all, others), Likely: all}
	named := p.Accused(claim)
	for _, o := range list {
		if o.IDs = o.IDs.Intersect(named); !o.IDs.Empty() {
			odd = append(odd, o)
		}
	}
	return odd
}

// ownOf are ranks that are absent; all: the job counts them as torch does.
func ownOf(away []Away) (ids idset.Set, all bool) {
	all = true
	for _, a := range away {
		all = all && a.Own
		ids.Add(a.Rank)
	}
	return ids, all
}

// InInit is who has not called MPI_Init, where others have waited for that for an age.
func (f Facts) InInit(age time.Duration) Blame {
	odd := f.Barriers.odd(f, age)
	if f.Mute || len(odd) == 0 || odd[0].Many != silentMany {
		return Blame{}
	}
	return Blame{Odd: odd[:1], Sure: true}
}

const silentMany = "they have not called MPI_Init, and others wait for them there"

// odd are ranks that others have waited for, for an age: those that have not called MPI_Init, then those that have.
func (p *Picture) odd(f Facts, age time.Duration) (list []Odd) {
	silent, late, call := p.missing(f.Places, f.Running, age)
	if !silent.Empty() {
		list = append(list, Odd{IDs: silent, Why: "it has not called MPI_Init, and others wait for it there", Many: silentMany})
	}
	if !late.Empty() {
		where := " in a fence (MPI_Init, MPI_Finalize or another exchange)"
		if call != "" {
			where = " in " + call
		}
		list = append(list, Odd{IDs: late, Why: "others wait for it" + where, Many: "others wait for them" + where})
	}
	return list
}

// IDs are all that are named, of the run.
func (b Blame) IDs() (ids idset.Set) {
	for _, o := range b.Odd {
		ids = ids.Union(o.IDs)
	}
	return ids
}

// Seen is the blame that stacks do not belie: who waits in a call for others holds nobody up, unless those say so themselves.
func (b Blame) Seen(list []Stack) Blame {
	if !b.Sure && b.IDs().Overlaps(Waiting(list)) {
		return Blame{}
	}
	return b
}

// Lines name all of them, or say that nobody can be named.
func (b Blame) Lines(n Names) (lines []string) {
	for _, o := range b.Odd {
		switch o.IDs.Len() {
		case 0:
			lines = append(lines, o.Who+" is the odd one out: "+o.Why)
		case 1:
			lines = append(lines, n.Rank(o.IDs.First())+" is the odd one out: "+o.Why)
		default:
			lines = append(lines, n.Ranks(o.IDs)+" are the odd ones out: "+o.Many)
		}
	}
	switch len(b.Few) {
	case 1:
		lines = append(lines, n.Rank(b.Few[0].ID)+" "+b.Few[0].What)
	case 2:
		one, other := b.Few[0], b.Few[1]
		lines = append(lines, fmt.Sprintf("%s %s, %s %s: which waits for the other does not show", n.Rank(one.ID), one.What, n.Rank(other.ID), other.What))
	}
	for _, d := range b.Doubts {
		lines = append(lines, string(d))
	}
	if len(lines) == 0 {
		lines = append(lines, "no rank is the odd one out by what it does")
	}
	return lines
}
