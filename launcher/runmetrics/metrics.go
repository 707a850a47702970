// Package runmetrics shows how a launcher's run goes, for Prometheus (mpiup run --metrics ADDRESS) and for Kubeflow Trainer (KEP-2779).
//
//	launcher ──Restarted, Ended──▶ Metrics ◀──GET /metrics── Prometheus
//	report.Keeper, how it stands ──────┘ └──POST, a TrainJob's status──▶ Trainer
//
// A launcher ends with its run, and a scrape that comes later finds nobody. So Linger waits, where somebody scrapes, until
// the verdict was read too, and for the last word to Trainer.
//
// Concurrency: all methods may be called at any time, and those of a nil Metrics do nothing. Serve and Tell run until the functions
// that they return are called.
//
// It decides nothing: what it shows is said by who does it.
package runmetrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mpiup/mpiup/launcher/hours"
	"github.com/mpiup/mpiup/launcher/report"
	"github.com/mpiup/mpiup/launcher/verdict"
)

// success is the verdict on a run in which nothing went wrong.
const success = "success"

// Metrics is what /metrics of a launcher shows. The zero value is none; New makes one.
type Metrics struct {
	version string

	// restarts counts those of the ranks by this launcher.
	restarts prometheus.Counter

	// verdicts counts ends of the ranks by kind of verdict.
	verdicts *prometheus.CounterVec

	read chan struct{} // capacity 1: somebody has read what stands

	mu      sync.Mutex
	run     func() (hours.Stand, map[string]time.Duration, []hours.Spent) // nil: none yet, guarded by mu
	values  func() map[string]float64                                     // of --watch, by name; nil: nobody watches, guarded by mu
	scraped bool                                                          // guarded by mu
	over    bool                                                          // Ended was called, guarded by mu
	out     outward                                                       // guarded by mu
}

// outward is what others than Prometheus are told.
type outward struct {
	kind      string         // of the verdict; "": not yet
	again     int            // restarts
	teller    *teller        // nil: Trainer is not told
	telemetry *Telemetry     // nil: nothing is sent by OTLP
	left      *report.Report // of a run that is over and is to be sent
}

// New is the metrics of a run of this build that begins.
func New(version string) *Metrics {
	m := &Metrics{
		version: version,
		restarts: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "mpiup_run_restarts_total",
			Help: "Restarts of the ranks by this launcher.",
		}),
		verdicts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mpiup_run_verdicts_total",
			Help: "Ends of the ranks, by kind of verdict.",
		}, []string{"kind"}),
		read: make(chan struct{}, 1),
	}

	// Each is seen as 0 before it happens, so that a query sees it grow: a launcher counts few, and then ends.
	m.verdicts.WithLabelValues(success)
	for _, k := range verdict.Kinds {
		m.verdicts.WithLabelValues(string(k.Kind))
	}
	return m
}

// Run says who knows how the run stands, how long it was in each phase, and where its ranks' time went.
func (m *Metrics) Run(now func() (hours.Stand, map[string]time.Duration, []hours.Spent)) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.run = now
}

// Progress says who knows what the ranks' lines told last, by name.
func (m *Metrics) Progress(values func() map[string]float64) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.values = values
}

// Restarted counts a restart of the ranks, and why they had failed; empty: they had not.
func (m *Metrics) Restarted(why verdict.Kind) {
	if m == nil {
		return
	}
	m.restarts.Inc()
	m.mu.Lock()
	m.out.again++
	m.mu.Unlock()
	if why != "" {
		m.verdicts.WithLabelValues(string(why)).Inc()
	}
}

// Ended counts the last end of the ranks, nil where nothing went wrong. remains has the run's report, where that is to be sent.
func (m *Metrics) Ended(v *verdict.Verdict, remains *report.Keeper) {
	if m == nil {
		return
	}
	kind := success
	if v != nil {
		kind = string(v.Kind)
	}
	m.verdicts.WithLabelValues(kind).Inc()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.over, m.out.kind = true, kind
	if m.out.telemetry == nil {
		return
	}
	code := 0
	if v != nil {
		code = v.ExitCode
	}
	m.out.left = remains.Made(v, code)
}
