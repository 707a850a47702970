package hang

import (
	"slices"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/internal/idset"
)

// four are ranks 0 to 3 on two hosts.
func four() *Run {
	r := &Run{}
	for i := range 4 {
		r.Add(Rank{ID: i, Rank: uint32(i), Host: []string{"w0", "w1"}[i/2], PID: int32(100 + i)})
	}
	return r
}

func lines(t *testing.T, r *Run, want ...string) {
	t.Helper()
	if got := r.Lines(); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Two hosts tell of one barrier, and a third that it is of none.
func TestBarrierFromOutside(t *testing.T) {
	r := four()
	all := set(t, "0-3")
	r.Hear("w0", Barriers{Open: []Barrier{{Name: "0-3#1", Of: all, Entered: set(t, "0-1")}}})
	r.Hear("w1", Barriers{Silent: set(t, "2"), Open: []Barrier{{Name: "0-3#1", Of: all, Entered: set(t, "0,3")}}})
	lines(t, r, "rank 2 (w1, pid 102) has not called MPI_Init; ranks 0-1,3 have waited for it")
	lines(t, four())
}

// Hosts tell how many ranks there are, and which of them are theirs: what nobody has told of is named, what has ended is not.
func TestHostsThatWereNotFound(t *testing.T) {
	const why = ": on no host that was found and answered; look again in half a minute, or name all hosts by --host (ranks in the launcher's own process cannot be asked)"
	r := &Run{}
	r.Add(Rank{ID: 0, Host: "w0", PID: 1})
	r.Place(6, set(t, "0-1"))
	lines(t, r, "ranks 2-5"+why)
	r.Place(6, set(t, "2-3,5"))
	lines(t, r, "rank 4"+why)
	r.Place(0, idset.Set{}) // an older agent has told of some, and nobody knows of which
	lines(t, r)
	var even idset.Set
	for i := range 100 {
		even.Add(2 * i)
	}
	many := &Run{}
	many.Place(200, even)
	lines(t, many, "100 of 200 ranks"+why)
}

// A host that did not answer has no ranks here: nobody says of them that they are waited for.
func TestHostThatIsSilent(t *testing.T) {
	r := &Run{}
	r.Add(Rank{ID: 0, Host: "w0", PID: 1})
	r.Hear("w0", Barriers{Open: []Barrier{{Name: "0-3#1", Of: set(t, "0-3"), Entered: set(t, "0")}}})
	lines(t, r)
}

// A spawned job's ranks are told from the first's.
func TestSpawned(t *testing.T) {
	r := &Run{}
	for i := range 2 {
		r.Add(Rank{ID: 4 + i, Rank: uint32(i), Number: 1, Host: "w0", PID: int32(9 + i)})
	}
	r.Hear("w0", Barriers{Open: []Barrier{{Name: "4-5#1", Of: set(t, "4-5"), Entered: set(t, "5")}}})
	lines(t, r, "rank 1 of spawned job 1 (w0, pid 10) has waited in a barrier; rank 0 of spawned job 1 is not there, and may wait for it elsewhere")
}

func record(rank int, last uint64, open bool) Record {
	g := Group{Name: "0", Last: last}
	if open {
		g.Ops = []Op{{Seq: last, Name: "nccl:all_reduce"}}
	} else {
		g.Ops = []Op{{Seq: last, Name: "nccl:all_reduce", Done: true}}
	}
	return Record{Rank: rank, Groups: []Group{g}}
}

func TestCollectiveFromOutside(t *testing.T) {
	const why = ": it has not called nccl:all_reduce number 20 of group 0, in which "
	r := four()
	for i := range 4 {
		r.Record([]string{"w0", "w1"}[i/2], record(i, []uint64{20, 20, 19, 20}[i], i != 2))
	}
	lines(t, r, "rank 2 (w1, pid 102)"+why+"ranks 0-1,3 wait; it has finished number 19 there, nccl:all_reduce")
	// Torch counts its processes otherwise.
	r = four()
	for i := range 4 {
		r.Record([]string{"w1", "w0"}[i/2], record(i, []uint64{20, 20, 19, 20}[i], i != 2))
	}
	lines(t, r, "torch's rank 2 on w0"+why+"torch's ranks 0-1,3 wait; it has finished number 19 there, nccl:all_reduce")
}
