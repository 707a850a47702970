package agent

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/mpiup/mpiup/agent/gpuwatch"
	"github.com/mpiup/mpiup/agent/member"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metrics is what /metrics shows.
type metrics struct {
	agent    *Agent
	registry *prometheus.Registry
	started  prometheus.Counter
	failed   prometheus.Counter
	refusals prometheus.Counter
	outBytes prometheus.Counter
}

func newMetrics(a *Agent) *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "mpiup", Name: name, Help: help})
	}
	m := &metrics{agent: a,
		started:  counter("processes_started_total", "Processes started for launchers."),
		failed:   counter("processes_failed_total", "Processes that ended with a code other than 0 or by a signal."),
		refusals: counter("connections_refused_total", "Connections refused before or during the TLS handshake."),
		outBytes: counter("output_bytes_total", "Bytes of output sent to launchers."),
	}
	return m
}

// register is done only where there is an HTTP port.
func (m *metrics) register() {
	m.registry = prometheus.NewRegistry()
	m.registry.MustRegister(m.started, m.failed, m.refusals, m.outBytes, collectors.NewGoCollector(),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "mpiup", Name: "sessions", Help: "Sessions open."},
			func() float64 { return float64(m.sessionCount()) }))
	for _, state := range []member.State{member.Alive, member.Suspect, member.Left} {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "mpiup", Name: "peers",
			Help: "Peers known by gossip, this agent included.", ConstLabels: prometheus.Labels{"state": state.String()}},
			func() float64 { return float64(m.agent.peersIn(state)) }))
	}
}

func (a *Agent) peersIn(state member.State) (n int) {
	if a.gossip == nil {
		return 0
	}
	for _, p := range a.gossip.View().Members {
		if p.State == state {
			n++
		}
	}
	return n
}

func (m *metrics) sessionCount() int {
	m.agent.mu.Lock()
	defer m.agent.mu.Unlock()
	return len(m.agent.sessions)
}

// maxHTTP bounds the connections to the HTTP port, which asks nobody who he is.
const maxHTTP = 64

// serveHTTP answers probes and scrapes. A port that is taken is a warning: jobs do not need it.
// The returned function ends it.
func (a *Agent) serveHTTP(parts *sync.WaitGroup, watch *gpuwatch.Watch) (stop func()) {
	if a.cfg.HTTP == "off" {
		return func() {}
	}
	l, err := net.Listen("tcp", a.cfg.HTTP)
	if err != nil {
		a.cfg.Log.Warn("no HTTP port, so no /healthz, /readyz and /metrics; use --http to choose another, or exec probes with mpiup agent --check",
			"address", a.cfg.HTTP, "cause", err)
		return func() {}
	}
	a.metrics.register()
	if watch != nil {
		a.metrics.registry.MustRegister(newGPUMetrics(watch))
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("ok\n")) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if a.isStopping() {
			http.Error(w, "ending", http.StatusServiceUnavailable)
			return
		}
		w.Write([]byte("ok\n"))
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(a.metrics.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4}))
	s := &http.Server{Handler: mux, ReadTimeout: 5 * time.Second, WriteTimeout: 10 * time.Second,
		IdleTimeout: 30 * time.Second, MaxHeaderBytes: 8 << 10}
	parts.Go(func() { s.Serve(&limited{Listener: l, most: maxHTTP}) })
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if s.Shutdown(ctx) != nil {
			s.Close()
		}
	}
}

// limited is a listener with a bounded number of open connections: for one more the oldest of the
// address that has most is closed. Probes and scrapes are short, so it is one that somebody holds
// open for no use, and a probe is never kept waiting by such.
type limited struct {
	net.Listener
	most  int
	conns crowd[*limitedConn]
}

func (l *limited) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	lc := &limitedConn{Conn: c, listener: l}
	from, _ := netip.ParseAddrPort(c.RemoteAddr().String())
	if old := l.conns.add(lc, from.Addr().Unmap(), l.most); old != nil {
		old.Close()
	}
	return lc, nil
}

type limitedConn struct {
	net.Conn
	listener *limited
}

func (c *limitedConn) Close() error {
	c.listener.conns.remove(c)
	return c.Conn.Close()
}
