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
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/mpiup/mpiup/internal/exposition"
	"github.com/mpiup/mpiup/launcher/hours"
	"github.com/mpiup/mpiup/launcher/report"
	"github.com/mpiup/mpiup/launcher/verdict"
)

// success is the verdict on a run in which nothing went wrong.
const success = "success"

// Metrics is what /metrics of a launcher shows. The zero value is none; New makes one.
type Metrics struct {
	version  string
	restarts exposition.Count
	verdicts *exposition.Counts
	read     chan struct{} // capacity 1: somebody has read what stands

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
	kinds := []string{success}
	for _, k := range verdict.Kinds {
		kinds = append(kinds, string(k.Kind))
	}
	return &Metrics{version: version, read: make(chan struct{}, 1), verdicts: exposition.NewCounts("kind", kinds...)}
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
		m.verdicts.Inc(string(why))
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
	m.verdicts.Inc(kind)
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

// page is what is shown now.
func (m *Metrics) page() []exposition.Family {
	m.mu.Lock()
	defer m.mu.Unlock()
	phase := exposition.Family{Name: "mpiup_run_phase", Kind: exposition.Gauge, Help: "1 for the phase that the run is in."}
	spent := exposition.Family{Name: "mpiup_run_phase_seconds_total", Kind: exposition.Counter, Help: "Time spent in a phase."}
	ranks := exposition.Family{Name: "mpiup_run_ranks", Kind: exposition.Gauge, Help: "Ranks by state."}
	var is hours.Stand
	var in map[string]time.Duration
	var where []hours.Spent
	if m.run != nil {
		is, in, where = m.run()
	}
	for _, name := range hours.Phases {
		now := 0.0
		if name == is.Phase {
			now = 1
		}
		phase.Add(now, "phase", name)
		spent.Add(in[name].Seconds(), "phase", name)
	}
	for _, state := range slices.Sorted(maps.Keys(is.Ranks)) {
		ranks.Add(float64(is.Ranks[state]), "state", state)
	}
	went := exposition.Family{Name: "mpiup_run_spent_seconds", Kind: exposition.Gauge,
		Help: "Time of all ranks, and of their hosts' GPUs, by what it went into."}
	for _, s := range where {
		went.Add(s.Ranks, "of", "ranks", "cause", s.Cause)
		if s.GPUs > 0 {
			went.Add(s.GPUs, "of", "gpus", "cause", s.Cause)
		}
	}
	slow := exposition.Family{Name: "mpiup_run_waited_for_ratio", Kind: exposition.Gauge,
		Help: "Share of the time that the other ranks wait for this one, where one is named (--watch-ranks)."}
	for _, rank := range slices.Sorted(maps.Keys(is.For)) {
		slow.Add(is.Lost, "rank", strconv.Itoa(rank), "host", is.For[rank])
	}
	step := exposition.Family{Name: "mpiup_run_step_seconds", Kind: exposition.Gauge,
		Help: "How long a training's step takes, by its calls of NCCL (--watch-ranks)."}
	if is.Step > 0 && !m.over {
		step.Add(is.Step.Seconds())
	}
	idle, stalled := 0.0, 0.0
	if !is.Quiet.IsZero() && !m.over {
		idle = time.Since(is.Quiet).Seconds()
	}
	if is.Stalled && !m.over {
		stalled = 1
	}
	progress := exposition.Family{Name: "mpiup_run_progress", Kind: exposition.Gauge,
		Help: "The newest value of a name that --watch reads, of the rank that is least far."}
	if m.values != nil {
		values := m.values()
		for _, name := range slices.Sorted(maps.Keys(values)) {
			progress.Add(values[name], "name", name)
		}
	}
	return []exposition.Family{phase, spent, ranks, went, slow, step, progress,
		exposition.One(exposition.Gauge, "mpiup_run_hosts", "Hosts that the run is connected with.", float64(is.Hosts)),
		exposition.One(exposition.Gauge, "mpiup_run_idle_seconds", "How long no rank has shown work, as far as agents look.", idle),
		exposition.One(exposition.Gauge, "mpiup_run_stalled", "1 while the run has stalled by its --stall-timeout.", stalled),
		exposition.One(exposition.Gauge, "mpiup_build_info", "1, with the build as label.", 1, "version", m.version),
		m.restarts.Family("mpiup_run_restarts_total", "Restarts of the ranks by this launcher."),
		m.verdicts.Family("mpiup_run_verdicts_total", "Ends of the ranks, by kind of verdict.")}
}
