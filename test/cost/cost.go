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
	"runtime/metrics"
	"testing"
)

// Bound is what may be allocated.
type Bound struct {
	Fixed   int // bytes, whatever the input
	PerByte int // bytes for each byte of input
}

// Allocated is how many bytes f allocates, those that it frees again too.
func Allocated(f func()) int {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int(after.TotalAlloc - before.TotalAlloc)
}

// AtMost fails the test if f, which reads n bytes, allocates more than b allows.
func AtMost(t testing.TB, b Bound, n int, f func()) {
	t.Helper()
	if got, limit := Allocated(f), b.Fixed+b.PerByte*n; got > limit {
		t.Errorf("%d bytes of input cost %d bytes of memory; %d are allowed (%d and %d for each byte)", n, got, limit, b.Fixed, b.PerByte)
	}
}

// Parser is what a reader of text or bytes may cost that makes values of them and no more, in a fuzz target.
var Parser = Bound{Fixed: 2 << 20, PerByte: 512}

// Watch is AtMost for what lies between it and the call of what it returns, in a fuzz target:
//
//	defer cost.Watch(t, cost.Parser, len(input))()
//
// It stops no other goroutine and is cheap, and may miss some 100 KB of small pieces.
func Watch(t testing.TB, b Bound, n int) func() {
	before := allocated()
	return func() {
		t.Helper()
		if got, limit := int(allocated()-before), b.Fixed+b.PerByte*n; got > limit {
			t.Errorf("%d bytes of input cost %d bytes of memory; %d are allowed (%d and %d for each byte)", n, got, limit, b.Fixed, b.PerByte)
		}
	}
}

func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
