package fields

import (
	"slices"
	"testing"
)

func TestLost(t *testing.T) {
	type inner struct{ C []int }
	type from struct {
		Kept  string
		Deep  inner
		Gone  *inner
		Blind bool
		own   int
	}
	got := Lost(func(f *from) any { return []any{f.Kept, f.Deep.C, f.own} })
	if want := []string{"Gone", "Blind"}; !slices.Equal(got, want) {
		t.Errorf("lost: %v, want %v", got, want)
	}
}
