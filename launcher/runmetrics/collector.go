package runmetrics

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mpiup/mpiup/internal/scrape"
	"github.com/mpiup/mpiup/launcher/hours"
)

// registry has all that /metrics shows.
func (m *Metrics) registry() *prometheus.Registry {
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "mpiup_build_info",
		Help: "1, with the build as label.",
	}, []string{"version"})
	build.WithLabelValues(scrape.Text(m.version)).Set(1)

	r := prometheus.NewRegistry()
	r.MustRegister(m.restarts, m.verdicts, build, newRunCollector(m))
	return r
}

// runCollector shows how the run stands, all of it as of one moment.
type runCollector struct {
	m *Metrics

	phase, phaseSeconds, ranks, hosts *prometheus.Desc
	spent                             *prometheus.Desc
	idle, stalled                     *prometheus.Desc
	waitedFor, step, progress         *prometheus.Desc
}

func newRunCollector(m *Metrics) *runCollector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("mpiup_run_"+name, help, labels, nil)
	}
	return &runCollector{
		m:            m,
		phase:        desc("phase", "1 for the phase that the run is in.", "phase"),
		phaseSeconds: desc("phase_seconds_total", "Time spent in a phase.", "phase"),
		ranks:        desc("ranks", "Ranks by state.", "state"),
		hosts:        desc("hosts", "Hosts that the run is connected with."),
		spent:        desc("spent_seconds", "Time of all ranks, and of their hosts' GPUs, by what it went into.", "of", "cause"),
		idle:         desc("idle_seconds", "How long no rank has shown work, as far as agents look."),
		stalled:      desc("stalled", "1 while the run has stalled by its --stall-timeout."),
		waitedFor: desc("waited_for_ratio",
			"Share of the time that the other ranks wait for this one, where one is named (--watch-ranks).", "rank", "host"),
		step: desc("step_seconds", "How long a training's step takes, by its calls of NCCL (--watch-ranks)."),
		progress: desc("progress",
			"The newest value of a name that --watch reads, of the rank that is least far.", "name"),
	}
}

// Describe says which series there may be.
func (c *runCollector) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{
		c.phase, c.phaseSeconds, c.ranks, c.hosts, c.spent, c.idle, c.stalled, c.waitedFor, c.step, c.progress,
	} {
		to <- desc
	}
}

// Collect asks those who know how the run stands.
func (c *runCollector) Collect(to chan<- prometheus.Metric) {
	m := c.m
	m.mu.Lock()
	defer m.mu.Unlock()
	gauge := func(of *prometheus.Desc, value float64, labels ...string) {
		to <- scrape.Sample(of, prometheus.GaugeValue, value, labels...)
	}

	var is hours.Stand
	var in map[string]time.Duration
	var spent []hours.Spent
	if m.run != nil {
		is, in, spent = m.run()
	}

	for _, name := range hours.Phases {
		now := 0.0
		if name == is.Phase {
			now = 1
		}
		gauge(c.phase, now, name)
		to <- scrape.Sample(c.phaseSeconds, prometheus.CounterValue, in[name].Seconds(), name)
	}
	for state, n := range is.Ranks {
		gauge(c.ranks, float64(n), state)
	}
	gauge(c.hosts, float64(is.Hosts))

	for _, s := range spent {
		gauge(c.spent, s.Ranks, "ranks", s.Cause)
		if s.GPUs > 0 {
			gauge(c.spent, s.GPUs, "gpus", s.Cause)
		}
	}

	for rank, host := range is.For {
		gauge(c.waitedFor, is.Lost, strconv.Itoa(rank), host)
	}
	if is.Step > 0 && !m.over {
		gauge(c.step, is.Step.Seconds())
	}

	idle := 0.0
	stalled := 0.0
	if !is.Quiet.IsZero() && !m.over {
		idle = time.Since(is.Quiet).Seconds()
	}
	if is.Stalled && !m.over {
		stalled = 1
	}
	gauge(c.idle, idle)
	gauge(c.stalled, stalled)

	if m.values != nil {
		for name, value := range m.values() {
			gauge(c.progress, value, name)
		}
	}
}
