package reap

import (
	"runtime"
	"testing"
)

// BenchmarkPin is what binding adds to the start of a process: the mask and the memory policy of the thread that
// forks, both undone after the fork, and the second look at the process's mask.
func BenchmarkPin(b *testing.B) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, err := maskOfThread(0)
	if err != nil {
		b.Fatal(err)
	}
	cpus, node := numbers(before), 0
	for i := 0; b.Loop(); i++ {
		back, err := setAffinity(cpus[i%len(cpus):][:1]) // another CPU each time, as ranks have
		if err != nil {
			b.Fatal(err)
		}
		memory := preferMemory(&node)
		if _, err := maskOfThread(0); err != nil {
			b.Fatal(err)
		}
		memory()
		back()
	}
	b.ReportMetric(b.Elapsed().Seconds()*1e3/float64(b.N), "ms/rank")
}
