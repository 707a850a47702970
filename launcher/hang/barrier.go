package hang

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/launcher/witness"
)

// Words are how a run calls its ranks.
type Words struct {
	Running idset.Set                  // ids of the processes that run and may speak to mpiup
	Places  witness.Places             // of those that run
	Name    func(id int) string        // "rank 2 (w1, pid 4711)"
	Names   func(ids idset.Set) string // "ranks 0-1,3"
}

// Barriers is what one host tells of those that ranks enter through mpiup: of MPI_Init and MPI_Finalize, and of PMIx. How MPI calls wait for
// each other is between the ranks, and not to be seen.
//
//	host w0   0-1 entered "0-3"            ┐
//	host w1   3 entered "0-3", 2 did not,  ├─▶ rank 2 (w1, pid 4711) has not called MPI_Init;
//	          2 is silent                  ┘   ranks 0-1,3 have waited for it for 60s
type Barriers struct {
	Silent idset.Set // processes that run and have not called MPI_Init
	Open   []Barrier // with processes of the host in them
}

// Barrier is one that is open.
type Barrier struct {
	Name        string // tells it from others of the same processes
	Of, Entered idset.Set
	Age         time.Duration
}

// Picture is what the hosts have told so far. The zero value is empty.
type Picture struct {
	silent idset.Set
	open   []Barrier
	calls  map[int]string // of MPI, by who is in it; of others it does not show
}

const (
	maxBarriers = 64 // taken from all hosts together
	maxLines    = 3
	maxSubject  = 4 // ranks by name in one line
)

// Add takes what one host tells; own are the ids of its processes.
func (p *Picture) Add(h Barriers, own idset.Set) {
	p.silent = p.silent.Union(h.Silent.Intersect(own))
	for _, m := range h.Open {
		i := slices.IndexFunc(p.open, func(b Barrier) bool { return b.Name == m.Name })
		if i < 0 {
			if i = len(p.open); i == maxBarriers {
				return
			}
			p.open = append(p.open, Barrier{Name: m.Name, Of: m.Of})
		}
		b := &p.open[i]
		b.Entered = b.Entered.Union(m.Entered.Intersect(own).Intersect(b.Of))
		b.Age = max(b.Age, m.Age)
	}
}

// In notes in which calls of MPI processes are, by their own word.
func (p *Picture) In(calls map[int]string) {
	if p.calls == nil {
		p.calls = map[int]string{}
	}
	maps.Copy(p.calls, calls)
}

// See takes what stacks tell of the calls in which processes wait. news: it shows more of a barrier than before.
func (p *Picture) See(list []Stack) (news bool) {
	before := make([]string, len(p.open))
	for i, b := range p.open {
		before[i] = p.at(b)
	}
	for _, s := range list {
		if call, _ := s.Wait(); strings.HasPrefix(call, "MPI_") {
			p.In(map[int]string{s.ID: call})
		}
	}
	for i, b := range p.open {
		news = news || p.at(b) != before[i]
	}
	return news
}

// at is the call of MPI whose barrier it is, by where those wait that are in it; "": it does not show.
func (p *Picture) at(b Barrier) (call string) {
	for id, in := range p.calls {
		switch {
		case !b.Entered.Contains(id) || in == call:
		case call != "":
			return ""
		default:
			call = in
		}
	}
	return call
}

// what is what the missing of a barrier have not done, all of which have called MPI_Init.
func (p *Picture) what(b Barrier, missing idset.Set) string {
	call := p.at(b)
	within := strings.HasPrefix(call, "MPI_Init")
	for id := range missing.All() {
		within = within || p.calls[id] == call
	}
	switch {
	case call == "":
		return "entered the barrier"
	case within:
		return "entered " + call + "'s barrier"
	}
	return "come to " + call
}

// elsewhere is where processes are, where all that show are in one call of MPI.
func (p *Picture) elsewhere(ids idset.Set) string {
	at := ""
	for id := range ids.All() {
		switch call := p.calls[id]; {
		case call == "":
		case at != "" && at != call:
			return "elsewhere"
		default:
			at = call
		}
	}
	if at == "" {
		return "elsewhere"
	}
	return "in " + at
}

// Waiting is a line for each barrier that has been open for at least age and in which one is missing. Where those that are in it may not say whom
// they wait for, they may have left the others, as one that skips a collective goes to MPI_Finalize: then it is told of them, and nobody is late.
func (p *Picture) Waiting(r Words, age time.Duration) (lines []string) {
	more := 0
	for _, b := range p.open {
		missing := b.missing(r.Running, age)
		if missing.Empty() {
			continue
		}
		if len(lines) == maxLines {
			more++
			continue
		}
		lines = append(lines, p.waiting(r, b, missing))
	}
	if more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more barriers are open", more))
	}
	return lines
}

// waiting is the line of one.
func (p *Picture) waiting(r Words, b Barrier, missing idset.Set) string {
	mute := missing.Intersect(p.silent)
	there := fmt.Sprintf("%s waited in %s%s; ", r.subject(b.Entered), cmp.Or(p.at(b), "a barrier"), since(b.Age))
	switch {
	case mute.Len() > b.Entered.Len():
		return there + r.Names(mute) + " " + have(mute) + " not called MPI_Init"
	case !mute.Empty():
		return fmt.Sprintf("%s not called MPI_Init; %s for %s%s", r.subject(mute), wait(b.Entered, r), object(mute), since(b.Age))
	}
	late := b.late(r.Places, missing)
	what := p.what(b, missing)
	switch {
	case late.Empty() && strings.HasSuffix(what, "'s barrier"):
		return there + fmt.Sprintf("%s %s not entered its barrier", r.Names(missing), have(missing))
	case late.Empty():
		are := map[bool]string{true: "is", false: "are"}[missing.Len() == 1]
		return there + fmt.Sprintf("%s %s not there, and may wait for %s %s", r.Names(missing), are, object(b.Entered), p.elsewhere(missing))
	}
	return fmt.Sprintf("%s not %s; %s for %s%s", r.subject(late), p.what(b, late), wait(b.Entered, r), object(late), since(b.Age))
}

// Tell is what is said where b is to blame: what is known already, else who waits in exchanges, else b; and what ranks say that names nobody.
func (p *Picture) Tell(b Blame, known []string, w Words, n Names) []string {
	if len(known) == 0 {
		known = p.Waiting(w, 0)
	}
	if len(known) == 0 && len(b.Odd)+len(b.Doubts) > 0 {
		return b.Lines(n)
	}
	for _, d := range b.Doubts {
		known = append(known, string(d))
	}
	return known
}

// missing are those that run and that others have waited for in a barrier, for an age.
func (b Barrier) missing(running idset.Set, age time.Duration) idset.Set {
	if b.Age < age || b.Entered.Empty() {
		return idset.Set{}
	}
	return b.Of.Intersect(running).Sub(b.Entered)
}

// missing are the ranks that run and that may be said to hold others up, for an age: those that have not called MPI_Init, as their own hosts see,
// where no more lack than have come, and those that have. Of a barrier that lacks some of the former nobody else is named: a rank inside MPI_Init
// may wait there for one of its own host. call is that of MPI in which others wait for the latter; "": it does not show, or there are several.
func (p *Picture) missing(places witness.Places, running idset.Set, age time.Duration) (silent, late idset.Set, call string) {
	several := false
	for _, b := range p.open {
		missing := b.missing(running, age)
		if mute := missing.Intersect(p.silent); !mute.Empty() {
			if mute.Len() <= b.Entered.Len() {
				silent = silent.Union(mute)
			}
			continue
		}
		named := b.late(places, missing)
		if named.Empty() {
			continue
		}
		late = late.Union(named)
		at := p.at(b)
		several = several || at == "" || call != "" && call != at
		call = at
	}
	if several {
		call = ""
	}
	return silent, late, call
}

// late are those of a barrier's missing who may be accused. A rank enters what barriers it likes, of whom it likes, and waits there: only in one of
// all ranks of its job is it known to wait for all, and fewer than half of these are late. Half may have left the others, for MPI_Finalize after an error.
func (b Barrier) late(places witness.Places, missing idset.Set) idset.Set {
	if missing.Len() >= b.Entered.Len() {
		return idset.Set{}
	}
	places = places.Around(b.Of)
	claim := witness.Claim{About: missing, By: b.Entered}
	if b.Of.Covers(places.All) {
		claim.Seen, claim.Likely = places.Beside(missing, b.Entered), missing
	}
	return places.Accused(claim)
}

// Silent are those that run and have not called MPI_Init.
func (p *Picture) Silent(running idset.Set) idset.Set { return p.silent.Intersect(running) }

// All tells of every barrier, as Waiting does. Where no rank waits in one it tells who has not called MPI_Init, and blames nobody. mpi
// says that the programs are MPI's, as far as it is known.
func (p *Picture) All(r Words, mpi bool) (lines []string) {
	lines = p.Waiting(r, 0)
	silent := p.Silent(r.Running)
	switch {
	case len(lines) > 0 || r.Running.Empty():
		return lines
	case silent.Equal(r.Running) && mpi:
		return []string{"no rank has called MPI_Init: all are in the program's own code"}
	case silent.Equal(r.Running):
		return nil
	case !silent.Empty():
		return []string{r.subject(silent) + " not called MPI_Init; all others have"}
	}
	return []string{"all ranks are between MPI_Init and MPI_Finalize: in the program's own code, or in other calls of MPI"}
}

// Absent is a line for ranks that others wait for at a place: of those who are missing, or where these are more, of those who have come.
func (r Words) Absent(missing, there idset.Set, place string, age time.Duration) string {
	if missing.Len() > there.Len() {
		return fmt.Sprintf("%s%s; %d others have not come to %s", wait(there, r), since(age), missing.Len(), place)
	}
	return fmt.Sprintf("%s not come to %s; %s for %s%s", r.subject(missing), place, wait(there, r), object(missing), since(age))
}

// subject is ranks by name, or where that is not bearable as a set, with "has" or "have".
func (r Words) subject(ids idset.Set) string {
	if ids.Len() > maxSubject {
		return r.Names(ids) + " have"
	}
	var names []string
	for id := range ids.All() {
		names = append(names, r.Name(id))
	}
	if len(names) == 1 {
		return names[0] + " has"
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1] + " have"
}

func wait(ids idset.Set, r Words) string {
	name := r.Names(ids)
	const most = 60
	if len(name) > most {
		name = fmt.Sprintf("%d ranks", ids.Len())
	}
	if ids.Len() == 1 {
		return name + " has waited"
	}
	return name + " have waited"
}

func have(ids idset.Set) string {
	if ids.Len() == 1 {
		return "has"
	}
	return "have"
}

func object(ids idset.Set) string {
	if ids.Len() == 1 {
		return "it"
	}
	return "them"
}

// since is how long; barriers are looked at now and then, so little says nothing.
func since(age time.Duration) string {
	if age < time.Second {
		return ""
	}
	return fmt.Sprintf(" for %v", age)
}
