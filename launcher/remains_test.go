package launcher

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/launcher/hosts"
	"github.com/mpiup/mpiup/launcher/reach"
	"github.com/mpiup/mpiup/launcher/report"
)

// A run leaves its report in the folder that is named; one that fails leaves it by itself.
func TestWhatRemains(t *testing.T) {
	for _, tt := range []struct {
		name string
		code int
	}{{"a run that fails", 3}, {"one that ends well", 0}} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			from := func(cfg report.Config) (stderr string) {
				var out, errs bytes.Buffer
				agent := &scripted{stop: nil, launch: append([]*apiv1.Frame{(&apiv1.Started{Rank: 0, Pid: 7}).Frame()}, exited(0, tt.code)...)}
				synctest.Test(t, func(t *testing.T) {
					code := Run(t.Context(), Config{
						Reach:  reach.Reach{Sources: hosts.Sources{Root: dir, Hostname: "h"}, Embedded: agent.serve, Stdout: &out, Stderr: &errs},
						Wishes: Wishes{Apps: []job.App{{Argv: []string{"prog"}, N: 1, Env: []string{"MY_TOKEN=x"}}}}, Report: cfg,
					})
					if code != tt.code {
						t.Errorf("code %d: %s", code, errs.String())
					}
				})
				return errs.String()
			}
			named, kept := filepath.Join(dir, "named"), filepath.Join(dir, "kept")
			from(report.Config{Dir: named, Kept: kept})
			text, err := os.ReadFile(filepath.Join(named, report.FileName))
			if err != nil || !strings.Contains(string(text), `"MY_TOKEN=***"`) || !strings.Contains(string(text), `"pid": 7`) {
				t.Errorf("%v: %s", err, text)
			}
			if text, err := os.ReadFile(filepath.Join(named, "events.jsonl")); err != nil || strings.Count(string(text), "\n") < 4 {
				t.Errorf("%v: %s", err, text)
			}
			// The newest failure is what mpiup why shows, wherever else its report went.
			if files, _ := filepath.Glob(filepath.Join(kept, "*.json")); len(files) != map[bool]int{true: 1}[tt.code != 0] {
				t.Errorf("kept beside the folder that was named: %q", files)
			}
			r, _, err := report.Read(bytes.NewReader(text))
			if err != nil || r.ExitCode != tt.code || (r.Verdict == nil) != (tt.code == 0) {
				t.Errorf("%v: %+v", err, r)
			}
			kept = filepath.Join(dir, "alone")
			said := from(report.Config{Kept: kept})
			files, _ := filepath.Glob(filepath.Join(kept, "*.json"))
			switch {
			case tt.code == 0 && len(files) > 0, tt.code != 0 && len(files) != 1:
				t.Errorf("kept: %q", files)
			case tt.code != 0 && !strings.HasSuffix(said, "\nmpiup: exit-code; more: mpiup help exit-code, mpiup report\n"):
				t.Errorf("nobody is told of it: %s", said)
			}
		})
	}
}
