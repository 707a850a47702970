package report

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestRows notes what ranks did, over a restart, and bounds it.
func TestRows(t *testing.T) {
	begun := time.Unix(1000, 0)
	at := func(s float64) time.Time { return begun.Add(time.Duration(s * float64(time.Second))) }
	var r Recorder
	r.Begin(Report{Begun: begun})
	r.Rank(Rank{Rank: 0, Host: "w0"})
	r.Rank(Rank{Rank: 1, Host: "w1"})
	r.Started(at(1), 0, 11)
	r.Did(at(2), 0, Works)
	r.Did(at(2.1), 0, Idle)
	r.Did(at(2.2), 0, Works) // within a slot: as if it had worked all the time
	r.Did(at(9), 0, Idle)
	r.Ended(at(10), 0, "exit code 1")
	r.Did(at(3), 7, Works) // of nobody
	r.Restart(at(11), Restart{})
	r.Rank(Rank{Rank: 0, Host: "w0"})
	r.Rank(Rank{Rank: 1, Host: "w2"}) // whose host was lost
	r.Started(at(12), 0, 12)
	r.Started(at(12), 1, 13)
	for i := range 2 * maxPhases {
		r.Enter(at(13+float64(i)), []string{"launching", "running"}[i%2])
	}
	is := r.Report(Report{Ended: at(20)})
	if len(is.Phases) != maxPhases || is.Phases[1] != (Phase{13, "launching"}) {
		t.Errorf("%d phases, the second %v", len(is.Phases), is.Phases[1])
	}
	if len(is.Rows) != 3 || is.Rows[0].Did != "swiesx"[:5] || is.Rows[1].Did != "" || is.Rows[2].Host != "w2" || is.Rows[2].Did != "s" {
		t.Fatalf("rows %+v", is.Rows)
	}
	if got, want := is.Rows[0].At, []float64{1, 2, 9, 10, 12}; !equal(got, want) {
		t.Errorf("times %v, want %v", got, want)
	}
	for i := range 10_000 { // each ten seconds something else, for a day
		r.Did(at(20+10*float64(i)), 0, "wi"[i%2])
	}
	if row := r.Report(Report{}).Rows[0]; len(row.At) > mostOfRow || row.Slot < 16 {
		t.Errorf("%d changes, a slot of %v s, the last at %v", len(row.At), row.Slot, row.At[len(row.At)-1])
	}
}

// A rank whose host is lost is drawn as lost from when nothing was heard of it, and one that is started again elsewhere is there alone.
func TestRowsOfALostHost(t *testing.T) {
	begun := time.Unix(1000, 0)
	at := func(s float64) time.Time { return begun.Add(time.Duration(s * float64(time.Second))) }
	var r Recorder
	r.Begin(Report{Begun: begun, Job: "j"})
	r.Rank(Rank{Rank: 0, Host: "w0"})
	r.Rank(Rank{Rank: 1, Host: "w1"})
	r.Rank(Rank{Rank: 2, Host: "w1"})
	r.Rank(Rank{Rank: 3, Host: "w1"})
	for id := range 3 { // rank 3 does not come so far
		r.Started(at(1), id, 10+id)
		r.Did(at(2), id, Works)
	}
	r.Ended(at(5), 1, "exit code 0")
	r.Did(at(11), 2, Idle) // which was said on another connection, after it was heard last
	r.LostHost(at(40), at(10), "w1", "nothing was heard from it for 30s")
	is := r.Report(Report{Ended: at(41)})
	for i, want := range []string{"sw 1 2", "swe 1 2 5", "swl 1 2 10", ""} {
		row := is.Rows[i]
		if got := strings.Trim(fmt.Sprint(row.Did, row.At), "[]"); strings.ReplaceAll(got, "[", " ") != want {
			t.Errorf("rank %d: %q, want %q", i, got, want)
		}
	}
	if is.Ranks[0].End != "" || is.Ranks[1].End != "exit code 0" || is.Ranks[2].End != LostWithHost || is.Ranks[3].End != LostWithHost {
		t.Errorf("ends %+v", is.Ranks)
	}

	r.Restart(at(42), Restart{}) // rank 0 was told to end, and its host said nothing of it
	hosts := []string{"w0", "w2", "w0", "w2"}
	for id, host := range hosts {
		r.Rank(Rank{Rank: id, Host: host})
		r.Started(at(43), id, 20+id)
	}
	is = r.Report(Report{Ended: at(50)})
	for s := 0.5; s < 50; s++ {
		for rank := range hosts {
			var on []string
			for _, row := range is.Rows {
				if row.Rank == rank && strings.ContainsRune("swbi", rune(row.did(s))) {
					on = append(on, row.Host)
				}
			}
			if len(on) > 1 || s > 43 && (len(on) != 1 || on[0] != hosts[rank]) || s > 10 && s < 42 && slices.Contains(on, "w1") {
				t.Fatalf("at %v s rank %d is on %v", s, rank, on)
			}
		}
	}
	if text, err := json.Marshal(is); err != nil {
		t.Error(err)
	} else if _, err := Parse(text); err != nil {
		t.Error(err)
	}
}

// did is what a row has at a time; 0: nothing yet.
func (r Row) did(at float64) (what byte) {
	for i := range r.At {
		if r.At[i] <= at {
			what = r.Did[i]
		}
	}
	return what
}

// Ranks that are started again for ever, and jobs that are spawned for ever, leave a report that can be read.
func TestRowsStayReadable(t *testing.T) {
	begun := time.Unix(1000, 0)
	var r Recorder
	r.Begin(Report{Begun: begun, Job: "j"})
	at := begun
	for range 3000 {
		r.Restart(at, Restart{})
		for rank := range 60 {
			at = at.Add(time.Second)
			r.Rank(Rank{Rank: rank, Host: "w0"})
			r.Started(at, rank, 1)
			r.Ended(at.Add(time.Second), rank, "exit code 1")
		}
	}
	r.Restart(at, Restart{})
	for i := range maxRanks + 10 {
		r.Rank(Rank{Job: 1, Rank: i, Host: "w0"})
		r.Started(at, i, 1)
	}
	is := r.Report(Report{})
	if len(is.Rows) != maxRanks || !fits(is.Rows, is.Curves, is.Memory) || len(is.Rows[0].At) == 0 {
		t.Errorf("%d rows, the first of %d changes", len(is.Rows), len(is.Rows[0].At))
	}
}

// A run of 512 ranks on 64 hosts that changes what it does at each look of an hour, with what --watch and --watch-ranks tell, stays small.
func TestReportOfAnHour(t *testing.T) {
	const most = 20 << 20
	r, at := Recorder{}, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	r.Begin(Report{Begun: at})
	for rank := range 512 {
		r.Rank(Rank{Rank: rank, Host: fmt.Sprint("w", rank/8)})
		r.Started(at, rank, 1)
	}
	for host := range 64 {
		r.Host(Host{Name: fmt.Sprint("w", host), Slots: 8, GPUs: 8}, at)
		tellsMachine(t, &r, fmt.Sprint("w", host), 8*host, host)
	}
	for look := range 360 {
		at = at.Add(10 * time.Second)
		for rank := range 512 {
			r.Did(at, rank, "wbi"[look%3])
		}
		for host := range 64 {
			r.MemoryOf(at, fmt.Sprint("w", host), uint64(1+look)<<26, 64<<30)
		}
		r.Value(at, 0, "loss", 1/float64(1+look))
		r.Waited(at, Wait{Ranks: []int{3}, Share: 0.2, Text: "rank 3"})
		r.Event(at, Event{Kind: Said, Text: strings.Repeat("x", 300)})
	}
	is := r.Report(Report{Ended: at})
	text, err := json.Marshal(is)
	if err != nil || len(text) > most {
		t.Fatalf("%d bytes, %v", len(text), err)
	}
	t.Logf("%d bytes", len(text))
	if back, err := Parse(text); err != nil || len(back.Memory) != 64 || len(back.Waits) != maxWaits {
		t.Errorf("read again: %v", err)
	}
	if m := is.Memory[63]; len(m.At) < 100 || m.At[0] != 10 || m.Limit != 64<<30 || m.Values[0] != 1<<26 {
		t.Errorf("memory of a host: %d points, %v", len(m.At), m)
	}
}

// Memory of more hosts than there is room for thins all, and keeps what can be read back.
func TestMemoryOfManyHosts(t *testing.T) {
	r, at := Recorder{}, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	r.Begin(Report{Begun: at})
	for look := range 20 {
		for host := range maxMemory/4 + 50 {
			r.MemoryOf(at.Add(time.Duration(look)*time.Second), fmt.Sprint("w", host), uint64(1+look)<<30, 0)
		}
	}
	if is := r.Report(Report{}); !fits(is.Rows, is.Curves, is.Memory) || len(is.Memory) != maxMemory/4 {
		t.Errorf("memory of %d hosts", len(is.Memory))
	}
}

func equal(a, b []float64) bool {
	same := len(a) == len(b)
	for i := range a {
		same = same && math.Abs(a[i]-b[i]) < 1e-9
	}
	return same
}

// TestCurves keeps few values of many, and each that is no number, and a report with them is read back.
func TestCurves(t *testing.T) {
	begun := time.Unix(1000, 0)
	var r Recorder
	r.Begin(Report{Begun: begun, Job: "j"})
	for i := range 10_000 {
		v := float64(i)
		if i == 7777 {
			v = math.NaN()
		}
		r.Value(begun.Add(time.Duration(i)*time.Millisecond*1500), 3, "loss", v)
	}
	for i := range 2 * maxCurves {
		r.Value(begun, i, "step", 1)
	}
	is := r.Report(Report{})
	if len(is.Curves) != maxCurves || len(is.Curves[0].At) >= maxPoints || len(is.Curves[0].At) < maxPoints/4 || is.Curves[0].Every < 16 {
		t.Fatalf("%d curves, %d points, each %d", len(is.Curves), len(is.Curves[0].At), is.Curves[0].Every)
	}
	text, err := json.Marshal(is)
	if err != nil {
		t.Fatal(err)
	}
	back, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	nan := 0
	for i, v := range back.Curves[0].Values {
		if math.IsNaN(float64(v)) {
			nan++
		} else if v != is.Curves[0].Values[i] {
			t.Errorf("value %d is %v, was %v", i, v, is.Curves[0].Values[i])
		}
	}
	if nan != 1 {
		t.Errorf("%d values are NaN; a loss that was once is to be seen", nan)
	}
	for _, bad := range []string{
		`{"mark":"` + Mark + `","version":1,"rows":[{"rank":0,"at":[1,2],"did":"w"}]}`,
		`{"mark":"` + Mark + `","version":1,"curves":[{"rank":0,"name":"x","at":[1],"values":[]}]}`,
		`{"mark":"` + Mark + `","version":1,"curves":[{"rank":0,"name":"x","at":[1],"values":["much"]}]}`,
		`{"mark":"` + Mark + `","version":1,"curves":[` + strings.TrimSuffix(strings.Repeat(`{"at":[],"values":[]},`, maxCurves+1), ",") + `]}`,
	} {
		if _, err := Parse([]byte(bad)); err == nil {
			t.Errorf("%.80s is read", bad)
		}
	}
}
