package exposition

import (
	"runtime"
	"runtime/debug"
	"strconv"
	"time"
)

// Runtime is what the Go runtime says of this process, under the names that Prometheus' library for Go has made usual. go_gc_gogc_percent is
// not among them: only package runtime/metrics tells it, which makes its tables at the start of every program that has it.
func Runtime() []Family {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	threads, _ := runtime.ThreadCreateProfile(nil)
	list := []Family{
		pauses(),
		One(Gauge, "go_info", "Version of Go.", 1, "version", runtime.Version()),
		One(Gauge, "go_goroutines", "Goroutines that exist.", float64(runtime.NumGoroutine())),
		One(Gauge, "go_threads", "Threads that were made.", float64(threads)),
		One(Gauge, "go_sched_gomaxprocs_threads", "Threads that may run Go code at the same time.", float64(runtime.GOMAXPROCS(0))),
		One(Gauge, "go_gc_gomemlimit_bytes", "Memory that the Go runtime tries to stay below.", float64(debug.SetMemoryLimit(-1))), // which only asks
		One(Gauge, "go_memstats_last_gc_time_seconds", "When garbage was last collected, in seconds since 1970.", float64(m.LastGC)/1e9),
		One(Counter, "go_memstats_alloc_bytes_total", "Bytes of the heap that were ever allocated.", float64(m.TotalAlloc)),
		One(Counter, "go_memstats_mallocs_total", "Objects of the heap that were ever allocated.", float64(m.Mallocs)),
		One(Counter, "go_memstats_frees_total", "Objects of the heap that were freed.", float64(m.Frees)),
		One(Gauge, "go_memstats_heap_objects", "Objects of the heap.", float64(m.HeapObjects)),
	}
	for _, g := range []struct {
		name, help string
		bytes      uint64
	}{
		{"alloc", "of objects of the heap", m.Alloc}, {"sys", "taken from the system", m.Sys},
		{"heap_alloc", "of objects of the heap", m.HeapAlloc}, {"heap_sys", "of the heap, taken from the system", m.HeapSys},
		{"heap_idle", "of the heap's spans without objects", m.HeapIdle}, {"heap_inuse", "of the heap's spans with objects", m.HeapInuse},
		{"heap_released", "of the heap, given back to the system", m.HeapReleased},
		{"stack_inuse", "of stacks", m.StackInuse}, {"stack_sys", "of stacks, taken from the system", m.StackSys},
		{"mspan_inuse", "of descriptions of spans", m.MSpanInuse}, {"mspan_sys", "for descriptions of spans, taken from the system", m.MSpanSys},
		{"mcache_inuse", "of processors' caches", m.MCacheInuse}, {"mcache_sys", "for processors' caches, taken from the system", m.MCacheSys},
		{"buck_hash_sys", "of the table for profiles", m.BuckHashSys}, {"gc_sys", "of the garbage collector's own", m.GCSys},
		{"other_sys", "of the runtime's other own", m.OtherSys}, {"next_gc", "of the heap at which garbage is collected next", m.NextGC},
	} {
		list = append(list, One(Gauge, "go_memstats_"+g.name+"_bytes", "Bytes "+g.help+".", float64(g.bytes)))
	}
	return list
}

// pauses are how long collections of garbage stopped the program.
func pauses() Family {
	stats := debug.GCStats{PauseQuantiles: make([]time.Duration, 5)}
	debug.ReadGCStats(&stats)
	f := Family{Name: "go_gc_duration_seconds", Kind: Summary, Help: "Time for which collections of garbage stopped the program."}
	for i, q := range stats.PauseQuantiles {
		f.Add(q.Seconds(), "quantile", strconv.FormatFloat(float64(i)/4, 'g', -1, 64))
	}
	f.samples = append(f.samples, sample{suffix: "_sum", value: stats.PauseTotal.Seconds()}, sample{suffix: "_count", value: float64(stats.NumGC)})
	return f
}
