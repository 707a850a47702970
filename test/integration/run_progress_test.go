package integration

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/launcher/report"
)

// A run says how far its ranks came, by lines that end with carriage returns too; what fails is said, or ends the run with 110; and its report has the
// curves, and what each rank did.
func TestWatch(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	const steps = `for i in 1 2 3 4; do printf "step $i of 4 loss 0.$i\r"; done; echo done`
	const pattern = `step (?P<step>\d+) of (?P<of>\d+) loss (?P<loss>\S+)`
	dir := filepath.Join(l.folder(t), "report")
	for _, c := range []struct {
		name  string
		args  []string
		code  int
		says  []string
		never []string
	}{
		{"to the end", []string{"--report", dir, "--watch", pattern, "sh", "-c", steps}, 0, []string{"mpiup: the ranks came to step 4 of 4 (100 %)", "loss 0.4"}, []string{"--watch-fail"}},
		{"a value fails", []string{"--watch", pattern, "--watch-fail", "loss>0.3", "sh", "-c", steps}, 0, []string{"step 4 of 4: --watch-fail 'loss>0.3' of rank ", "loss is 0.4"}, nil},
		{"it ends the run", []string{"--watch", pattern, "--watch-fail", "loss>0.3", "--on-watch", "abort", "sh", "-c", steps + "; exec sleep 600"}, 110, []string{"loss is 0.4"}, nil},
		{"nothing comes", []string{"--watch", "tqdm", "--watch-start", "1s", "--on-watch", "abort", "sleep", "600"}, 110, []string{"no line has matched --watch in --watch-start 1s"}, nil},
		{"it stops", []string{"--watch", pattern, "--watch-stall", "1s", "--watch-rank", "each", "--on-watch", "abort", "sh", "-c", steps + "; exec sleep 600"}, 110, []string{"no new step of 4 ranks in --watch-stall 1s"}, nil},
		{"a rule about nothing", []string{"--watch", pattern, "--watch-fail", "acc<1", "true"}, 240, []string{"no --watch has a group acc"}, nil},
		{"no pattern", []string{"--watch-stall", "1s", "true"}, 240, []string{"give it too"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := l.run(t, job{hosts: "w0:2,w1:2", args: c.args})
			code, errs := r.Code, r.Stderr
			for _, want := range c.says {
				if !strings.Contains(errs, want) {
					t.Errorf("not said: %q", want)
				}
			}
			for _, never := range c.never {
				if strings.Contains(errs, never) {
					t.Errorf("said: %q", never)
				}
			}
			if code != c.code || t.Failed() {
				t.Errorf("exit code %d, want %d\n%s%s", code, c.code, r.Stdout, errs)
			}
			if c.name != "to the end" {
				return
			}
			text, err := os.ReadFile(filepath.Join(dir, report.FileName))
			var is report.Report
			if err == nil {
				err = json.Unmarshal(text, &is)
			}
			if err != nil || len(is.Rows) != 4 || is.Rows[0].Did != "se" || len(is.Curves) != 2 || len(is.Curves[1].Values) != 4 {
				t.Errorf("%v: rows %+v, curves %+v", err, is.Rows, is.Curves)
			}
		})
	}
}
