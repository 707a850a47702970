package launcher

import (
	"math"
	"testing"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/launcher/link"
	"github.com/mpiup/mpiup/launcher/run/phases"
)

// A host that says again and again that it has come, and brings nothing, ends the ranks less and less often; one that brings ranks is believed at once.
func TestHostsThatComeInVain(t *testing.T) {
	const had = 4
	a := &phases.Again{Had: had, Grown: "x"}
	last := (*phases.Again)(nil).UntilLook(had)
	if last != phases.LookEvery || a.UntilLook(had+1) != phases.LookEvery || (&phases.Again{Had: had, Vain: 7}).UntilLook(had) != phases.LookEvery {
		t.Errorf("nobody has come in vain: %v", last)
	}
	for range 20 {
		is := a.UntilLook(had)
		if is <= last && is != phases.LookEvery<<9 {
			t.Errorf("%v after %v, when hosts came in vain %d times", is, last, a.Vain+1)
		}
		last, a = is, &phases.Again{Had: had, Grown: "y", Vain: a.InVain(had)}
	}
	if a.Vain != 20 {
		t.Errorf("%d times in vain", a.Vain)
	}
}

// What an agent counts is as much as a host can have.
func TestStatedSlots(t *testing.T) {
	for _, n := range []int32{math.MinInt32, -1, 0, 1, 4096, 4097, math.MaxInt32} {
		h := &apiv1.HelloReply{Slots: n, Cpus: n}
		if got := link.Slots(h); got < 1 || got > apiv1.MaxProcs || n > 0 && n <= apiv1.MaxProcs && got != int(n) {
			t.Errorf("%d slots are %d", n, got)
		}
		if got := link.CPUs(h); got < 0 || got > 8192 || n >= 0 && n <= 8192 && got != int(n) {
			t.Errorf("%d CPUs are %d", n, got)
		}
	}
}
