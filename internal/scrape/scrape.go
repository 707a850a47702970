// Package scrape is a port at which Prometheus reads a registry of prometheus/client_golang, and kubelets ask for health.
//
//	agent/metrics, launcher/runmetrics ── collectors ──▶ prometheus.Registry ──▶ Handler (promhttp) ──▶ Serve ◀── GET /metrics
//
// It adds to the library what a port needs that asks nobody who he is: bounds on connections, on pages that are made at the same time and on
// patience. Label values that strangers write go through Sample. Each page has a registry of its own: the library's default one, which any
// package can add to, is not shown.
//
// A Handler may be asked by any number of goroutines. Serve runs until the function that it returns is called.
package scrape

import (
	"context"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Sample is a metric of one moment. labels are values in the description's order; they may be any bytes, where the library refuses what is no
// UTF-8.
func Sample(of *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string) prometheus.Metric {
	texts := make([]string, len(labels))
	for i, label := range labels {
		texts[i] = Text(label)
	}

	m, err := prometheus.NewConstMetric(of, kind, value, texts...)
	if err != nil {
		return prometheus.NewInvalidMetric(of, err)
	}
	return m
}

// Text is a label's value with U+FFFD for what is no UTF-8.
func Text(label string) string { return strings.ToValidUTF8(label, "�") }

// maxPages is how many pages are made at the same time. One more is answered with 503.
const maxPages = 4

// Handler answers with all that a registry has. A collector that fails takes nothing from the others.
func Handler(registry *prometheus.Registry) http.Handler {
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		ErrorHandling:       promhttp.ContinueOnError,
		MaxRequestsInFlight: maxPages,

		// A page is some 10 kB, and the tables of a compressor are 800 kB.
		DisableCompression: true,
	})
}

// Index answers whoever looks at a port what is there.
func Index(paths ...string) http.Handler {
	text := "mpiup: " + strings.Join(paths, " ") + "\n"
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(text)) // to a client that may have gone
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
	go func() {
		defer close(over)
		_ = s.Serve(limit(l, maxHTTP)) // ends with ErrServerClosed
	}()

	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if s.Shutdown(ctx) != nil {
			_ = s.Close()
		}
		<-over
	}
}
