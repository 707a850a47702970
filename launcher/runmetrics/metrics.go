// Package runmetrics shows how a launcher's run goes, for Prometheus (mpiup run --metrics ADDRESS).
//
//	launcher ──Phase, Census, Quiet, Slow, Restarted, Ended──▶ Metrics ──GET /metrics──▶ Prometheus
//
// A launcher ends with its run, and a scrape that comes later finds nobody. So Linger waits, where somebody scrapes, until
// the verdict was read too.
//
// Concurrency: all methods may be called at any time, and those of a nil Metrics do nothing. Serve runs until the function
// that it returns is called.
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
	"github.com/mpiup/mpiup/launcher/verdict"
)

// Phases are how far a run has come, in their order.
var Phases = []string{"gathering", "placing", "launching", "wiring", "running", "stopping", "done"}

// success is the verdict on a run in which nothing went wrong.
const success = "success"

// Metrics is what /metrics of a launcher shows. The zero value is none; New makes one.
type Metrics struct {
	version  string
	restarts exposition.Count
	verdicts *exposition.Counts
	read     chan struct{} // capacity 1: somebody has read what stands

	mu      sync.Mutex
	now     string                    // phase, guarded by mu
	since   time.Time                 // it began, guarded by mu
	past    map[string]time.Duration  // spent in phases before, guarded by mu
	census  map[string]int            // ranks by state, guarded by mu
	reached int                       // hosts, guarded by mu
	quiet   time.Time                 // since when no rank has shown work, zero: one does, guarded by mu
	hangs   bool                      // guarded by mu
	slow    map[int]string            // hosts of ranks that the others wait for, guarded by mu
	lost    float64                   // share of the time that these lose by it, guarded by mu
	values  func() map[string]float64 // of --watch, by name; nil: nobody watches, guarded by mu
	scraped bool                      // guarded by mu
	over    bool                      // Ended was called, guarded by mu
}

// New is the metrics of a run of this build that begins.
func New(version string) *Metrics {
	kinds := []string{success}
	for _, k := range verdict.Kinds {
		kinds = append(kinds, string(k.Kind))
	}
	return &Metrics{version: version, read: make(chan struct{}, 1), now: Phases[0], since: time.Now(), past: map[string]time.Duration{},
		verdicts: exposition.NewCounts("kind", kinds...)}
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

// Slow notes for which ranks the others wait, the host of each, and the share of the time that they lose by it.
func (m *Metrics) Slow(hosts map[int]string, share float64) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.slow, m.lost = hosts, share
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
	if why != "" {
		m.verdicts.Inc(string(why))
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
	m.verdicts.Inc(kind)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.over = true
}

// page is what is shown now.
func (m *Metrics) page() []exposition.Family {
	m.mu.Lock()
	defer m.mu.Unlock()
	phase := exposition.Family{Name: "mpiup_run_phase", Kind: exposition.Gauge, Help: "1 for the phase that the run is in."}
	spent := exposition.Family{Name: "mpiup_run_phase_seconds_total", Kind: exposition.Counter, Help: "Time spent in a phase."}
	ranks := exposition.Family{Name: "mpiup_run_ranks", Kind: exposition.Gauge, Help: "Ranks by state."}
	for _, name := range Phases {
		is, took := 0.0, m.past[name]
		if name == m.now {
			is, took = 1, took+time.Since(m.since)
		}
		phase.Add(is, "phase", name)
		spent.Add(took.Seconds(), "phase", name)
	}
	for _, state := range slices.Sorted(maps.Keys(m.census)) {
		ranks.Add(float64(m.census[state]), "state", state)
	}
	slow := exposition.Family{Name: "mpiup_run_waited_for_ratio", Kind: exposition.Gauge,
		Help: "Share of the time that the other ranks wait for this one, where one is named (--watch-ranks)."}
	for _, rank := range slices.Sorted(maps.Keys(m.slow)) {
		slow.Add(m.lost, "rank", strconv.Itoa(rank), "host", m.slow[rank])
	}
	idle, stalled := 0.0, 0.0
	if !m.quiet.IsZero() && !m.over {
		idle = time.Since(m.quiet).Seconds()
	}
	if m.hangs && !m.over {
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
	return []exposition.Family{phase, spent, ranks, slow, progress,
		exposition.One(exposition.Gauge, "mpiup_run_hosts", "Hosts that the run is connected with.", float64(m.reached)),
		exposition.One(exposition.Gauge, "mpiup_run_idle_seconds", "How long no rank has shown work, as far as agents look.", idle),
		exposition.One(exposition.Gauge, "mpiup_run_stalled", "1 while the run has stalled by its --stall-timeout.", stalled),
		exposition.One(exposition.Gauge, "mpiup_build_info", "1, with the build as label.", 1, "version", m.version),
		m.restarts.Family("mpiup_run_restarts_total", "Restarts of the ranks by this launcher."),
		m.verdicts.Family("mpiup_run_verdicts_total", "Ends of the ranks, by kind of verdict.")}
}
