package pmix_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestOpenMPISpawns(t *testing.T) {
	exe := program(t, "spawned")
	for _, shape := range [][2]int{{1, 1}, {1, 2}, {2, 1}, {2, 2}} {
		for step, want := range map[string]int{"one": 4, "multiple": 3, "self": shape[0] * shape[1], "chain": 1} {
			t.Run(fmt.Sprintf("%dx%d %s", shape[0], shape[1], step), func(t *testing.T) {
				j := &trial{hosts: shape[0], perHost: shape[1]}
				o := j.run(t, exe, step)
				o.clean(t)
				if !strings.Contains(o.out, fmt.Sprintf("spawned ok %d\n", want)) {
					t.Errorf("printed %q", o.out)
				}
			})
		}
	}
}

// A spawn that fails does so for all ranks, which go on.
func TestOpenMPISpawnIsRefused(t *testing.T) {
	exe := program(t, "spawned")
	for _, n := range []int{1, 2} {
		j := &trial{hosts: 1, perHost: n}
		o := j.run(t, exe, "failing")
		o.clean(t)
		if !slices.Contains(j.events, "not started: /nowhere/program") || !strings.Contains(o.out, "spawned ok 0\n") {
			t.Errorf("printed %q, events %q", o.out, j.events)
		}
	}
}
