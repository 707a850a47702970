package doctor

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mpiup/mpiup/test/golden"
)

func reply(version, mpi string, findings ...Finding) *Found {
	shm := Finding{Check: "shared memory", Verdict: Pass, Text: "/dev/shm has 8192 MiB"}
	return &Found{Version: version, Findings: append([]Finding{shm}, findings...),
		Facts: []Fact{{Name: "MPI library", Value: mpi}, {Name: "CUDA"}}}
}

func shown(t *testing.T, name string, r *Report) {
	t.Helper()
	var got bytes.Buffer
	if err := r.Text(&got, Full); err != nil {
		t.Fatal(err)
	}
	got.WriteString("--- as usual ---\n")
	if err := r.Text(&got, Usual); err != nil {
		t.Fatal(err)
	}
	got.WriteString("--- in brief ---\n")
	if err := r.Text(&got, Troubles); err != nil {
		t.Fatal(err)
	}
	got.WriteString("verdict: " + r.Verdict + "\n")
	golden.Is(t, "testdata/"+name+".golden", got.String())
	if _, err := json.Marshal(r); err != nil {
		t.Error(err)
	}
}

func TestJudge(t *testing.T) {
	ok := reply("v1", "Open MPI 5.0.7")
	healthy := []Host{{Name: "w0", Found: ok}, {Name: "w1", Found: ok, Skew: -20 * time.Millisecond}, {Name: "w2", Found: ok}}
	var ways []Way
	for _, a := range healthy {
		for _, b := range healthy {
			if a.Name != b.Name {
				ways = append(ways, Way{From: a.Name, To: b.Name, RTT: 80, Rate: 2.5e3, MTU: 1500})
			}
		}
	}
	shown(t, "healthy", Judge(healthy, ways))
	shown(t, "alone", Judge(healthy[:1], nil))

	small := Finding{Check: "open files", Verdict: Warn, Text: "limit 1024 (ulimit -n)", Fix: "set LimitNOFILE"}
	none := Finding{Check: "open files", Verdict: Pass, Text: "unlimited"}
	locked := Finding{Check: "locked memory", Verdict: Fail, Text: "limit 64 KiB: RDMA cannot register its buffers", Fix: "add IPC_LOCK"}
	sick := []Host{
		{Name: "w0", Found: reply("v1", "Open MPI 5.0.7", none)},
		{Name: "w1", Found: reply("v1", "Open MPI 4.1.4", small, locked), Skew: 3 * time.Second, Doubt: 10 * time.Millisecond},
		{Name: "w2", Found: reply("v2", "", small), Skew: 1500 * time.Millisecond, Doubt: time.Second},
		{Name: "w3", Error: "10.0.0.3:7611: connection refused"},
	}
	shown(t, "sick", Judge(sick, []Way{
		{From: "w0", To: "w1", Error: "no answer"}, {From: "w2", To: "w1", Error: "no answer"},
		{From: "w0", To: "w2", RTT: 1000, Rate: 1e3, MTU: 1500}, {From: "w1", To: "w2", RTT: 1000, Rate: 1e2, MTU: 1450},
		{From: "w1", To: "w0", RTT: 1000, Rate: 1e3, MTU: 1500}, {From: "w2", To: "w0", RTT: 1000, Rate: 9e2, MTU: 1500},
	}))
}

// Each host meets each other once in each direction, and is in one pair of a round.
func TestRounds(t *testing.T) {
	for n := range 20 {
		met := map[[2]int]int{}
		for _, round := range Rounds(n) {
			var busy []int
			for _, p := range round {
				met[p]++
				busy = append(busy, p[0], p[1])
			}
			slices.Sort(busy)
			if len(slices.Compact(slices.Clone(busy))) != len(busy) {
				t.Errorf("%d hosts: one is in two pairs of %v", n, round)
			}
		}
		for pair, times := range met {
			if times != 1 || pair[0] == pair[1] {
				t.Errorf("%d hosts: %v met %d times", n, pair, times)
			}
		}
		if len(met) != n*max(n-1, 0) {
			t.Errorf("%d hosts: %d ways of %d", n, len(met), n*(n-1))
		}
	}
}

// What hosts say never reaches the terminal as it is.
func TestForeignTextIsVisible(t *testing.T) {
	const hostile = "w\x1b]0;mine\a\u009b31m\x9b2J\nmpiup: all is well\r\u202e0w"
	obeyed := regexp.MustCompile("[\x00-\x08\x0b-\x1f\x7f\u0080-\u009f\u202e]")
	var out strings.Builder
	report := &Report{Hosts: []string{hostile}, Rows: []Row{{Check: "x", Verdict: Fail, Hosts: []string{hostile}, Text: hostile, Fix: hostile}}}
	if err := report.Text(&out, Full); err != nil {
		t.Error(err)
	}
	if bad := obeyed.FindString(out.String()); bad != "" || !strings.Contains(out.String(), `\u001b]0;mine`) {
		t.Errorf("%q is shown of %q", bad, out.String())
	}
}
