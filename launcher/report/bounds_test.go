//go:build !race

package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/launcher/verdict"
	"github.com/mpiup/mpiup/test/cost"
)

// These ask what megabytes cost, on one goroutine: the race detector has nothing to find there, and makes it ten times as much.

// However large a run was, its sealed report is bounded, and says what it lacks.
func TestSealIsBounded(t *testing.T) {
	var r Recorder
	r.Begin(Report{Job: "large", Begun: begun})
	for rank := range 512 {
		r.Rank(Rank{Rank: rank, Host: fmt.Sprint("w", rank/8)})
	}
	var lines []string
	for range maxLines + 3 {
		lines = append(lines, noise(200))
	}
	for i := range 2 * MaxEvents {
		r.Event(after(i), Event{Kind: Said, Text: noise(30)})
	}
	for rank := range 512 {
		r.Ended(after(rank), rank, fmt.Sprint("exit code ", 1+rank%3))
		r.Last(rank, job.Stdout, append(lines, noise(300), noise(300), noise(300)))
	}
	whole := r.Report(Report{})
	if len(whole.Events) != MaxEvents || whole.Dropped == 0 || len(whole.Ranks[0].Last) != maxLines {
		t.Errorf("%d events, %d dropped, %d lines", len(whole.Events), whole.Dropped, len(whole.Ranks[0].Last))
	}
	sealed, err := Seal(whole, Key{1})
	if err != nil {
		t.Fatal(err)
	}
	size := 0
	for _, l := range sealed {
		size += len(l) + 1
		if len(l) > 16<<10 {
			t.Fatalf("a line of %d bytes", len(l))
		}
	}
	got, _, err := Unseal(strings.NewReader(strings.Join(sealed, "\n")), nobody)
	if err != nil || size > MaxSealed+MaxSealed/50 || len(got.LeftOut) == 0 {
		t.Errorf("%d bytes, %v, left out: %v", size, err, got.LeftOut)
	}
	if len(whole.LeftOut) > 0 || len(whole.Events) != MaxEvents {
		t.Error("sealing changed the report")
	}
}

// A log that was made to cost much costs no more than any, and what was promised is read behind it.
func TestReportsAreNoBombs(t *testing.T) {
	const head = `{"version":1,"begun":"2026-11-23T04:00:00Z","ended":"2026-11-23T04:00:00Z",`
	many := func(item string, n int) string { return strings.TrimSuffix(strings.Repeat(item+",", n), ",") }
	var far, apart []string
	for i := range 8000 {
		far = append(far, fmt.Sprintf(`{"rank":1048575,"host":"%d"}`, i))
	}
	for range 4000 {
		apart = append(apart, `{"ranks":"0-1048575"}`)
	}
	for _, tt := range []struct{ name, text, says string }{
		{"ranks that are numbers", head + `"ranks":[` + many("0", 1<<20) + `]}`, "values"},
		{"ranks without a word", head + `"ranks":[` + many("{}", 1<<19) + `]}`, "values"},
		{"as many as are read", head + `"ranks":[` + many("0", 250_000) + `]}`, "no report"},
		{"hosts", head + `"hosts":[` + many("{}", 125_000) + `]}`, ""},
		{"texts", head + `"command":[` + many(`""`, 250_000) + `]}`, ""},
		{"one text", head + `"job":"` + strings.Repeat("x", 3<<20) + `"}`, ""},
		{"a text without end", head + `"job":"` + strings.Repeat("x", 64<<20) + `"}`, "too large"},
		{"depth", head + `"x":` + strings.Repeat("[", 250_000), "no report"},
		{"ranks out of range, each on a host of its own", head + `"ranks":[` + strings.Join(far, ",") + `]}`, "it has rank 1048575"},
		{"events of all ranks", head + `"events":[` + strings.Join(apart, ",") + `]}`, ""},
	} {
		log := strings.Join(block(tt.text, Key{}), "\n") + "\n"
		var shown int
		read := func(log string) (err error) {
			var r *Report
			if r, _, err = Unseal(strings.NewReader(log), nobody); err == nil {
				var b strings.Builder
				err = Timeline(&b, r, View{Ranks: idset.Of(0)})
				shown = b.Len()
			}
			return err
		}
		var err error
		cost.AtMost(t, dear, len(log), func() { err = read(log) })
		if tt.says == "" && err != nil || tt.says != "" && (err == nil || !strings.Contains(err.Error(), tt.says)) {
			t.Errorf("%s: %v, %d bytes shown", tt.name, err, shown)
		}
		own, _ := Seal(recorded(), Key{1})
		behind := Promise(Key{1}) + "\n" + strings.Repeat(log, 3) + strings.Join(own, "\n")
		cost.AtMost(t, dear, len(behind), func() { err = read(behind) })
		if err != nil {
			t.Errorf("%s: the run's own report behind it: %v", tt.name, err)
		}
	}
}

// Whatever others put into a report, there is room for a seal.
func TestThereIsRoomForASeal(t *testing.T) {
	for name, fill := range map[string]func(*Report, string){
		"a host's node": func(r *Report, text string) { r.Hosts[0].Node = text },
		"a host's name": func(r *Report, text string) { r.Hosts[0].Name = text },
		"the command":   func(r *Report, text string) { r.Command = []string{text, text} },
		"the verdict":   func(r *Report, text string) { r.Verdict.Evidence, r.Verdict.Host = []string{text}, text },
		"the job":       func(r *Report, text string) { r.Job = text },
		"a program":     func(r *Report, text string) { r.Programs[0].Argv = []string{text} },
		"a restart":     func(r *Report, text string) { r.Restarts = []Restart{{Why: text, Replaced: []Replaced{{Host: text}}}} },
		"the launcher":  func(r *Report, text string) { r.Launcher = text },
		"very many hosts": func(r *Report, text string) {
			r.Hosts = slices.Repeat([]Host{{Name: text[:253], Node: text[300:553]}}, 20_000)
		},
	} {
		r := recorded()
		fill(r, noise(375_000)) // 500 KB
		before, _ := json.Marshal(r)
		lines, err := Seal(r, Key{1})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got, _, err := Unseal(strings.NewReader(strings.Join(lines, "\n")), nobody)
		if err != nil || got.ExitCode != 1 || got.Verdict.Kind != verdict.Python || len(got.LeftOut) == 0 && name != "very many hosts" {
			t.Errorf("%s: %v, %+v", name, err, got)
		}
		if after, _ := json.Marshal(r); !bytes.Equal(before, after) {
			t.Errorf("%s: sealing changed the report", name)
		}
	}
}
