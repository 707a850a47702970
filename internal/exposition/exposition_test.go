package exposition

import (
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

func text(t *testing.T, families ...Family) string {
	t.Helper()
	var b strings.Builder
	if err := Write(&b, families); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// The format, byte by byte (Prometheus: Exposition formats, Text-based format).
func TestPage(t *testing.T) {
	var started Count
	started.Inc()
	started.Add(1e6)
	failed := NewCounts("how", "signal", "code")
	failed.Inc("code")
	odd := Family{Name: "odd", Kind: Gauge, Help: "A \\ and\na line."}
	odd.Add(math.Inf(1), "a", "C:\\x\n\"y\"", "b", "\xff")
	odd.Add(0.25)
	got := text(t, started.Family("started_total", "Started."), failed.Family("failed_total", "Failed."), odd, Family{Name: "none", Kind: Gauge, Help: "Nothing."},
		One(Gauge, "build_info", "1.", 1, "version", "v1"))
	want := `# HELP build_info 1.
# TYPE build_info gauge
build_info{version="v1"} 1
# HELP failed_total Failed.
# TYPE failed_total counter
failed_total{how="code"} 1
failed_total{how="signal"} 0
# HELP odd A \\ and\na line.
# TYPE odd gauge
odd{a="C:\\x\n\"y\"",b="�"} +Inf
odd 0.25
# HELP started_total Started.
# TYPE started_total counter
started_total 1.000001e+06
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// Boards that people have read these names of every Go program.
func TestRuntime(t *testing.T) {
	got := text(t, Runtime()...)
	for _, line := range []string{"# TYPE go_gc_duration_seconds summary\n", "\ngo_gc_duration_seconds{quantile=\"0\"} ", "\ngo_gc_duration_seconds{quantile=\"0.25\"} ",
		"\ngo_gc_duration_seconds{quantile=\"1\"} ", "\ngo_gc_duration_seconds_sum ", "\ngo_gc_duration_seconds_count ", "\ngo_goroutines ", "\ngo_info{version=\"go", "\ngo_threads ",
		"\ngo_sched_gomaxprocs_threads ", "\ngo_gc_gomemlimit_bytes ", "\ngo_memstats_alloc_bytes ", "\ngo_memstats_alloc_bytes_total ", "\ngo_memstats_buck_hash_sys_bytes ",
		"\ngo_memstats_frees_total ", "\ngo_memstats_gc_sys_bytes ", "\ngo_memstats_heap_alloc_bytes ", "\ngo_memstats_heap_idle_bytes ", "\ngo_memstats_heap_inuse_bytes ",
		"\ngo_memstats_heap_objects ", "\ngo_memstats_heap_released_bytes ", "\ngo_memstats_heap_sys_bytes ", "\ngo_memstats_last_gc_time_seconds ", "\ngo_memstats_mallocs_total ",
		"\ngo_memstats_mcache_inuse_bytes ", "\ngo_memstats_mcache_sys_bytes ", "\ngo_memstats_mspan_inuse_bytes ", "\ngo_memstats_mspan_sys_bytes ", "\ngo_memstats_next_gc_bytes ",
		"\ngo_memstats_other_sys_bytes ", "\ngo_memstats_stack_inuse_bytes ", "\ngo_memstats_stack_sys_bytes ", "\ngo_memstats_sys_bytes "} {
		if !strings.Contains(got, line) {
			t.Errorf("no %q in\n%s", line, got)
		}
	}
}

// More than a few who read at the same time are sent away; the others get a page, and so does whoever comes after them.
func TestManyReaders(t *testing.T) {
	var inside sync.WaitGroup
	inside.Add(maxPages)
	release := make(chan struct{})
	block := true
	h := Handler(func() []Family {
		if block {
			inside.Done()
			<-release
		}
		return []Family{One(Gauge, "up", "Up.", 1)}
	})
	read := func() *http.Response {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		return w.Result()
	}
	var readers sync.WaitGroup
	for range maxPages {
		readers.Go(func() {
			if r := read(); r.StatusCode != http.StatusOK {
				t.Error(r.Status)
			}
		})
	}
	inside.Wait()
	if r := read(); r.StatusCode != http.StatusServiceUnavailable {
		t.Error("one too many:", r.Status)
	}
	close(release)
	readers.Wait()
	block = false
	r := read()
	body, _ := io.ReadAll(r.Body)
	if r.Header.Get("Content-Type") != "text/plain; version=0.0.4; charset=utf-8" || string(body) != "# HELP up Up.\n# TYPE up gauge\nup 1\n" {
		t.Errorf("%v\n%s", r.Header, body)
	}
}
