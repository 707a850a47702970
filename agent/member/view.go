package member

import (
	"cmp"
	"iter"
	"slices"
)

// State is what the gossip knows of a member's life.
type State uint8

const (
	Alive   State = iota // answers
	Suspect              // has not answered for some seconds
	Left                 // said goodbye; listed for a minute
)

// String gives "alive", "suspect" or "left", as in the Peers reply.
func (s State) String() string {
	switch s {
	case Suspect:
		return "suspect"
	case Left:
		return "left"
	}
	return "alive"
}

// Member is one agent as the gossip shows it, by what the agent says itself.
type Member struct {
	Self
	State State
}

// View is a snapshot of the membership, ourselves included. It never changes; Members is
// sorted by name, then incarnation, then address, and must not be modified.
type View struct {
	Members []Member
}

// visible makes a view of what is known. Of several entries with one name:
//
//   - Two with one incarnation are two agent processes of one container, and two with one
//     address are two lives in one pod (only one can listen there). Both kinds ran on one
//     machine, so its clock tells which is the newer one, and that one stays.
//   - Others may be siblings (two workers of one hostNetwork node, pods with a fixed
//     hostname), which all stay, or a pod and what it was before it came back with a new
//     address. The check that a new entry causes (verify.go) tells them apart by asking: the
//     one that does not answer while another does is marked replaced.
//   - One that has left is not shown beside one that has not.
func visible(entries iter.Seq[*entry]) []Member {
	byName := map[string][]*entry{}
	for e := range entries {
		if !e.dropped && !e.replaced {
			byName[e.Name] = append(byName[e.Name], e)
		}
	}
	var out []Member
	for _, group := range byName {
		for _, e := range group {
			if !slices.ContainsFunc(group, func(o *entry) bool { return o.supersedes(e) }) {
				out = append(out, e.member())
			}
		}
	}
	slices.SortFunc(out, func(a, b Member) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Incarnation, b.Incarnation), a.Addr.Compare(b.Addr))
	})
	return out
}

// supersedes: e and o have one name, and e shows that o is no more.
func (e *entry) supersedes(o *entry) bool {
	switch {
	case e == o || e.left && !o.left:
		return false
	case o.left && !e.left:
		return true
	case e.Incarnation != o.Incarnation && e.Addr != o.Addr:
		return false
	}
	return e.born > o.born || e.born == o.born && e.id > o.id
}

func (e *entry) member() Member {
	m := Member{Self: e.Self}
	switch {
	case e.left:
		m.State = Left
	case e.suspect:
		m.State = Suspect
	}
	return m
}
