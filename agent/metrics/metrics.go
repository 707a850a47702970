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
	Ranks    func() map[string]int        // that run here, by state; States has all
	Version  string                       // build
}

// Metrics is what /metrics shows.
type Metrics struct {
	cfg      Config
	registry *prometheus.Registry

	Started  prometheus.Counter     // processes
	Failed   *prometheus.CounterVec // processes that ended with a code other than 0 or by a signal, by How
	Jobs     prometheus.Counter     // with ranks here
	Fenced   prometheus.Counter     // sessions that a newer life of their launcher ended
	Refusals prometheus.Counter     // of connections
	OutBytes prometheus.Counter     // of output
}

// States are the states of ranks, by apiv1.RankPhase.
var States = []string{"no-mpi", "before-init", "waiting", "running", "finalized"}

// How processes fail, as the label of Failed.
const (
	ByCode   = "code"
	BySignal = "signal"
	ByOOM    = "oom"
	Stopped  = "stopped" // mpiup ended it
)

// New makes the counters; nothing is served until Serve.
func New(c Config) *Metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "mpiup", Name: name, Help: help})
	}
	m := &Metrics{cfg: c,
		Started: counter("processes_started_total", "Processes started for launchers."),
		Failed: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "mpiup", Name: "processes_failed_total",
			Help: "Processes that ended with a code other than 0 or by a signal."}, []string{"how"}),
		Jobs:     counter("jobs_started_total", "Jobs that were to start ranks here."),
		Fenced:   counter("sessions_fenced_total", "Sessions ended because their launcher was started anew."),
		Refusals: counter("connections_refused_total", "Connections refused before or during the TLS handshake."),
		OutBytes: counter("output_bytes_total", "Bytes of output sent to launchers."),
	}
	for _, how := range []string{ByCode, BySignal, ByOOM, Stopped} {
		m.Failed.WithLabelValues(how)
	}
	return m
}

// register is done only where there is an HTTP port.
func (m *Metrics) register(watch *gpuwatch.Watch) {
	m.registry = prometheus.NewRegistry()
	m.registry.MustRegister(m.Started, m.Failed, m.Refusals, m.OutBytes, m.Jobs, m.Fenced, rankMetrics{m.cfg.Ranks}, collectors.NewGoCollector(),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "mpiup", Name: "sessions", Help: "Sessions open."},
			func() float64 { return float64(m.cfg.Sessions()) }))
	for _, state := range []member.State{member.Alive, member.Suspect, member.Left} {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "mpiup", Name: "peers",
			Help: "Peers known by gossip, this agent included.", ConstLabels: prometheus.Labels{"state": state.String()}},
			func() float64 { return float64(m.cfg.Peers(state)) }))
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "mpiup", Name: "build_info", Help: "1, with the build as label.",
		ConstLabels: prometheus.Labels{"version": m.cfg.Version}})
	build.Set(1)
	m.registry.MustRegister(build)
	if watch != nil {
		m.registry.MustRegister(newGPUMetrics(watch))
	}
}

// rankMetrics counts ranks by state, all in one look.
type rankMetrics struct{ count func() map[string]int }

var ranksDesc = prometheus.NewDesc("mpiup_ranks", "Ranks that run here, by how far their MPI library has come.", []string{"state"}, nil)

// Describe implements prometheus.Collector.
func (rankMetrics) Describe(to chan<- *prometheus.Desc) { to <- ranksDesc }

// Collect implements prometheus.Collector.
func (r rankMetrics) Collect(to chan<- prometheus.Metric) {
	n := r.count()
	for _, state := range States {
		to <- prometheus.MustNewConstMetric(ranksDesc, prometheus.GaugeValue, float64(n[state]), state)
	}
}
