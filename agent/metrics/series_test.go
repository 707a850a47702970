package metrics

import (
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/mpiup/mpiup/agent/host"
	"github.com/mpiup/mpiup/agent/member"
	"github.com/mpiup/mpiup/gpu"
	"github.com/mpiup/mpiup/test/golden"
)

// busy is the metrics of an agent of which everything can be shown: ranks, peers, failures, two GPUs, NCCL's Inspector.
func busy(t *testing.T) (*Metrics, *Watch) {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	m := New(Config{
		Address:  "127.0.0.1:0",
		Log:      log,
		Ending:   func() bool { return false },
		Sessions: func() int { return 2 },
		Peers:    func(s member.State) int { return map[member.State]int{member.Alive: 3, member.Left: 1}[s] },
		Ranks:    func() map[string]int { return map[string]int{"running": 4, "no-mpi": 1} },
		Version:  `v1 "of" a\b`,
		Name:     "w0",
		Host:     host.New(host.Config{RunDir: t.TempDir(), Log: log}),
	})
	m.Started.Inc()
	m.Started.Inc()
	m.Jobs.Inc()
	m.Refusals.Inc()
	m.Failed.WithLabelValues(ByOOM).Inc()
	m.OutBytes.Add(1234567)

	// What a rank writes need not be UTF-8.
	prefix := m.Inspect("0123abcd45", 1, []uint32{0})
	text := inspected + "nccl_collective_exec_time_microseconds{gpu=\"0\"} 7\nnccl_p2p_bus_bandwidth_gbs{gpu=\"0\"} 3\nnccl_bus_bandwidth_gbs{gpu=\"\xff\"} +Inf\n"
	if err := os.WriteFile(filepath.Join(prefix+"0", "a.prom"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}

	corrected := uint64(7)
	two, err := json.Marshal(gpu.Report{Version: gpu.ReportVersion, GPUs: []gpu.ReportGPU{
		{UUID: "GPU-a", PCI: "0000:1b:00.0", Memory: 80 << 30, Health: &gpu.Health{ECC: true, Uncorrected: 2},
			Usage: &gpu.Usage{Compute: 50, Memory: 1 << 30, Celsius: 61, Power: 312500, Corrected: &corrected, Xids: 3}},
		{UUID: "GPU-b", PCI: "0000:1c:00.0", Memory: 80 << 30, Usage: &gpu.Usage{}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	watch := NewWatch(WatchConfig{Log: log})
	watch.Latest()
	if err := watch.take(two); err != nil {
		t.Fatal(err)
	}
	return m, watch
}

// pageOf is what a scraper is answered at the HTTP port.
func pageOf(t *testing.T, m *Metrics, watch *Watch) string {
	t.Helper()
	l, err := net.Listen("tcp", m.cfg.Address)
	if err != nil {
		t.Fatal(err)
	}
	m.cfg.Address = l.Addr().String()
	l.Close()
	defer m.Serve(watch)()

	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := client.Get("http://" + m.cfg.Address + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK {
		t.Fatalf("%s: %v\n%s", r.Status, err, text)
	}
	return string(text)
}

// Boards and alerts of users read these names, labels and values. Go's own vary.
func TestSeriesOfAnAgent(t *testing.T) {
	m, watch := busy(t)
	page := pageOf(t, m, watch)
	page = strings.ReplaceAll(page, strconv.Quote(runtime.Version()), `"VERSION"`)
	golden.Is(t, "testdata/series.txt", golden.SortSeries(page, regexp.MustCompile("^go_")))
}

// Prometheus' own linter of names and helps finds nothing but what others have named.
func TestLintOfAnAgent(t *testing.T) {
	m, watch := busy(t)
	problems, err := testutil.GatherAndLint(m.registry(watch))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, p := range problems {
		found[p.Metric] = true
		if foreign[p.Metric] == "" {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
	for name := range foreign {
		if !found[name] {
			t.Errorf("%s is named well: take it off the list", name)
		}
	}
}

// foreign are series whose names the linter does not like, and why they stay.
var foreign = map[string]string{
	"nccl_collective_exec_time_microseconds": "NCCL's Inspector's, as its own exporters show it",
	"nccl_p2p_exec_time_microseconds":        "the same",
}
