package runmetrics

import (
	"net"
	"net/http"
	"os"
	"syscall"
	"time"

	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/scrape"
)

// patience is how long Linger waits: two scrapes a minute are Prometheus' slowest common pace.
const patience = 35 * time.Second

// Serve answers scrapes at l until stop is called.
func (m *Metrics) Serve(l net.Listener) (stop func()) {
	mux := http.NewServeMux()
	mux.Handle("GET /{$}", scrape.Index("/metrics"))
	mux.Handle("GET /metrics", m.handler())
	return scrape.Serve(l, mux)
}

func (m *Metrics) handler() http.Handler {
	show := scrape.Handler(m.registry())
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
// end. Before it Trainer gets its last word.
func (m *Metrics) Linger(signals <-chan os.Signal, say func(format string, args ...any)) {
	if m == nil {
		return
	}
	m.mu.Lock()
	scraped, over, teller := m.scraped, m.over, m.out.teller
	m.mu.Unlock()
	if teller != nil && over {
		teller.lastWord(signals)
	}
	if !scraped {
		return
	}
	say("the metrics stay until they are read once more, for %v at most; Ctrl-C ends that", patience)
	end := time.After(patience)
	for {
		select {
		case <-m.read:
			return
		case <-end:
			return
		case s := <-signals:
			if sig, ok := s.(syscall.Signal); ok && job.EndsWaiting(int(sig)) {
				return
			}
		}
	}
}
