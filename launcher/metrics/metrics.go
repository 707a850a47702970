// Package metrics shows how a launcher's run goes, for Prometheus (mpiup run --metrics ADDRESS).
//
//	launcher ──Phase, Census, Quiet, Restarted, Ended──▶ Metrics ──GET /metrics──▶ Prometheus
//
// A launcher ends with its run, and a scrape that comes later finds nobody. So Linger waits, where somebody scrapes, until
// the verdict was read too.
//
// Concurrency: all methods may be called at any time, and those of a nil Metrics do nothing. Serve runs until the function
// that it returns is called.
//
// It decides nothing: what it shows is said by who does it.
package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mpiup/mpiup/launcher/verdict"
)

// Phases are how far a run has come, in their order.
var Phases = []string{"gathering", "placing", "launching", "wiring", "running", "stopping", "done"}

// success is the verdict on a run in which nothing went wrong.
const success = "success"

// Metrics is what /metrics of a launcher shows. The zero value is none; New makes one.
type Metrics struct {
	registry *prometheus.Registry
	restarts prometheus.Counter
	verdicts *prometheus.CounterVec
	read     chan struct{} // capacity 1: somebody has read what stands

	phase, spent, ranks, hosts, idle, stalled *prometheus.Desc

	mu      sync.Mutex
	now     string                   // phase, guarded by mu
	since   time.Time                // it began, guarded by mu
	past    map[string]time.Duration // spent in phases before, guarded by mu
	census  map[string]int           // ranks by state, guarded by mu
	reached int                      // hosts, guarded by mu
	quiet   time.Time                // since when no rank has shown work, zero: one does, guarded by mu
	hangs   bool                     // guarded by mu
	scraped bool                     // guarded by mu
	over    bool                     // Ended was called, guarded by mu
}

// New is the metrics of a run of this build that begins.
func New(version string) *Metrics {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("mpiup_run_"+name, help, labels, nil)
	}
	m := &Metrics{registry: prometheus.NewRegistry(), read: make(chan struct{}, 1), now: Phases[0], since: time.Now(), past: map[string]time.Duration{},
		restarts: prometheus.NewCounter(prometheus.CounterOpts{Name: "mpiup_run_restarts_total", Help: "Restarts of the ranks by this launcher."}),
		verdicts: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "mpiup_run_verdicts_total", Help: "Ends of the ranks, by kind of verdict."}, []string{"kind"}),
		phase:    desc("phase", "1 for the phase that the run is in.", "phase"),
		spent:    desc("phase_seconds_total", "Time spent in a phase.", "phase"),
		ranks:    desc("ranks", "Ranks by state.", "state"),
		hosts:    desc("hosts", "Hosts that the run is connected with."),
		idle:     desc("idle_seconds", "How long no rank has shown work, as far as agents look."),
		stalled:  desc("stalled", "1 while the run has stalled by its --stall-timeout."),
	}
	m.verdicts.WithLabelValues(success)
	for _, k := range verdict.Kinds {
		m.verdicts.WithLabelValues(string(k.Kind))
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{Name: "mpiup_build_info", Help: "1, with the build as label.", ConstLabels: prometheus.Labels{"version": version}})
	build.Set(1)
	m.registry.MustRegister(m, build, m.restarts, m.verdicts)
	return m
}

// Phase notes that the run enters a phase.
func (m *Metrics) Phase(name string) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if name != m.now {
		at := time.Now()
		m.past[m.now] += at.Sub(m.since)
		m.now, m.since = name, at
	}
}

// Census notes the ranks by state, and how many hosts are connected.
func (m *Metrics) Census(ranks map[string]int, hosts int) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.census, m.reached = ranks, hosts
}

// Quiet notes since when no rank has shown work, zero while one does, and whether the run has stalled.
func (m *Metrics) Quiet(since time.Time, stalled bool) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.quiet, m.hangs = since, stalled
}

// Restarted counts a restart of the ranks, and why they had failed; empty: they had not.
func (m *Metrics) Restarted(why verdict.Kind) {
	if m == nil {
		return
	}
	m.restarts.Inc()
	if why != "" {
		m.verdicts.WithLabelValues(string(why)).Inc()
	}
}

// Ended counts the last end of the ranks, nil where nothing went wrong.
func (m *Metrics) Ended(v *verdict.Verdict) {
	if m == nil {
		return
	}
	kind := success
	if v != nil {
		kind = string(v.Kind)
	}
	m.Phase("done")
	m.verdicts.WithLabelValues(kind).Inc()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.over = true
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.phase, m.spent, m.ranks, m.hosts, m.idle, m.stalled} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	m.mu.Lock()
	defer m.mu.Unlock()
	gauge := func(d *prometheus.Desc, v float64, label ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, label...)
	}
	for _, name := range Phases {
		is, spent := 0.0, m.past[name]
		if name == m.now {
			is, spent = 1, spent+time.Since(m.since)
		}
		gauge(m.phase, is, name)
		to <- prometheus.MustNewConstMetric(m.spent, prometheus.CounterValue, spent.Seconds(), name)
	}
	for state, n := range m.census {
		gauge(m.ranks, float64(n), state)
	}
	gauge(m.hosts, float64(m.reached))
	idle, stalled := 0.0, 0.0
	if !m.quiet.IsZero() && !m.over {
		idle = time.Since(m.quiet).Seconds()
	}
	if m.hangs && !m.over {
		stalled = 1
	}
	gauge(m.idle, idle)
	gauge(m.stalled, stalled)
}
