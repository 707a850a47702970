package archtest

import (
	"regexp"
	"strings"
	"testing"
)

// ownJSON are the packages that make JSON without internal/visible, each with its reason.
var ownJSON = map[string]string{
	"internal/visible":    "it is what makes it visible",
	"internal/frameworks": "a variable for ranks",
	"agent/outfit":        "a line of a rank's output, as any",
	"agent/host":          "the agent's own record, for itself",
	"launcher/run/phases": "for the next launcher",
	"launcher/doctor":     "a baseline: numbers, and names that were checked",
	"launcher/rendezvous": "frames between torchruns; texts of others are made visible where they are shown",
	"launcher/report":     "machines, packed for their size alone",
	"launcher/runmetrics": "for Trainer and mpiup-otel",
	"cmd/mpiup":           "trial, a line of a rank's output, which doctor reads",
	"cmd/mpiup/draw":      "its texts are made visible one by one (clean)",
	"cmd/mpiup-nvml":      "for the agent",
}

// encoding/json leaves C1 controls and changes of direction as they are, which a terminal obeys. So JSON that somebody may look at is made
// by internal/visible, whose escapes mean the same.
func TestJSONIsVisible(t *testing.T) {
	made := regexp.MustCompile(`\bjson\.(?:Marshal|MarshalIndent|NewEncoder)\(`)
	seen := map[string]bool{}
	eachFile(t, func(path string, text []byte) {
		dir := strings.TrimPrefix(path[:strings.LastIndex(path, "/")], "../../")
		if strings.HasPrefix(dir, "test") || strings.HasSuffix(path, "_test.go") || !made.Match(text) {
			return
		}
		if seen[dir] = true; ownJSON[dir] == "" {
			t.Errorf("%s makes JSON by encoding/json: use visible.JSON or visible.JSONLine, or name a reason in ownJSON", path)
		}
	})
	for dir := range ownJSON {
		if !seen[dir] {
			t.Errorf("%s makes no JSON any more", dir)
		}
	}
}
