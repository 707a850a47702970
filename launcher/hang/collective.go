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
// another size, are. One that left no record at all is absent only where everybody else of the group waits. A rank may be
// absent from one group's since it waits in another's: then the other group's absence is the reason, and is told.
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
	Op             Op     // in which the others wait
	Group          string // its name and what it is for
	why            why
	last           map[int]Op // of each of Ranks: its own last one, or what it called in the place of Op
}

type why uint8

const (
	behind why = iota // they have not called it
	other             // they have called another operation in its place
	mute              // they left no record
)

// Find is the absence that explains the others. false: nobody waits, or nobody is absent.
func Find(records []Record) (a Absence, found bool) {
	groups := map[string]map[int]Group{}
	waits := map[int]int{} // groups in which a rank waits
	for _, r := range records {
		for _, g := range r.Groups {
			if groups[g.Name] == nil {
				groups[g.Name] = map[int]Group{}
			}
			groups[g.Name][r.Rank] = g
			if _, open := firstOpen(g); open {
				waits[r.Rank]++
			}
		}
	}
	var list []Absence
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		if a, ok := absent(groups[name]); ok {
			list = append(list, a)
		}
	}
	if len(list) == 0 {
		return Absence{}, false
	}
	victims := func(a *Absence) int { // 1: all of its ranks wait in another group; else those that do are no reason
		var own idset.Set
		for id := range a.Ranks.All() {
			if a.why != behind || waits[id] == 0 {
				own.Add(id)
			}
		}
		if own.Empty() {
			return 1
		}
		a.Ranks = own
		return 0
	}
	score := make(map[string]int, len(list))
	for i := range list {
		score[list[i].Group] = victims(&list[i])
	}
	return slices.MinFunc(list, func(a, b Absence) int {
		return cmp.Or(cmp.Compare(score[a.Group], score[b.Group]), cmp.Compare(a.why, b.why), -cmp.Compare(a.Waiting.Len(), b.Waiting.Len()))
	}), true
}

// absent is who is absent from one group's operation.
func absent(of map[int]Group) (a Absence, found bool) {
	ranks := slices.Sorted(maps.Keys(of))
	for _, r := range ranks {
		if o, open := firstOpen(of[r]); open && o.Seq > a.Op.Seq {
			a.Op, found = o, true
		}
	}
	if !found {
		return a, false
	}
	var members idset.Set
	a.last = map[int]Op{}
	for _, r := range ranks {
		g := of[r]
		members = members.Union(g.Ranks)
		a.Group = describe(g, a.Group)
		switch o, open := firstOpen(g); {
		case g.Last < a.Op.Seq:
			a.Ranks.Add(r)
			if len(g.Ops) > 0 {
				a.last[r] = g.Ops[len(g.Ops)-1]
			}
		case open && o.Seq == a.Op.Seq:
			a.Waiting.Add(r)
		}
	}
	if !a.Ranks.Empty() {
		return a, true
	}
	if a.odd(of, ranks) {
		return a, true
	}
	a.why = mute
	for id := range members.All() {
		if _, left := of[id]; !left {
			a.Ranks.Add(id)
		}
	}
	return a, !a.Ranks.Empty() && a.Waiting.Len() == len(ranks)
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
