// Package exposition shows numbers to Prometheus in its text format, version 0.0.4.
//
//	# HELP mpiup_ranks Ranks that run here.
//	# TYPE mpiup_ranks gauge
//	mpiup_ranks{state="running"} 4
//
// It is what mpiup's pages of metrics need of the format, and no client library: that one is 20 packages, whose tables and patterns would be
// made at the start of every command (docs/performance.md).
//
// A Count and Counts may be used by any number of goroutines; a Family belongs to whoever makes it, anew for each page.
package exposition

import (
	"bufio"
	"cmp"
	"context"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Kinds of families.
const (
	Counter = "counter"
	Gauge   = "gauge"
	Summary = "summary"
)

// Family is the samples of one name.
type Family struct {
	Name, Kind, Help string
	samples          []sample
}

type sample struct {
	suffix string // of the name, in a summary
	labels []string
	value  float64
}

// One is a family of one sample.
func One(kind, name, help string, value float64, labels ...string) Family {
	f := Family{Name: name, Kind: kind, Help: help}
	f.Add(value, labels...)
	return f
}

// Add adds a sample. labels are names and values in turn; names are the program's own, and values may be any text.
func (f *Family) Add(value float64, labels ...string) {
	f.samples = append(f.samples, sample{labels: labels, value: value})
}

// Count is a number that only grows.
type Count struct{ n atomic.Uint64 }

func (c *Count) Inc()         { c.n.Add(1) }
func (c *Count) Add(n uint64) { c.n.Add(n) }

// Family is the count as one sample.
func (c *Count) Family(name, help string) Family {
	return One(Counter, name, help, float64(c.n.Load()))
}

// Counts are counts by the value of one label.
type Counts struct {
	label string
	mu    sync.Mutex
	by    map[string]uint64 // guarded by mu
}

// NewCounts begins with 0 for the values that are known, so that they can be seen before the first time.
func NewCounts(label string, known ...string) *Counts {
	c := &Counts{label: label, by: map[string]uint64{}}
	for _, value := range known {
		c.by[value] = 0
	}
	return c
}

// Inc counts one more. value is the program's own: a stranger's would grow the page.
func (c *Counts) Inc(value string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.by[value]++
}

// Family is the counts, by value.
func (c *Counts) Family(name, help string) Family {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := Family{Name: name, Kind: Counter, Help: help}
	for _, value := range slices.Sorted(maps.Keys(c.by)) {
		f.Add(float64(c.by[value]), c.label, value)
	}
	return f
}

var (
	helpText  = strings.NewReplacer(`\`, `\\`, "\n", `\n`)
	labelText = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)
)

// Write writes families by name. One without samples is left out.
func Write(to io.Writer, families []Family) error {
	w := bufio.NewWriter(to)
	slices.SortFunc(families, func(a, b Family) int { return cmp.Compare(a.Name, b.Name) })
	for _, f := range families {
		if len(f.samples) == 0 {
			continue
		}
		put(w, "# HELP ", f.Name, " ", helpText.Replace(f.Help), "\n# TYPE ", f.Name, " ", f.Kind, "\n")
		for _, s := range f.samples {
			put(w, f.Name, s.suffix)
			for i := 0; i+1 < len(s.labels); i += 2 {
				put(w, [2]string{"{", ","}[min(i, 1)], s.labels[i], `="`, labelText.Replace(strings.ToValidUTF8(s.labels[i+1], "�")), `"`)
			}
			if len(s.labels) > 1 {
				put(w, "}")
			}
			put(w, " ", number(s.value), "\n")
		}
	}
	return w.Flush()
}

func put(w *bufio.Writer, parts ...string) {
	for _, p := range parts {
		_, _ = w.WriteString(p) // Flush has the error
	}
}

// number is as Prometheus' own writers have it: "+Inf", "NaN", "1e+06".
func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// maxPages is how many pages are made at the same time.
const maxPages = 4

// Index answers whoever looks at a port what is there.
func Index(paths ...string) http.Handler {
	text := "mpiup: " + strings.Join(paths, " ") + "\n"
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(text)) // to a client that may have gone
	})
}

// Handler answers with a page of what gather gives.
func Handler(gather func() []Family) http.Handler {
	busy := make(chan struct{}, maxPages)
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		select {
		case busy <- struct{}{}:
			defer func() { <-busy }()
		default:
			http.Error(w, "metrics are read by many at the same time: try again", http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_ = Write(w, gather()) // a client that has gone
	})
}

// maxHTTP bounds the connections to a port that asks nobody who he is.
const maxHTTP = 64

// Serve answers at l, as probes and scrapes need it, until stop is called, which waits for the server's end.
func Serve(l net.Listener, answers http.Handler) (stop func()) {
	s := &http.Server{
		Handler:        answers,
		ReadTimeout:    5 * time.Second,
		WriteTimeout:   10 * time.Second,
		IdleTimeout:    30 * time.Second,
		MaxHeaderBytes: 8 << 10,
	}
	over := make(chan struct{})
	go func() { defer close(over); _ = s.Serve(limit(l, maxHTTP)) }() // ends with ErrServerClosed
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if s.Shutdown(ctx) != nil {
			_ = s.Close()
		}
		<-over
	}
}
