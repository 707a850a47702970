package agent

import (
	"fmt"
	"testing"
)

func TestClaims(t *testing.T) {
	var cs claims
	for _, step := range []struct {
		name string
		c    claim
		ok   bool
		held claim
	}{
		{"the first", claim{1, "a"}, true, claim{1, "a"}},
		{"the same again", claim{1, "a"}, true, claim{1, "a"}},
		{"another, higher", claim{2, "b"}, true, claim{2, "b"}},
		{"the fenced one", claim{1, "a"}, false, claim{2, "b"}},
		{"the fenced one with a guessed tie", claim{2, "a"}, false, claim{2, "b"}},
		{"the fenced one with a higher number", claim{3, "a"}, false, claim{2, "b"}},
		{"a number beyond all", claim{1<<64 - 1, "z"}, false, claim{2, "b"}},
		{"a tie goes by name", claim{2, "c"}, true, claim{2, "c"}},
	} {
		if ok := cs.take("launcher", step.c); ok != step.ok {
			t.Errorf("%s: took %v", step.name, ok)
		}
		if got := cs.get("launcher"); got != step.held {
			t.Errorf("%s: held %v", step.name, got)
		}
	}
	if got := cs.get("other"); got != (claim{}) {
		t.Errorf("an unknown launcher has %v", got)
	}
}

func TestClaimsAreBounded(t *testing.T) {
	var cs claims
	for i := range maxClaims * 2 {
		for life := range 2 {
			cs.take(fmt.Sprint(i), claim{uint64(i + 1 + life), fmt.Sprint(life)})
		}
	}
	if len(cs.held) > maxClaims || len(cs.past) > maxClaims {
		t.Errorf("%d held, %d past", len(cs.held), len(cs.past))
	}
	for i := range 10 * maxPast {
		cs.take("one", claim{uint64(i + 1), fmt.Sprint(i)})
	}
	if n := len(cs.past["one"]); n > maxPast {
		t.Errorf("%d past of one", n)
	}
	if cs.get(fmt.Sprint(maxClaims*2-1)).number == 0 {
		t.Error("the newest is forgotten")
	}
}
