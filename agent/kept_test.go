package agent

import (
	"fmt"
	"slices"
	"testing"
)

func TestKept(t *testing.T) {
	var k kept
	first, second := launcherID{identity: "l", incarnation: "1"}, launcherID{identity: "l", incarnation: "2"}
	other := launcherID{identity: "m", incarnation: "1"}
	k.add("a", first)
	k.add("b", other)
	k.add("c", second)
	if got := k.take("l", "2"); !slices.Equal(got, []string{"a"}) {
		t.Errorf("ended are %v", got)
	}
	if got := k.take("l", "2"); got != nil {
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
