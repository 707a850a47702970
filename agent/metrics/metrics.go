// Package metrics is an agent's HTTP port: health, readiness and what /metrics shows, with the GPUs' use where somebody
// reads it.
//
//	GET /healthz   200 while the process runs
//	GET /readyz    503 once the agent ends
//	GET /metrics   counters of this package, gauges of the functions in Config, the GPU watch's latest report
//
// Concurrency: New only builds, and the counters count from then on. Serve runs until the function that it returns is
// called, on goroutines of the caller's group.
//
// It decides nothing: what is counted is said by who does it.
package metrics

import (
	"log/slog"

	"github.com/mpiup/mpiup/agent/gpuwatch"
	"github.com/mpiup/mpiup/agent/member"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// Config is what an agent's metrics are made of.
type Config struct {
	Address  string // of the HTTP port; "off" for none
	Log      *slog.Logger
	Ending   func() bool                  // the agent ends
	Sessions func() int                   // that are open
	Peers    func(state member.State) int // known by gossip, this agent included
}

// Metrics is what /metrics shows.
type Metrics struct {
	cfg      Config
	registry *prometheus.Registry

	Started  prometheus.Counter // processes
	Failed   prometheus.Counter // processes that ended with a code other than 0 or by a signal
	Refusals prometheus.Counter // of connections
	OutBytes prometheus.Counter // of output
}

// New makes the counters; nothing is served until Serve.
func New(c Config) *Metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "mpiup", Name: name, Help: help})
	}
	return &Metrics{cfg: c,
		Started:  counter("processes_started_total", "Processes started for launchers."),
		Failed:   counter("processes_failed_total", "Processes that ended with a code other than 0 or by a signal."),
		Refusals: counter("connections_refused_total", "Connections refused before or during the TLS handshake."),
		OutBytes: counter("output_bytes_total", "Bytes of output sent to launchers."),
	}
}

// register is done only where there is an HTTP port.
func (m *Metrics) register(watch *gpuwatch.Watch) {
	m.registry = prometheus.NewRegistry()
	m.registry.MustRegister(m.Started, m.Failed, m.Refusals, m.OutBytes, collectors.NewGoCollector(),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "mpiup", Name: "sessions", Help: "Sessions open."},
			func() float64 { return float64(m.cfg.Sessions()) }))
	for _, state := range []member.State{member.Alive, member.Suspect, member.Left} {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "mpiup", Name: "peers",
			Help: "Peers known by gossip, this agent included.", ConstLabels: prometheus.Labels{"state": state.String()}},
			func() float64 { return float64(m.cfg.Peers(state)) }))
	}
	if watch != nil {
		m.registry.MustRegister(newGPUMetrics(watch))
	}
}
