package session

import (
	"fmt"
	"slices"
	"testing"
)

func TestKept(t *testing.T) {
	var k kept
	of := func(identity, incarnation string) launcherID {
		return launcherID{identity: identity, Life: Life{Incarnation: incarnation}}
	}
	first, second, other := of("l", "1"), of("l", "2"), of("m", "1")
	notSecond := func(incarnation string) bool { return incarnation != "2" }
	k.add("a", first)
	k.add("b", other)
	k.add("c", second)
	if got := k.take("l", notSecond); !slices.Equal(got, []string{"a"}) {
		t.Errorf("ended are %v", got)
	}
	if got := k.take("l", notSecond); got != nil {
		t.Errorf("ended twice: %v", got)
	}
	for i := range maxKept - 2 {
		if over := k.add(fmt.Sprint(i), first); over != "" {
			t.Fatalf("%s has to go for number %d", over, i)
		}
	}
	if over := k.add("last", first); over != "b" {
		t.Errorf("%q has to go, not the oldest", over)
	}
}
