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

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/mpiup/mpiup/agent/host"
	"github.com/mpiup/mpiup/agent/member"
	"github.com/mpiup/mpiup/internal/scrape"
)

// Config is what an agent's metrics are made of.
type Config struct {
	Address  string // of the HTTP port; "off" for none
	Unshown  bool   // it has no /metrics
	Log      *slog.Logger
	Ending   func() bool                  // the agent ends
	Sessions func() int                   // that are open
	Peers    func(state member.State) int // known by gossip, this agent included
	Ranks    func() map[string]int        // that run here, by state; States has all
	Version  string                       // build

	Name string     // of the host, which is the pod's
	Host *host.Host // where sessions have their directories
}

// Metrics is what /metrics shows.
type Metrics struct {
	cfg Config

	// Started counts processes.
	Started prometheus.Counter

	// Failed counts processes that ended with a code other than 0 or by a signal, by how: ByCode and its like.
	Failed *prometheus.CounterVec

	// Jobs counts those with ranks here.
	Jobs prometheus.Counter

	// Fenced counts sessions that a newer life of their launcher ended.
	Fenced prometheus.Counter

	// Refusals counts connections.
	Refusals prometheus.Counter

	// OutBytes counts bytes of output.
	OutBytes prometheus.Counter
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
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	m := &Metrics{
		cfg:     c,
		Started: counter("mpiup_processes_started_total", "Processes started for launchers."),
		Failed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mpiup_processes_failed_total",
			Help: "Processes that ended with a code other than 0 or by a signal.",
		}, []string{"how"}),
		Jobs:     counter("mpiup_jobs_started_total", "Jobs that were to start ranks here."),
		Fenced:   counter("mpiup_sessions_fenced_total", "Sessions ended because their launcher was started anew."),
		Refusals: counter("mpiup_connections_refused_total", "Connections refused before or during the TLS handshake."),
		OutBytes: counter("mpiup_output_bytes_total", "Bytes of output sent to launchers."),
	}

	// Each is seen as 0 before it happens for the first time, so that a query sees it grow.
	for _, how := range []string{ByCode, BySignal, ByOOM, Stopped} {
		m.Failed.WithLabelValues(how)
	}
	return m
}

// registry has all that /metrics shows. watch is nil where no GPUs are watched.
func (m *Metrics) registry(watch *Watch) *prometheus.Registry {
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "mpiup_build_info",
		Help: "1, with the build as label.",
	}, []string{"version"})
	build.WithLabelValues(scrape.Text(m.cfg.Version)).Set(1)

	sessions := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "mpiup_sessions", Help: "Sessions open."},
		func() float64 { return float64(m.cfg.Sessions()) })

	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), m.Started, m.Failed, m.Jobs, m.Fenced, m.Refusals, m.OutBytes, sessions, build)
	r.MustRegister(m.newStateCollector(), newInspectorCollector(m))
	if watch != nil {
		r.MustRegister(newGPUCollector(watch))
	}
	return r
}

// stateCollector counts peers and ranks by their state, ranks in one look, so that none is counted twice or not at all.
type stateCollector struct {
	cfg          *Config
	peers, ranks *prometheus.Desc
}

func (m *Metrics) newStateCollector() *stateCollector {
	return &stateCollector{
		cfg:   &m.cfg,
		peers: prometheus.NewDesc("mpiup_peers", "Peers known by gossip, this agent included.", []string{"state"}, nil),
		ranks: prometheus.NewDesc("mpiup_ranks", "Ranks that run here, by how far their MPI library has come.", []string{"state"}, nil),
	}
}

// Describe says which series there may be.
func (c *stateCollector) Describe(to chan<- *prometheus.Desc) {
	to <- c.peers
	to <- c.ranks
}

// Collect counts.
func (c *stateCollector) Collect(to chan<- prometheus.Metric) {
	for _, state := range []member.State{member.Alive, member.Left, member.Suspect} {
		to <- scrape.Sample(c.peers, prometheus.GaugeValue, float64(c.cfg.Peers(state)), state.String())
	}
	ranks := c.cfg.Ranks()
	for _, state := range States {
		to <- scrape.Sample(c.ranks, prometheus.GaugeValue, float64(ranks[state]), state)
	}
}
