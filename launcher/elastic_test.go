package launcher

import (
	"math"
	"testing"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/launcher/link"
)

// A host that says again and again that it has come, and brings nothing, ends the ranks less and less often; one that brings ranks is believed at once.
func TestHostsThatComeInVain(t *testing.T) {
	const had = 4
	a := &retrial{had: had, grown: "x"}
	last := (*retrial)(nil).untilLook(had)
	if last != lookEvery || a.untilLook(had+1) != lookEvery || (&retrial{had: had, vain: 7}).untilLook(had) != lookEvery {
		t.Errorf("nobody has come in vain: %v", last)
	}
	for range 20 {
		is := a.untilLook(had)
		if is <= last && is != lookEvery<<9 {
			t.Errorf("%v after %v, when hosts came in vain %d times", is, last, a.vain+1)
		}
		last, a = is, &retrial{had: had, grown: "y", vain: a.inVain(had)}
	}
	if a.vain != 20 {
		t.Errorf("%d times in vain", a.vain)
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
