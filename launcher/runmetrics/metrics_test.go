package runmetrics

import (
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mpiup/mpiup/launcher/hours"
	"github.com/mpiup/mpiup/launcher/report"
	"github.com/mpiup/mpiup/launcher/verdict"
)

func pageOf(t *testing.T, m *Metrics) string {
	t.Helper()
	w := httptest.NewRecorder()
	m.handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	return w.Body.String()
}

func has(t *testing.T, text string, lines ...string) {
	t.Helper()
	for _, l := range lines {
		if !strings.Contains(text, "\n"+l+"\n") {
			t.Errorf("no %s in\n%s", l, text)
		}
	}
}

// A run is shown as its report's keeper knows it: each phase's time adds up over restarts, and so does the ranks' time.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, k := New("v1"), report.New(report.Config{}, report.Report{Begun: time.Now()}, nil)
		m.Run(k.Now)
		k.Host(report.Host{Name: "w0", GPUs: 4})
		time.Sleep(2 * time.Second)
		k.Launched("j", nil, []report.Rank{{Host: "w0"}, {Rank: 1, Host: "w0"}}, "")
		k.Started(0, 7)
		k.Started(1, 8)
		k.Enter("running")
		time.Sleep(3 * time.Second)
		k.Enter("running")
		k.Enter("gathering")
		m.Restarted(verdict.GPUFault)
		is := hours.Stand{Phase: "gathering", Ranks: map[string]int{"running": 7, "lost": 1}, Hosts: 2, Quiet: time.Now().Add(-4 * time.Second), Stalled: true}
		k.Stands(is)
		time.Sleep(time.Second)
		has(t, pageOf(t, m), `mpiup_run_phase{phase="gathering"} 1`, `mpiup_run_phase{phase="running"} 0`,
			`mpiup_run_phase_seconds_total{phase="gathering"} 3`, `mpiup_run_phase_seconds_total{phase="running"} 3`,
			`mpiup_run_ranks{state="running"} 7`, `mpiup_run_ranks{state="lost"} 1`, `mpiup_run_hosts 2`, `mpiup_run_idle_seconds 5`, `mpiup_run_stalled 1`, `mpiup_run_restarts_total 1`,
			`mpiup_run_spent_seconds{cause="waiting",of="ranks"} 4`, `mpiup_run_spent_seconds{cause="running",of="ranks"} 6`,
			`mpiup_run_spent_seconds{cause="running",of="gpus"} 12`, `mpiup_run_spent_seconds{cause="restarting",of="gpus"} 4`,
			`mpiup_run_verdicts_total{kind="gpu-fault"} 1`, `mpiup_run_verdicts_total{kind="out-of-memory"} 0`, `mpiup_build_info{version="v1"} 1`)
		is.Quiet, is.Stalled = time.Time{}, false
		k.Stands(is)
		has(t, pageOf(t, m), `mpiup_run_idle_seconds 0`, `mpiup_run_stalled 0`)
	})
}

// A launcher waits for the reading of its end where somebody reads, and no longer than a while.
func TestLinger(t *testing.T) {
	for _, tt := range []struct {
		name    string
		scrapes bool // before the end
		then    func(*testing.T, *Metrics, chan os.Signal)
		want    time.Duration
	}{
		{"nobody scrapes", false, nil, 0},
		{"nobody comes again", true, nil, patience},
		{"somebody reads the end", true, func(t *testing.T, m *Metrics, _ chan os.Signal) {
			has(t, pageOf(t, m), `mpiup_run_verdicts_total{kind="killed"} 1`, `mpiup_run_verdicts_total{kind="success"} 0`)
		}, 4 * time.Second},
		{"a signal", true, func(_ *testing.T, _ *Metrics, s chan os.Signal) { s <- syscall.SIGTERM }, 4 * time.Second},
		{"another signal", true, func(_ *testing.T, _ *Metrics, s chan os.Signal) { s <- syscall.SIGWINCH }, patience},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, signals := New("v1"), make(chan os.Signal, 1)
				if tt.scrapes {
					pageOf(t, m)
				}
				m.Ended(&verdict.Verdict{Kind: verdict.Killed}, nil)
				if tt.then != nil {
					time.AfterFunc(4*time.Second, func() { tt.then(t, m, signals) })
				}
				begun := time.Now()
				m.Linger(signals, func(string, ...any) {})
				if took := time.Since(begun); took != tt.want {
					t.Errorf("waited for %v, want %v", took, tt.want)
				}
			})
		})
	}
}

// Many open connections and say nothing: whoever scrapes, from elsewhere, is answered at once.
func TestSilentClients(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer New("v1").Serve(l)()
	for range 2 * 64 {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	scraper := http.Client{Timeout: 4 * time.Second, Transport: &http.Transport{DisableKeepAlives: true, DialContext: from.DialContext}}
	for range 3 {
		r, err := scraper.Get("http://" + l.Addr().String() + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
	}
}

func TestNone(t *testing.T) {
	var m *Metrics
	m.Run(nil)
	m.Restarted(verdict.Killed)
	m.Ended(nil, nil)
	m.Linger(nil, nil)
}
