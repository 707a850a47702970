package agent

import (
	"slices"
	"testing"
	"time"
)

func TestHasteLastsAWhileAfterTheLastBegin(t *testing.T) {
	var said []bool
	h := haste{tell: func(on bool) { said = append(said, on) }}
	h.pass(0)
	h.begin(time.Second)
	h.begin(5 * time.Second)
	h.pass(14 * time.Second)
	if want := []bool{true}; !slices.Equal(said, want) {
		t.Fatalf("before its end %v, want %v", said, want)
	}
	h.pass(15 * time.Second)
	h.pass(16 * time.Second)
	h.begin(20 * time.Second)
	if want := []bool{true, false, true}; !slices.Equal(said, want) {
		t.Fatalf("after its end and another begin %v, want %v", said, want)
	}
}

func TestHasteOfNobody(*testing.T) {
	var h haste
	h.begin(0)
	h.pass(time.Hour)
}
