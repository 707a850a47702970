package runmetrics

import (
	"context"
	"net"
	"net/http"
	"os"
	"syscall"
	"time"

	"github.com/mpiup/mpiup/internal/crowd"
	"github.com/mpiup/mpiup/internal/exposition"
)

// maxHTTP bounds the connections to the port, which asks nobody who he is, as the agent's does.
const maxHTTP = 64

// patience is how long Linger waits: two scrapes a minute are Prometheus' slowest common pace.
const patience = 35 * time.Second

// Serve answers scrapes at l until stop is called.
func (m *Metrics) Serve(l net.Listener) (stop func()) {
	mux := http.NewServeMux()
	mux.Handle("GET /{$}", exposition.Index("/metrics"))
	mux.Handle("GET /metrics", m.handler())
	s := &http.Server{Handler: mux, ReadTimeout: 5 * time.Second, WriteTimeout: 10 * time.Second,
		IdleTimeout: 30 * time.Second, MaxHeaderBytes: 8 << 10}
	over := make(chan struct{})
	go func() { defer close(over); _ = s.Serve(crowd.Limit(l, maxHTTP)) }() // ends with ErrServerClosed
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if s.Shutdown(ctx) != nil {
			_ = s.Close()
		}
		<-over
	}
}

func (m *Metrics) handler() http.Handler {
	show := exposition.Handler(m.page)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.mu.Lock()
		m.scraped = true
		over := m.over
		m.mu.Unlock()
		show.ServeHTTP(w, r)
		if !over {
			return
		}
		select {
		case m.read <- struct{}{}:
		default:
		}
	})
}

// Linger waits until somebody has read the end, at most for a while, and not where nobody has scraped or a signal asks to
// end.
func (m *Metrics) Linger(signals <-chan os.Signal) {
	if m == nil {
		return
	}
	m.mu.Lock()
	scraped := m.scraped
	m.mu.Unlock()
	if !scraped {
		return
	}
	end := time.After(patience)
	for {
		select {
		case <-m.read:
			return
		case <-end:
			return
		case s := <-signals:
			if s == syscall.SIGINT || s == syscall.SIGTERM || s == syscall.SIGHUP {
				return
			}
		}
	}
}
