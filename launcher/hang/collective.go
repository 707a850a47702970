package hang

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mpiup/mpiup/internal/frameworks"
	"github.com/mpiup/mpiup/internal/idset"
)

// Record is what a process's flight recorder has.
//
// A group's ranks call its collectives in one order, so each has a number. Ranks wait in number N of a group when it has not
// ended. One whose last call has a lower number is absent from it. Where all have called it, those that called another operation, or with
// another size, are. One that left no record at all is absent only where everybody else of the group waits, and all agree on who is of it.
// A rank that waits itself, in whatever group, is absent from none. A process may write what it likes into its record, and into those of all
// processes of its user on its host: who is absent is a claim (launcher/witness).
type (
	Record = frameworks.Flight
	Group  = frameworks.FlightGroup
	Op     = frameworks.FlightOp
)

// firstOpen is the first operation that has not ended.
func firstOpen(g Group) (Op, bool) {
	for _, o := range g.Ops {
		if !o.Done {
			return o, true
		}
	}
	return Op{}, false
}

// Absence is ranks that are not where others wait for them.
type Absence struct {
	Ranks, Waiting idset.Set
	By             idset.Set // who waits in a collective, of whatever group, as far as records say
	Op             Op        // in which the others wait
	Group          string    // its name and what it is for
	why            why
	last           map[int]Op // of each of Ranks: its own last one, or what it called in the place of Op
}

type why uint8

const (
	behind why = iota // they have not called it
	other             // they have called another operation in its place
	mute              // they left no record
)

// A Dispute is between records that cannot both be true: of one group's calls, some say that a later one has begun than others say has ended.
type Dispute struct {
	Ahead, Behind     idset.Set
	AheadOp, BehindOp Op
	Group             string
}

// Find is each absence that may explain why the others wait, the likeliest first, and what records contradict. Who waits itself is absent from
// nothing, and of who left a record nobody says that it left none.
func Find(records []Record) (list []Absence, disputes []Dispute) {
	groups := map[string]map[int]Group{}
	var left, waits idset.Set // who left a record, and who waits in some group
	for _, r := range records {
		left.Add(r.Rank)
		for _, g := range r.Groups {
			if groups[g.Name] == nil {
				groups[g.Name] = map[int]Group{}
			}
			groups[g.Name][r.Rank] = g
			if _, open := firstOpen(g); open {
				waits.Add(r.Rank)
			}
		}
	}

	for _, name := range slices.Sorted(maps.Keys(groups)) {
		a, d := absent(groups[name], left)
		if !d.Ahead.Empty() {
			disputes = append(disputes, d)
		}
		if a.why != other {
			a.Ranks = a.Ranks.Sub(waits)
		}
		if !a.Ranks.Empty() {
			a.By = waits.Sub(a.Ranks)
			list = append(list, a)
		}
	}
	slices.SortStableFunc(list, func(a, b Absence) int {
		return cmp.Or(cmp.Compare(a.why, b.why), -cmp.Compare(a.Waiting.Len(), b.Waiting.Len()))
	})
	return list, disputes
}

// absent is who is absent from the first operation of one group that has not ended everywhere. Who waits in a later one has it behind itself:
// that cannot be where all that have called it still wait.
func absent(of map[int]Group, left idset.Set) (a Absence, d Dispute) {
	ranks := slices.Sorted(maps.Keys(of))
	found := false
	for _, r := range ranks {
		if o, open := firstOpen(of[r]); open && (!found || o.Seq < a.Op.Seq) {
			a.Op, found = o, true
		}
	}
	if !found {
		return a, d
	}

	a.last = map[int]Op{}
	members, agreed := of[ranks[0]].Ranks, true
	for _, r := range ranks {
		g := of[r]
		agreed = agreed && g.Ranks.Equal(members)
		a.Group = describe(g, a.Group)
		switch o, open := firstOpen(g); {
		case open && o.Seq == a.Op.Seq:
			a.Waiting.Add(r)
		case open:
			d.Ahead.Add(r)
			d.AheadOp = o
		case g.Last < a.Op.Seq:
			a.Ranks.Add(r)
			if len(g.Ops) > 0 {
				a.last[r] = g.Ops[len(g.Ops)-1]
			}
		}
	}
	d.Behind, d.BehindOp, d.Group = a.Waiting, a.Op, a.Group
	if !a.Ranks.Empty() || a.odd(of, ranks) {
		return a, d
	}

	a.why = mute
	if agreed && a.Waiting.Len() == len(ranks) {
		a.Ranks = members.Sub(left)
	}
	return a, d
}

// describe is a group's name, with what it is for where a record says it.
func describe(g Group, known string) string {
	if known != "" && g.What == "" {
		return known
	}
	if g.What == "" {
		return g.Name
	}
	return g.What + " (" + g.Name + ")"
}

// sameSize are operations whose ranks all give as much.
var sameSize = []string{"all_reduce", "broadcast", "reduce", "_all_gather_base", "all_gather_into_tensor", "_reduce_scatter_base", "reduce_scatter_tensor"}

// odd finds those that called something else as the operation's number: fewer than half of all.
func (a *Absence) odd(of map[int]Group, ranks []int) bool {
	called := map[int]Op{}
	count := map[string]int{}
	for _, r := range ranks {
		for _, o := range of[r].Ops {
			if o.Seq == a.Op.Seq {
				called[r] = o
				count[a.kind(o)]++
			}
		}
	}
	most := slices.SortedFunc(maps.Keys(count), func(x, y string) int { return cmp.Or(count[y]-count[x], cmp.Compare(x, y)) })
	if len(most) < 2 || count[most[0]] == count[most[1]] {
		return false
	}
	a.why, a.Waiting = other, idset.Set{}
	for r, o := range called {
		if a.kind(o) == most[0] {
			a.Waiting.Add(r)
			a.Op = o
		} else {
			a.Ranks.Add(r)
			a.last[r] = o
		}
	}
	return true
}

// kind is what all ranks must call alike.
func (a *Absence) kind(o Op) string {
	_, name, _ := strings.Cut(o.Name, ":")
	if slices.Contains(sameSize, name) {
		return o.Name + " of " + o.Shape
	}
	return o.Name
}

// Why says of one of Ranks what it has not done; ranks names several.
func (a Absence) Why(rank int, ranks func(idset.Set) string) string {
	what := fmt.Sprintf("%s number %d of group %s", a.Op.Name, a.Op.Seq, a.Group)
	at := ""
	if a.Op.Where != "" {
		at = " at " + a.Op.Where
	}
	last, known := a.last[rank]
	switch {
	case a.why == mute:
		return fmt.Sprintf("it left no record of its collectives, and %s wait%s in %s", ranks(a.Waiting), at, what)
	case a.why == other:
		return fmt.Sprintf("it called %s of %s as number %d of group %s, and %s "+
			"%s of %s%s", last.Name, last.Shape, a.Op.Seq, a.Group, ranks(a.Waiting), a.Op.Name, a.Op.Shape, at)
	case !known:
		return fmt.Sprintf("it has not called %s, in which %s wait%s", what, ranks(a.Waiting), at)
	}
	ended := "it has called"
	if last.Done {
		ended = "it has finished"
	}
	if last.Where != "" {
		last.Name += " at " + last.Where
	}
	return fmt.Sprintf("it has not called %s, in which %s wait%s; %s number %d there, %s", what, ranks(a.Waiting), at, ended, last.Seq, last.Name)
}
