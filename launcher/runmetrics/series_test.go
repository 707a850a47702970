package runmetrics

import (
	"regexp"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/mpiup/mpiup/launcher/hours"
	"github.com/mpiup/mpiup/launcher/verdict"
	"github.com/mpiup/mpiup/test/golden"
)

// busy is the metrics of a run of which everything can be shown: ranks in several states, a rank that others wait for, steps, progress, GPUs.
func busy() *Metrics {
	m := New("v1")
	m.Run(func() (hours.Stand, map[string]time.Duration, []hours.Spent) {
		stand := hours.Stand{
			Phase:   "running",
			Ranks:   map[string]int{"running": 7, "lost": 1},
			Hosts:   2,
			Quiet:   time.Now().Add(-4 * time.Second),
			Stalled: true,
			Step:    1500 * time.Millisecond,
			For:     map[int]string{3: "w1", 12: "w\xff"},
			Lost:    0.25,
		}
		in := map[string]time.Duration{"gathering": time.Second, "running": 90 * time.Second}
		spent := []hours.Spent{{Cause: "running", Ranks: 630, GPUs: 360}, {Cause: "waiting", Ranks: 8}}
		return stand, in, spent
	})
	m.Progress(func() map[string]float64 { return map[string]float64{"step": 41, "loss": 0.125} })
	m.Restarted(verdict.GPUFault)
	m.Restarted("")
	return m
}

// Boards and alerts of users read these names, labels and values.
func TestSeriesOfARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		golden.Is(t, "testdata/series.txt", golden.SortSeries(pageOf(t, busy()), regexp.MustCompile("^$")))
	})
}

// While a run has not begun, and after its end, what cannot be known is left out or 0.
func TestSeriesAroundARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := busy()
		m.Ended(&verdict.Verdict{Kind: verdict.Killed}, nil)
		golden.Is(t, "testdata/before.txt", golden.SortSeries(pageOf(t, New("v1")), regexp.MustCompile("^$")))
		golden.Is(t, "testdata/after.txt", golden.SortSeries(pageOf(t, m), regexp.MustCompile("^$")))
	})
}

// Prometheus' own linter of names and helps finds nothing.
func TestLintOfARun(t *testing.T) {
	problems, err := testutil.GatherAndLint(busy().registry())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}
