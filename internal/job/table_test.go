package job

import (
	"slices"
	"testing"
)

type spanned struct{ Span }

// Jobs come and go in any order, and no two share an id.
func TestTable(t *testing.T) {
	var table Table[*spanned]
	first, second, third := &spanned{Span{0, 4}}, &spanned{Span{4, 2}}, &spanned{Span{8, 1}}
	for _, j := range []*spanned{third, first, second} {
		if !table.Free(j.Span) {
			t.Errorf("%+v is not free", j)
		}
		table.Add(j)
	}
	if !slices.Equal(table, Table[*spanned]{first, second, third}) {
		t.Errorf("%v", table)
	}
	for id, want := range map[int]*spanned{-1: nil, 0: first, 3: first, 4: second, 5: second, 6: nil, 7: nil, 8: third, 9: nil, 1 << 31: nil} {
		if got := table.Of(id); got != want {
			t.Errorf("process %d: %v, want %v", id, got, want)
		}
	}
	for s, want := range map[Span]bool{{6, 2}: true, {6, 3}: false, {3, 1}: false, {5, 2}: false, {0, 9}: false, {9, 100}: true, {7, 1}: true} {
		if table.Free(s) != want {
			t.Errorf("%+v is free: %v", s, !want)
		}
	}
	table.Remove(second)
	if table.Of(4) != nil || table.Of(3) != first || !table.Free(Span{4, 4}) {
		t.Errorf("after the second has gone: %v", table)
	}
	if got := (Span{4, 2}).IDs().String(); got != "4-5" {
		t.Errorf("ids %s", got)
	}
}
