package archtest

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// parsing are the functions by which JSON becomes values.
var parsing = []string{"json.Unmarshal", "json.NewDecoder"}

// mayParse are the files that parse JSON, and what is in it. A verdict is in that of two: a run's report and a line of a log.
var mayParse = map[string]string{
	"launcher/report/read.go":        "a report, whose verdict is checked (Report.Check)",
	"launcher/verdict/checked.go":    "a verdict, which is checked (Parse)",
	"launcher/report/rows.go":        "a number",
	"launcher/verdict/logs/line.go":  "a line of a rank's output",
	"launcher/verdict/logs/own.go":   "whether a line is an event; Docker's record around a line",
	"cmd/mpiup-otel/main.go":         "a run that is over, whose report is a text for report.Parse",
	"cmd/mpiup/env.go":               "variables",
	"internal/job/trial.go":          "a trial's answer",
	"agent/host/record.go":           "the agent's own record",
	"agent/metrics/watch.go":         "a line of NCCL Inspector's",
	"gpu/report.go":                  "GPUs",
	"launcher/doctor/baseline.go":    "a baseline of doctor's",
	"launcher/kubectl/pods.go":       "pods, as kubectl lists them",
	"launcher/rendezvous/message.go": "a frame between torchruns",
	"launcher/run/phases/journal.go": "a run's journal, which has no verdict",
	"launcher/runmetrics/trainer.go": "Kubernetes' answer",
}

// Verdicts are read by one: what stands in a file that somebody else may have written gets to nobody but through verdict.Checked, which makes its
// sentences and commands anew. So who else parses JSON stands here with what that is.
func TestVerdictsAreReadByOne(t *testing.T) {
	found := map[string][]string{}
	checks := map[string]bool{}
	eachFile(t, func(path string, text []byte) {
		path = strings.TrimPrefix(path, "../../")
		if strings.HasPrefix(path, "test/") || strings.HasSuffix(path, "_test.go") {
			return
		}
		if calls := callsTo(t, path, text, parsing); len(calls) > 0 {
			found[path] = calls
		}
		checks[path] = strings.Contains(string(text), ".Checked()")
	})
	for _, path := range slices.Sorted(maps.Keys(found)) {
		if mayParse[path] == "" {
			t.Errorf("%s: where a verdict may be in it use report.Read, report.Parse or verdict.Parse; else say in mayParse what is", strings.Join(found[path], ", "))
		}
	}
	for _, path := range slices.Sorted(maps.Keys(mayParse)) {
		if found[path] == nil {
			t.Errorf("%s parses no JSON any more: take it off mayParse", path)
		}
	}
	for _, path := range []string{"launcher/report/read.go", "launcher/verdict/checked.go"} {
		if !checks[path] {
			t.Errorf("%s reads a verdict and does not check it (verdict.Checked)", path)
		}
	}
}
