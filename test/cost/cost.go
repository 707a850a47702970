// Package cost measures what a piece of code makes of what it is given, without a clock: the bytes that it allocates. A
// reader of foreign bytes has to stay below so many of them for each byte it reads, however those are chosen.
//
//	cost.AtMost(t, cost.Bound{Fixed: 4 << 10, PerByte: 16}, len(input), func() { Parse(input) })
//
// All goroutines of the process count, so nothing else may run meanwhile. What allocates nothing and still takes long
// (a quadratic search) is not seen: readers that loop have a budget of steps, and a test of that.
package cost

import (
	"runtime"
	"testing"
)

// Bound is what may be allocated.
type Bound struct {
	Fixed   int // bytes, whatever the input
	PerByte int // bytes for each byte of input
}

// Allocated is how many bytes f allocates, those that it frees again too.
func Allocated(f func()) int {
	before := allocated()
	f()
	return allocated() - before
}

func allocated() int {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.TotalAlloc)
}

// AtMost fails the test if f, which reads n bytes, allocates more than b allows twice in a row: what the runtime lets grow
// once (its heap of timers, after 100,000 inputs) is not the input's doing.
func AtMost(t testing.TB, b Bound, n int, f func()) {
	t.Helper()
	if Allocated(f) <= b.limit(n) {
		return
	}
	defer Watch(t, b, n)()
	f()
}

func (b Bound) limit(n int) int { return b.Fixed + b.PerByte*n }

// Parser is what a reader of text or bytes may cost that makes values of them and no more, in a fuzz target.
var Parser = Bound{Fixed: 2 << 20, PerByte: 512}

// Watch is AtMost for what lies between it and the call of what it returns, in a fuzz target:
//
//	defer cost.Watch(t, cost.Parser, len(input))()
func Watch(t testing.TB, b Bound, n int) func() {
	before := allocated()
	return func() {
		t.Helper()
		if got, limit := allocated()-before, b.limit(n); got > limit {
			t.Errorf("%d bytes of input cost %d bytes of memory; %d are allowed (%d and %d for each byte)", n, got, limit, b.Fixed, b.PerByte)
		}
	}
}
