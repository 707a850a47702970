package session

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/mpiup/mpiup/internal/identity"
)

// Scripts of lives that come to one agent: who may start, and whom it ends.
func TestWhoEndsWhom(t *testing.T) {
	pod := func(incarnation, host, sandbox string) Life { return Life{incarnation, host, sandbox} }
	type step struct {
		life   Life
		number uint64
		run    bool
		over   []string // whom it ends at once
		fenced string   // by whom it is fenced itself
	}
	for _, tt := range []struct {
		name  string
		steps []step
	}{
		{"one life, many runs", []step{
			{life: pod("a", "l", "1"), number: 1, run: true},
			{life: pod("a", "l", "1"), number: 1, run: true}}},
		{"a sidecar", []step{
			{life: pod("a", "l", "1"), number: 1, run: true},
			{life: pod("b", "l", "1"), number: 2, run: true},
			{life: pod("a", "l", "1"), number: 1, run: true},
			{life: pod("b", "l", "1"), number: 2, run: true}}},
		{"a new pod of the Job", []step{
			{life: pod("a", "l", "1"), number: 1, run: true},
			{life: pod("b", "l", "2"), number: 2, run: true, over: []string{"a"}},
			{life: pod("a", "l", "1"), number: 1, run: true, fenced: "b"},
			{life: pod("b", "l", "2"), number: 2, run: true, over: []string{"a"}}}},
		{"a fenced one with a number above all", []step{
			{life: pod("a", "l", "1"), number: 1, run: true},
			{life: pod("b", "l", "2"), number: 2, run: true, over: []string{"a"}},
			{life: pod("a", "l", "1"), number: 9, run: true, fenced: "b"}}},
		{"an old pod that was never here", []step{
			{life: pod("b", "l", "2"), number: 2, run: true},
			{life: pod("a", "l", "1"), number: 1, run: true, fenced: "b"},
			{life: pod("a", "l", "1"), number: 1, fenced: "b"}}},
		{"a tie goes by id", []step{
			{life: pod("b", "l", "2"), number: 1, run: true},
			{life: pod("a", "l", "1"), number: 1, run: true, fenced: "b"}}},
		{"a command of a new pod fences nobody", []step{
			{life: pod("a", "l", "1"), number: 1, run: true},
			{life: pod("b", "l", "2"), number: 2},
			{life: pod("a", "l", "1"), number: 1, run: true},
			{life: pod("b", "l", "2"), number: 2, run: true, over: []string{"a"}}}},
		{"a number stays what it was", []step{
			{life: pod("a", "l", "1"), number: 1, run: true},
			{life: pod("b", "l", "2"), number: 2},
			{life: pod("a", "l", "1"), number: 5, run: true},
			{life: pod("b", "l", "2"), number: 2, run: true, over: []string{"a"}}}},
		{"two Jobs with one certificate", []step{
			{life: pod("a", "job-a", "1"), number: 1, run: true},
			{life: pod("b", "job-b", "2"), number: 2, run: true},
			{life: pod("a", "job-a", "1"), number: 1, run: true}}},
		{"numbers that somebody made large", []step{ // an agent may tell a launcher of any; later pods go on
			{life: pod("a", "l", "1"), number: 1 << 53, run: true},
			{life: pod("b", "l", "2"), number: MaxStep + 1, run: true, over: []string{"a"}},
			{life: pod("c", "l", "3"), number: 1 << 53, run: true, over: []string{"a", "b"}},
			{life: pod("d", "l", "4"), number: 2*MaxStep + 2, run: true, over: []string{"a", "b", "c"}}}},
		{"a pod that is not told", []step{
			{life: pod("a", "l", "1"), number: 1, run: true},
			{life: pod("b", "l", ""), number: 2, run: true}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var b Book
			for i, s := range tt.steps {
				over, err := b.Start("l", s.life, Claim{Number: s.number}, s.run, time.Duration(i))
				by := ""
				if f, ok := err.(*Fenced); ok {
					by = f.By
				}
				if slices.Sort(over); by != s.fenced || !slices.Equal(over, s.over) {
					t.Errorf("step %d, %s: ends %q, fenced by %q", i, s.life.Incarnation, over, by)
				}
			}
		})
	}
}

func TestSiblingsWereHeardSideBySide(t *testing.T) {
	var b Book
	first, second := Life{"a", "l", "1"}, Life{"b", "l", "1"}
	b.Met("l", first, 1)
	b.Met("l", second, 5)
	if b.Siblings("l", "b", "a") {
		t.Error("the first was not heard since the second came")
	}
	b.Met("l", first, 6)
	if !b.Siblings("l", "a", "b") || !b.Siblings("l", "b", "a") || b.Siblings("l", "a", "c") || b.Siblings("m", "a", "b") {
		t.Error("wrong siblings")
	}
	b.Fence("l", "a", "b")
	if f := b.Fenced("l", "a"); f == nil || f.By != "b" || b.Siblings("l", "a", "b") {
		t.Errorf("fenced: %v", f)
	}
}

func TestNumbers(t *testing.T) {
	var b Book
	if own, highest := b.Numbers("l", "a"); own.Number != 0 || highest != 0 {
		t.Error(own, highest)
	}
	b.Met("l", Life{Incarnation: "a"}, 1)
	b.Start("l", Life{Incarnation: "b"}, Claim{Number: 7, Proof: []byte("said")}, true, 2)
	if own, highest := b.Numbers("l", "a"); own.Number != 0 || highest != 7 {
		t.Error(own, highest)
	}
	if own, _ := b.Numbers("l", "b"); own.Number != 7 || string(own.Proof) != "said" {
		t.Errorf("%+v", own)
	}
	b.Start("l", Life{Incarnation: "a"}, Claim{Number: 8}, false, 3)
	b.Fence("l", "b", "a")
	for incarnation, want := range map[string]uint64{"a": 8, "b": 0} {
		if own, highest := b.Numbers("l", incarnation); own.Number != want || highest != 8 {
			t.Error(incarnation, own, highest)
		}
	}
}

// However large the numbers that launchers were talked into, those that are left do not run out.
func TestNumbersAreNotUsedUp(t *testing.T) {
	var b Book
	for n := range 1000 {
		_, _ = b.Start("l", Life{Incarnation: fmt.Sprint(n)}, Claim{Number: identity.MaxNumber}, true, 0)
	}
	if _, highest := b.Numbers("l", ""); highest == 0 || highest > 1000*MaxStep {
		t.Errorf("the highest is %d", highest)
	}
}

func TestBookIsBounded(t *testing.T) {
	var b Book
	for i := range 2 * maxIdentities {
		b.Start(fmt.Sprint(i), Life{Incarnation: "a"}, Claim{Number: uint64(i + 1)}, true, 0)
	}
	if _, highest := b.Numbers(fmt.Sprint(2*maxIdentities-1), ""); len(b.of) > maxIdentities || highest == 0 {
		t.Errorf("%d identities, the newest has %d", len(b.of), highest)
	}
	for i := range 10 * maxLives {
		l := Life{fmt.Sprint(i), "l", fmt.Sprint(i)}
		b.Met("0", l, 0)
		b.Start("0", l, Claim{Number: uint64(i + 1)}, true, 0)
	}
	if n := len(b.of["0"].lives); n > maxLives {
		t.Errorf("%d lives", n)
	}
	if f := b.Fenced("0", fmt.Sprint(10*maxLives-2)); f == nil {
		t.Error("the last that was fenced is forgotten")
	}
}
