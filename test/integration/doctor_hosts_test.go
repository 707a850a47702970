package integration

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/test/drawing"
	"github.com/mpiup/mpiup/test/netns"
)

// TestDoctor looks at three hosts, then at the same with the way between two of them cut.
func TestDoctor(t *testing.T) {
	t.Parallel()
	l := hosted(t).apart(t, netns.Config{Hosts: []string{"w0", "w1", "w2"}})
	for _, h := range l.cluster.Workers() {
		l.agent(t, h, container{})
	}
	doctor := func(args ...string) result {
		return l.mpiup(t, append([]string{"doctor", "--key", l.key, "--host", "w0,w1,w2"}, args...)...)
	}
	picture := filepath.Join(l.folder(t), "ways.svg")
	r := doctor("--bandwidth", "--mpi-ports", "18000-18099", "--json", "--svg", picture)
	var report struct {
		Verdict string
		Hosts   []string
		Rows    []struct{ Check, Verdict, Text string }
		Ways    []struct {
			From, To, Error string
			RTT             float64 `json:"rtt_us"`
			Rate            float64 `json:"mb_s"`
			MTU             int
		}
	}
	if err := json.Unmarshal([]byte(r.Stdout), &report); err != nil {
		t.Fatalf("%v in\n%s%s", err, r.Stdout, r.Stderr)
	}
	if len(report.Hosts) != 3 || len(report.Ways) != 6 || len(report.Rows) < 12 {
		t.Fatalf("ended with %d and %+v", r.Code, report)
	}
	for _, w := range report.Ways {
		if w.Error != "" || w.RTT <= 0 || w.Rate <= 0 || w.MTU != 1500 {
			t.Errorf("%+v", w)
		}
	}

	text, err := os.ReadFile(picture)
	if err != nil {
		t.Fatal(err)
	}
	if tips := strings.Join(drawing.Is(t, string(text)).Tips, "\n"); strings.Count(tips, "the median is") != 12 {
		t.Errorf("not each of the six ways has its bandwidth and its round trip:\n%s", tips)
	}

	undo, err := l.cluster.CutOneWay("w1", "w2")
	if err != nil {
		t.Fatal(err)
	}
	r = doctor()
	if r.Code != 1 || !regexp.MustCompile(`(?m)^FAIL +reachable +w2 +from w1: no answer: packets to the port are dropped`).MatchString(r.Stdout) {
		t.Errorf("ended with %d:\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
	r = l.run(t, job{hosts: "w0:1,w1:1,w2:1", args: []string{"--preflight", "-n", "3", "echo", "started"}})
	if r.Code != 1 || strings.Contains(r.Stdout, "started") || !strings.Contains(r.Stderr, "FAIL") || !strings.Contains(r.Stderr, "--preflight") {
		t.Errorf("a run after it ended with %d:\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
	if err := undo(); err != nil {
		t.Fatal(err)
	}
	r = l.run(t, job{hosts: "w0:1,w1:1,w2:1", args: []string{"--preflight", "-n", "3", "echo", "started"}})
	if r.Code != 0 || strings.Count(r.Stdout, "started") != 3 {
		t.Errorf("a run of healthy hosts ended with %d:\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
}

// Without hosts it looks at this one.
func TestDoctorHere(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	r := l.mpiup(t, "doctor", "-v", "--", l.program(t, "hello"))
	if !strings.Contains(r.Stdout, "shared memory") || !strings.Contains(r.Stdout, "1 host: ") {
		t.Errorf("ended with %d:\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
}
