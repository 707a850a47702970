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
	mux := http.NewServeMux()
	mux.Handle("GET /{$}", scrape.Index("/metrics", "/healthz", "/readyz"))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("ok\n")) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if m.cfg.Ending() {
			http.Error(w, "ending", http.StatusServiceUnavailable)
			return
		}
		w.Write([]byte("ok\n"))
	})
	mux.Handle("GET /metrics", scrape.Handler(m.registry(watch)))
	return scrape.Serve(l, mux)
}
