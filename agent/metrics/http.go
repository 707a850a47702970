package metrics

import (
	"net"
	"net/http"

	"github.com/mpiup/mpiup/internal/scrape"
)

// Serve answers probes and scrapes. A port that is taken is a warning: jobs do not need it.
// The returned function ends it. watch is nil where no GPUs are watched.
func (m *Metrics) Serve(watch *Watch) (stop func()) {
	if m.cfg.Address == "off" {
		return func() {}
	}
	l, err := net.Listen("tcp", m.cfg.Address)
	if err != nil {
		m.cfg.Log.Warn("no HTTP port, so no /healthz, /readyz and /metrics; use --http to choose another, or exec probes with mpiup agent --check",
			"address", m.cfg.Address, "cause", err)
		return func() {}
	}
	return scrape.Serve(l, m.handler(watch))
}

// handler answers at the port. Whoever asks for health and readiness learns that and nothing else.
func (m *Metrics) handler(watch *Watch) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("ok\n")) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if m.cfg.Ending() {
			http.Error(w, "not ready", http.StatusServiceUnavailable)
			return
		}
		w.Write([]byte("ready\n"))
	})

	if m.cfg.Unshown {
		mux.Handle("GET /{$}", scrape.Index("/healthz", "/readyz"))
		return mux
	}
	mux.Handle("GET /{$}", scrape.Index("/metrics", "/healthz", "/readyz"))
	mux.Handle("GET /metrics", scrape.Handler(m.registry(watch)))
	return mux
}
