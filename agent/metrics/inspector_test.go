package metrics

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mpiup/mpiup/agent/host"
	"github.com/mpiup/mpiup/internal/bounded"
	"github.com/mpiup/mpiup/internal/scrape"
	"github.com/mpiup/mpiup/test/cost"
	"github.com/mpiup/mpiup/test/deadmount"
)

// As the README of NCCL's Inspector shows its output.
const (
	inspected = `nccl_bus_bandwidth_gbs{version="v5.1",slurm_job_id="unknown",node="n1",gpu="GPU0",comm_name="DP Group 0",n_nodes="1",nranks="4",collective="AllReduce",message_size="4-5GB",algo_proto="Ring_ll"} 678.263
nccl_p2p_exec_time_microseconds{version="v5.1",slurm_job_id="unknown",node="n1",gpu="GPU0",comm_name="DP Group 0",n_nodes="1",nranks="4",p2p_operation="Send",message_size="512-513MB"} 1154.87
`
	shownOf = `nccl_bus_bandwidth_gbs{algo_proto="Ring_ll",collective="AllReduce",comm_name="DP Group 0",gpu="GPU0",message_size="4-5GB",n_nodes="1",nranks="4",pod="w0",rank="%[1]d",run="0123abcd/1"} 678.263
`
)

// show is a page of one collector.
func show(t *testing.T, c prometheus.Collector) string {
	t.Helper()
	r := prometheus.NewRegistry()
	if err := r.Register(c); err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	scrape.Handler(r).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatal(w.Code, w.Body)
	}
	return w.Body.String()
}

func inspector(t *testing.T) (m *Metrics, write func(rank int, name, text string), page func() string) {
	dirs := t.TempDir()
	m = New(Config{Address: ":0", Host: host.New(host.Config{RunDir: dirs, Log: slog.New(slog.DiscardHandler)}), Name: "w0"})
	prefix := m.Inspect("0123abcd45", 1, []uint32{0, 3})
	if prefix == "" {
		t.Fatal("no folders")
	}
	write = func(rank int, name, text string) {
		if err := os.WriteFile(filepath.Join(prefix+fmt.Sprint(rank), name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return m, write, func() string {
		return show(t, newInspectorCollector(m))
	}
}

func TestInspector(t *testing.T) {
	_, write, page := inspector(t)
	write(0, "nccl_inspector_metrics_a.prom", inspected)
	write(3, "nccl_inspector_metrics_b.prom", "# a comment\n"+inspected)
	got := page()
	for _, rank := range []int{0, 3} {
		if !strings.Contains(got, fmt.Sprintf(shownOf, rank)) {
			t.Errorf("rank %d is not shown in\n%s", rank, got)
		}
	}
	if n := strings.Count(got, "nccl_p2p_exec_time_microseconds{"); n != 2 || strings.Contains(got, "slurm") {
		t.Errorf("the page is\n%s", got)
	}
}

// Two lines of which the bytes that are no text differ are one series, which stands once.
func TestInspectorOfOddBytes(t *testing.T) {
	_, write, page := inspector(t)
	write(0, "a.prom", "nccl_bus_bandwidth_gbs{gpu=\"\xff\"} 1\nnccl_bus_bandwidth_gbs{gpu=\"\xfe\"} 2\n"+inspected)
	got := page()
	if strings.Count(got, `gpu="�"`) != 1 || !strings.Contains(got, fmt.Sprintf(shownOf, 0)) {
		t.Errorf("the page is\n%s", got)
	}
}

// What a rank writes in its folder is said of it alone, and cannot hold the page up or grow it without a bound.
func TestInspectorOfALiar(t *testing.T) {
	m, write, page := inspector(t)
	folder := filepath.Join(m.cfg.Host.SessionsDir(), "session-0123abcd45", inspectorFolder, "1.0")
	if err := syscall.Mkfifo(filepath.Join(folder, "pipe.prom"), 0o600); err != nil {
		t.Fatal(err)
	}
	write(0, "a.prom", `nccl_bus_bandwidth_gbs{rank="3",pod="w9",gpu="1"} 1
nccl_bus_bandwidth_gbs{gpu="1"} 2
mpiup_build_info{gpu="1"} 3
nccl_bus_bandwidth_gbs{gpu="open
nccl_bus_bandwidth_gbs{gpu="\"} 9
up="2"} 5
nccl_bus_bandwidth_gbs{gpu="`+strings.Repeat("x", inspectorText+1)+`"} 4
nccl_bus_bandwidth_gbs{`+strings.Repeat(`l="1",`, 100)+"} x\n")
	write(0, "b.prom", strings.Repeat("x", inspectorBytes+1))
	old := filepath.Join(folder, "old.prom")
	write(0, "old.prom", inspected)
	if at := time.Now().Add(-2 * inspectorStale); os.Chtimes(old, at, at) != nil {
		t.Fatal("no times")
	}
	got := page()
	if want := "nccl_bus_bandwidth_gbs{gpu=\"1\",pod=\"w0\",rank=\"0\",run=\"0123abcd/1\"} 1\n"; strings.Count(got, "\n") != 3 || !strings.HasSuffix(got, want) {
		t.Errorf("the page is\n%s", got)
	}
	var many strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&many, "nccl_bus_bandwidth_gbs{gpu=\"%d\"} 1\n", i)
	}
	for i := range 2 * inspectorFiles {
		write(0, fmt.Sprint("many", i, ".prom"), strings.ReplaceAll(many.String(), "{", fmt.Sprintf(`{comm_name="%d",`, i)))
	}
	if n := strings.Count(page(), "\n"); n > inspectorSeries+8 {
		t.Errorf("one rank fills %d lines", n)
	}
	for i := range inspectorRanks + 10 {
		if err := os.Mkdir(filepath.Join(filepath.Dir(folder), fmt.Sprint("2.", i)), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	folders, err := bounded.HoldDir(filepath.Dir(folder))
	if err != nil {
		t.Fatal(err)
	}
	defer folders.Close()
	if n := len(firstNames(folders, inspectorRanks)); n != inspectorRanks {
		t.Errorf("%d folders are read", n)
	}
	if off := New(Config{Address: "off", Host: m.cfg.Host}); off.Inspect("1", 1, []uint32{0}) != "" {
		t.Error("where nobody reads, Inspector is told to write elsewhere")
	}
}

// One large file by very many names, and pipes in the place of folders, cost a page no more than its bounds.
func TestInspectorOfHardLinks(t *testing.T) {
	m, write, page := inspector(t)
	session := filepath.Join(m.cfg.Host.SessionsDir(), "session-0123abcd45")
	folder := filepath.Join(session, inspectorFolder)
	write(0, "a.prom", strings.Repeat("x", inspectorBytes-1))
	large := filepath.Join(folder, "1.0", "a.prom")
	for rank := 1; rank < inspectorRanks; rank++ {
		dir := filepath.Join(folder, fmt.Sprint("2.", rank))
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		for name := range inspectorFiles {
			if err := os.Link(large, filepath.Join(dir, fmt.Sprint(name, ".prom"))); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := syscall.Mkfifo(filepath.Join(folder, "3.0"), 0o600); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(m.cfg.Host.SessionsDir(), "session-1123abcd45")
	if err := errors.Join(os.MkdirAll(other, 0o700), syscall.Mkfifo(filepath.Join(other, inspectorFolder), 0o600)); err != nil {
		t.Fatal(err)
	}
	cost.AtMost(t, cost.Bound{Fixed: 16 * inspectorAll}, 0, func() { page() })
}

func FuzzInspectorLine(f *testing.F) {
	for line := range strings.Lines(inspected) {
		f.Add(line)
	}
	f.Add(`nccl_bus_bandwidth_gbs{gpu="a\\\"b"} NaN`)
	f.Fuzz(func(t *testing.T, line string) {
		defer cost.Watch(t, cost.Parser, len(line))()
		name, labels, value, ok := inspectorLine(line)
		if !ok {
			return
		}
		if inspectorFamilies[name] == "" || len(labels) > 2*len(inspectorLabels) || len(labels)%2 != 0 {
			t.Fatalf("%q: %q %q", line, name, labels)
		}
		page := show(t, prometheus.CollectorFunc(func(to chan<- prometheus.Metric) { to <- inspectorSample(name, value, labels) }))
		if strings.Count(page, "\n") != 3 {
			t.Fatalf("%q is shown as\n%s", line, page)
		}
	})
}

// A folder that a rank makes a link of, to another's or to where nothing answers, is none; and a file of such a kind is none.
func TestInspectorOfLinks(t *testing.T) {
	m, write, page := inspector(t)
	write(0, "a.prom", inspected)
	session := filepath.Join(m.cfg.Host.SessionsDir(), "session-0123abcd45")
	theirs := filepath.Join(session, inspectorFolder)
	dead := deadmount.New(t)
	if err := errors.Join(os.Remove(filepath.Join(theirs, "1.3")), os.Symlink(dead, filepath.Join(theirs, "1.3")),
		os.Symlink(filepath.Join(theirs, "1.0"), filepath.Join(theirs, "1.5")), os.Symlink(dead+"/x", filepath.Join(theirs, "1.0", "b.prom")),
		os.Symlink(dead, filepath.Join(m.cfg.Host.SessionsDir(), "session-ff"))); err != nil {
		t.Fatal(err)
	}
	if got := page(); !strings.Contains(got, fmt.Sprintf(shownOf, 0)) || strings.Contains(got, `rank="5"`) {
		t.Errorf("the page is\n%s", got)
	}
}

// A directory that does not answer costs each page its time, the agent one goroutine and the log one line, and the page has the rest.
func TestInspectorOnADeadMount(t *testing.T) {
	dead := deadmount.New(t)
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	m := New(Config{Address: ":0", Host: host.New(host.Config{RunDir: dead, Log: logger}), Name: "w0", Log: logger})
	c := newInspectorCollector(m)
	c.time = 100 * time.Millisecond
	before := runtime.NumGoroutine()
	for range 3 {
		begun := time.Now()
		show(t, c)
		if took := time.Since(begun); took > 10*time.Second {
			t.Errorf("a page took %v", took)
		}
	}
	if n := runtime.NumGoroutine(); n > before+1 {
		t.Errorf("there are %d goroutines, and there were %d", n, before)
	}
	if n := strings.Count(log.String(), "\n"); n != 1 || !strings.Contains(log.String(), dead) {
		t.Errorf("the log is\n%s", log.String())
	}
}
