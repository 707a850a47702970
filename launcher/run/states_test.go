package run

import (
	"fmt"
	"testing"

	"github.com/mpiup/mpiup/test/golden"
)

func TestDrawings(t *testing.T) {
	golden.Drawing(t, "run.go", "A rank:", moves(rankTable))
	golden.Drawing(t, "run.go", "A host:", moves(hostTable))
	golden.Drawing(t, "run.go", "The first job:", moves(jobTable))
}

func moves[E ~string, S interface {
	comparable
	fmt.Stringer
}](table []row[E, S]) (list []golden.Move) {
	for _, r := range table {
		list = append(list, golden.Move{From: r.from.String(), Event: string(r.event), To: r.to.String()})
	}
	return list
}

// walk looks whether each state up to the last can be reached, and each event leads from a state to one other at most.
func walk[E ~string, S ~uint8](t *testing.T, table []row[E, S], last S) {
	t.Helper()
	reached := map[S]bool{0: true}
	seen := map[string]bool{}
	for range table {
		for _, r := range table {
			if reached[r.from] {
				reached[r.to] = true
			}
		}
	}
	for s := range last + 1 {
		if !reached[s] {
			t.Errorf("state %v cannot be reached", s)
		}
	}
	for _, r := range table {
		k := fmt.Sprint(r.event, r.from)
		if to, ok := move(table, r.from, r.event); seen[k] || !ok || to != r.to {
			t.Errorf("event %v in state %v leads to %v, %v; want %v, once", r.event, r.from, to, ok, r.to)
		}
		seen[k] = true
	}
}

func TestRankTableWalk(t *testing.T) {
	walk(t, rankTable, rankLost)
	for _, r := range rankTable {
		if r.from.over() {
			t.Errorf("%v is over, yet event %v leads on to %v", r.from, r.event, r.to)
		}
	}
	if to, ok := rankExited.next(rankStarted); ok || to != rankExited {
		t.Errorf("a rank that has ended starts: %v", to)
	}
}

func TestHostTableWalk(t *testing.T) {
	walk(t, hostTable, hostOver)
	for _, r := range hostTable {
		if r.from.finished() && !r.to.finished() {
			t.Errorf("%v, of which nothing is expected, becomes %v", r.from, r.to)
		}
	}
}

func TestJobTableWalk(t *testing.T) {
	walk(t, jobTable, jobDone)
	for s := range jobDone {
		if _, ok := s.next(jobEnded); !ok {
			t.Errorf("a job in state %v cannot end", s)
		}
	}
	if _, ok := jobDone.next(jobFailed); ok {
		t.Error("a job that is done can still fail")
	}
}

// String is as the drawing of the package's comment calls a state.
func (s hostState) String() string {
	return [...]string{"running", "taken", "dropped", "explained", "bye", "lost", "forgotten", "over"}[s]
}
