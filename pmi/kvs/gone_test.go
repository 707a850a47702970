package kvs

import (
	"fmt"
	"slices"
	"testing"
)

func TestOnGone(t *testing.T) {
	e, err := New(Config{KVSName: "test", Size: 3, Local: []int{0, 1, 2}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close(nil)
	var told []string
	e.OnGone(func(rank int, why string) {
		told = append(told, fmt.Sprintf("%d %s, %d gone", rank, why, len(e.Gone())))
	})
	e.RankGone(1, "ended")
	e.RankGone(2, "left")
	if want := []string{"1 ended, 1 gone", "2 left, 2 gone"}; !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
	e.RankBack(1)
	if gone := e.Gone(); len(gone) != 1 || gone[2] != "left" {
		t.Error(gone)
	}
}
