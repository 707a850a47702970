package metrics

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// A probe learns whether the agent is ready, and nothing else: with /metrics and without.
func TestReadiness(t *testing.T) {
	for _, tt := range []struct {
		path            string
		ending, unshown bool
		status          int
		body            string
	}{
		{"/readyz", false, false, http.StatusOK, "ready\n"},
		{"/readyz", true, false, http.StatusServiceUnavailable, "not ready\n"},
		{"/readyz", false, true, http.StatusOK, "ready\n"},
		{"/readyz", true, true, http.StatusServiceUnavailable, "not ready\n"},
		{"/healthz", true, true, http.StatusOK, "ok\n"},
		{"/", false, false, http.StatusOK, "mpiup: /metrics /healthz /readyz\n"},
		{"/", false, true, http.StatusOK, "mpiup: /healthz /readyz\n"},
		{"/metrics", false, true, http.StatusNotFound, "404 page not found\n"},
		{"/readyz/x", false, false, http.StatusNotFound, "404 page not found\n"},
	} {
		m, _ := busy(t)
		m.cfg.Ending, m.cfg.Unshown = func() bool { return tt.ending }, tt.unshown
		w := httptest.NewRecorder()
		m.handler(nil).ServeHTTP(w, httptest.NewRequest(http.MethodGet, tt.path, nil))
		if w.Code != tt.status || w.Body.String() != tt.body {
			t.Errorf("%s of an agent that ends: %v, without metrics: %v: %d %q, want %d %q", tt.path, tt.ending, tt.unshown, w.Code, w.Body, tt.status, tt.body)
		}
		for name := range w.Header() {
			if name != "Content-Type" && name != "X-Content-Type-Options" {
				t.Errorf("%s: a header %s", tt.path, name)
			}
		}
	}
}
