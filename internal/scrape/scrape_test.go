package scrape

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// collector is metrics that a function makes.
type collector func(to chan<- prometheus.Metric)

func (collector) Describe(chan<- *prometheus.Desc)      {}
func (c collector) Collect(to chan<- prometheus.Metric) { c(to) }

func read(t *testing.T, h http.Handler) (status int, kind, page string) {
	t.Helper()
	w := httptest.NewRecorder()
	r := httptest.NewRequest("GET", "/metrics", nil)
	r.Header.Set("Accept-Encoding", "gzip")
	h.ServeHTTP(w, r)
	body, err := io.ReadAll(w.Result().Body)
	if err != nil {
		t.Error(err)
	}
	return w.Code, w.Result().Header.Get("Content-Type"), string(body)
}

func registry(t *testing.T, all ...prometheus.Collector) *prometheus.Registry {
	t.Helper()
	r := prometheus.NewRegistry()
	for _, c := range all {
		if err := r.Register(c); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// A label may be any bytes, and one collector that fails, or says a thing twice, leaves the others their place.
func TestOddSamples(t *testing.T) {
	up := prometheus.NewGauge(prometheus.GaugeOpts{Name: "up", Help: "Up."})
	up.Set(1)
	odd := prometheus.NewDesc("odd", "A \\ and\na line.", []string{"a"}, nil)
	r := registry(t, up, collector(func(to chan<- prometheus.Metric) {
		to <- Sample(odd, prometheus.GaugeValue, 0.25, "\xff\"\\\n")
		to <- Sample(odd, prometheus.GaugeValue, 1e6, "twice")
		to <- Sample(odd, prometheus.GaugeValue, 2, "twice")
		to <- Sample(odd, prometheus.GaugeValue, 3, "one", "too many")
		to <- prometheus.NewInvalidMetric(odd, errors.New("broken"))
	}))

	status, kind, page := read(t, Handler(r))
	want := `# HELP odd A \\ and\na line.
# TYPE odd gauge
odd{a="twice"} 1e+06
odd{a="�\"\\\n"} 0.25
# HELP up Up.
# TYPE up gauge
up 1
`
	if status != http.StatusOK || !strings.HasPrefix(kind, "text/plain; version=0.0.4; charset=utf-8") || page != want {
		t.Errorf("%d %s\n%s", status, kind, page)
	}
}

// More than a few who read at the same time are sent away; the others get a page, and so does whoever comes after them.
func TestManyReaders(t *testing.T) {
	inside := make(chan struct{}, maxPages)
	release := make(chan struct{})
	up := prometheus.NewDesc("up", "Up.", nil, nil)
	h := Handler(registry(t, collector(func(to chan<- prometheus.Metric) {
		inside <- struct{}{}
		<-release
		to <- Sample(up, prometheus.GaugeValue, 1)
	})))

	// All are in the handler, of which the library lets one gather for those that come meanwhile, once one of them is refused.
	var readers sync.WaitGroup
	answers := make(chan int, maxPages+1)
	for range maxPages + 1 {
		readers.Go(func() {
			status, _, _ := read(t, h)
			answers <- status
		})
	}
	<-inside
	if status := <-answers; status != http.StatusServiceUnavailable {
		t.Errorf("one too many: %d", status)
	}
	close(release)
	readers.Wait()
	for range maxPages {
		if status := <-answers; status != http.StatusOK {
			t.Errorf("a reader: %d", status)
		}
	}
	if status, _, page := read(t, h); status != http.StatusOK || !strings.HasSuffix(page, "\nup 1\n") {
		t.Errorf("the next one: %d\n%s", status, page)
	}
}
