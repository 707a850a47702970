package modex

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/pmi/pmix/bfrops"
)

// Groups are PMIx's (MPI makes its sessions' communicators of them): their context ids, what their members
// tell each other, and which are there.
//
//	GROUP_CONSTRUCT ──ContextID──▶ the same number in every member
//	                ──Shared─────▶ what a member tells the others, under that number
//	                ──Tag────────▶ the barrier of the members
//	                   all came ──Joined──▶ known ──Quit (GROUP_DESTRUCT), Left, Over──▶ forgotten
//
// Groups is not safe for concurrent use. It makes no barrier and knows processes by their ids only.

const (
	maxMade  = 64 << 10 // groups that processes of this host have made
	maxKnown = 1024     // groups that queries are told of
	tags     = 32       // different barriers of one set of members: each is remembered
)

// Groups are those that processes of this host are members of. New makes one.
type Groups struct {
	made  map[membership]uint64 // how often
	known map[string]*known     // those that members here have constructed and not destructed, by name
}

// membership is a member and a hash of the group's name and members.
type membership struct {
	id    int
	group [sha256.Size]byte
}

type known struct {
	all idset.Set
	in  map[int]bool // ids of this host's members that are in it
}

// NewGroups returns no groups.
func NewGroups() *Groups { return &Groups{made: map[membership]uint64{}, known: map[string]*known{}} }

// ContextID is the same for all members, since each has made as many groups of this name and
// these members before, and differs between groups: 62 bits of a hash need no one to hand them
// out. Small numbers are Open MPI's own. namespace is the first member's; false: there are too many groups.
func (g *Groups) ContextID(id int, name, namespace string, all idset.Set) (number uint64, ok bool) {
	mine := membership{id, sha256.Sum256(fmt.Appendf(nil, "%s\x00%s\x00%s", namespace, name, all))}
	if g.made[mine] == 0 && len(g.made) >= maxMade {
		return 0, false
	}
	g.made[mine]++
	sum := sha256.Sum256(binary.BigEndian.AppendUint64(mine.group[:], g.made[mine]))
	return binary.BigEndian.Uint64(sum[:])>>2 | 1<<61, true
}

// Tag keeps groups of the same members apart that threads of theirs make at one time, in
// different orders. Groups that share a tag and are made by several threads at once take turns.
func Tag(name string) string {
	sum := sha256.Sum256([]byte(name))
	return "g" + strconv.Itoa(int(sum[0])%tags)
}

// Shared is what a member tells the others (pmix.grp.info; Open MPI its own number of the group), as values that belong to
// the group's context id.
func Shared(number uint64, infos []bfrops.Info) (pairs []bfrops.KVal) {
	told, _ := bfrops.Attribute(infos, "pmix.grp.info")
	array, _ := told.Data.(bfrops.Array)
	context := bfrops.NewInfo("pmix.grp.ctxid", bfrops.Size, number)
	context.Flags = bfrops.InfoQualifier
	for _, d := range array.Data {
		i, ok := d.(bfrops.Info)
		if !ok || i.Key == "pmix.procid" { // whose it is, which libpmix 6 says first
			continue
		}
		pairs = append(pairs, bfrops.Qualified(i, context))
	}
	return pairs
}

// Joined notes that a process has constructed a group; of a name that was used for others, the last
// group counts.
func (g *Groups) Joined(name string, all idset.Set, id int) {
	k := g.known[name]
	if k == nil || !k.all.Equal(all) {
		if k == nil && len(g.known) >= maxKnown {
			return
		}
		k = &known{all: all, in: map[int]bool{}}
		g.known[name] = k
	}
	k.in[id] = true
}

// Quit notes that a process has destructed a group.
func (g *Groups) Quit(name string, id int) {
	if k := g.known[name]; k != nil {
		delete(k.in, id)
		g.drop(name)
	}
}

// Left notes that a process is in no group any more.
func (g *Groups) Left(id int) {
	for name, k := range g.known {
		if k.in[id] {
			delete(k.in, id)
			g.drop(name)
		}
	}
}

func (g *Groups) drop(name string) {
	if len(g.known[name].in) == 0 {
		delete(g.known, name)
	}
}

// Over forgets what there is of processes of a job that is over.
func (g *Groups) Over(ids idset.Set) {
	maps.DeleteFunc(g.made, func(m membership, _ uint64) bool { return ids.Contains(m.id) })
	maps.DeleteFunc(g.known, func(_ string, k *known) bool { return k.all.Overlaps(ids) })
}

// Names are those of the groups that are known.
func (g *Groups) Names() []string { return slices.Sorted(maps.Keys(g.known)) }

// Members are a group's, by id; none of one that is not known.
func (g *Groups) Members(name string) idset.Set {
	if k := g.known[name]; k != nil {
		return k.all
	}
	return idset.Set{}
}
