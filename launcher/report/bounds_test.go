//go:build !race

package report

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/test/cost"
)

// These ask what megabytes cost, on one goroutine: the race detector has nothing to find there, and makes it ten times as much.

// However large a run was, its report is bounded, can be read, and says what it lacks.
func TestReportIsBounded(t *testing.T) {
	var r Recorder
	r.Begin(Report{Job: "large", Begun: begun})
	for rank := range 512 {
		r.Rank(Rank{Rank: rank, Host: fmt.Sprint("w", rank/8)})
	}
	for i := range 2 * maxEvents {
		r.Event(after(i), Event{Kind: Said, Text: strings.Repeat("x", 40)})
	}
	for rank := range 512 {
		r.Ended(after(rank), rank, fmt.Sprint("exit code ", 1+rank%3))
		r.Last(rank, job.Stdout, slices.Repeat([]string{strings.Repeat("x", 300)}, maxLines+3))
	}
	got, _, err := Read(asRead(written(t, r.Report(Report{}))))
	if err != nil || len(got.Events) != maxEvents || got.Dropped == 0 || len(got.Ranks[0].Last) != maxLines {
		t.Fatalf("%v: %+v", err, got)
	}
}

// A report that was made to cost much costs no more than any.
func TestReportsAreNoBombs(t *testing.T) {
	const head = `{"mark":"` + Mark + `","version":1,"begun":"2026-11-23T04:00:00Z","ended":"2026-11-23T04:00:00Z",`
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
		{"a text without end", head + `"job":"` + strings.Repeat("x", 64<<20) + `"}`, "it holds no report"},
		{"depth", head + `"x":` + strings.Repeat("[", 250_000), "no report"},
		{"ranks out of range, each on a host of its own", head + `"ranks":[` + strings.Join(far, ",") + `]}`, "it has rank 1048575"},
		{"events of all ranks", head + `"events":[` + strings.Join(apart, ",") + `]}`, ""},
	} {
		var shown int
		var err error
		cost.AtMost(t, dear, len(tt.text), func() {
			var r *Report
			if r, _, err = Read(asRead(tt.text)); err == nil {
				var b strings.Builder
				err = Timeline(&b, r, View{Ranks: idset.Of(0)})
				shown = b.Len()
			}
		})
		if tt.says == "" && err != nil || tt.says != "" && (err == nil || !strings.Contains(err.Error(), tt.says)) {
			t.Errorf("%s: %v, %d bytes shown", tt.name, err, shown)
		}
	}
}
