package attack

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/test/lab"
)

// A rank may write where the launcher is about to leave files, as on a volume that all pods share, and it puts a link to a file of the launcher's user
// there, or a pipe. The launcher writes to neither what the link leads to, nor does it wait for somebody who reads the pipe.
func TestLinksOfRanks(t *testing.T) {

	names := t.TempDir()
	for _, name := range []string{"mpiexec.hydra", "orterun"} {
		if err := os.Symlink(bin, filepath.Join(names, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		name  string
		plant string // the name in the shared directory
		code  int
		says  string
		named bool   // the user named this very path: a pipe is meant
		left  string // a file that is there then; empty: none is
		argv  func(dir string, plant ...string) []string
	}{
		{name: "a report", plant: "report.json", code: 3, left: "report.json", argv: func(dir string, plant ...string) []string {
			return append([]string{bin, "run", "--report", dir}, plant...)
		}},
		{name: "a report's events", plant: "events.jsonl", code: 3, left: "events.jsonl", argv: func(dir string, plant ...string) []string {
			return append([]string{bin, "run", "--report", dir}, plant...)
		}},
		{name: "a report that is kept", plant: "kept/20000101.json", code: 3, argv: func(dir string, plant ...string) []string {
			return append([]string{"env", "MPIUP_REPORTS=" + dir + "/kept", bin, "run"}, plant...)
		}},
		{name: "the termination log", plant: "log", named: true, code: 3, says: "--termination-log", argv: func(dir string, plant ...string) []string {
			return append([]string{bin, "run", "--termination-log", dir + "/log"}, plant...)
		}},
		{name: "a pattern's file", plant: "o.0", code: 251, says: "output file of rank 0", argv: func(dir string, plant ...string) []string {
			return append([]string{names + "/mpiexec.hydra", "-outfile-pattern", dir + "/o.%r"}, plant...)
		}},
		{name: "a pattern's directory", plant: "0", code: 251, says: "output file of rank 0", argv: func(dir string, plant ...string) []string {
			return append([]string{names + "/mpiexec.hydra", "-outfile-pattern", dir + "/%r/out"}, plant...)
		}},
		{name: "a run's file, by a rank of the run before", plant: "1/rank.0/stdout", code: 251, says: "output file of rank 0", argv: func(dir string, plant ...string) []string {
			return again(append([]string{names + "/orterun", "--allow-run-as-root", "--output-filename", dir}, plant...))
		}},
		{name: "a later run's directory, by a rank of the run before", plant: "attempt-2", code: 3, left: "attempt-3/rank.0/stdout", argv: func(dir string, plant ...string) []string {
			return again(append([]string{bin, "run", "--output-dir", dir}, plant...))
		}},
		{name: "the launcher's number, by a rank of the run before", plant: "pid", named: true, code: 240, says: "--report-pid", argv: func(dir string, plant ...string) []string {
			return again(append([]string{names + "/orterun", "--allow-run-as-root", "--report-pid", dir + "/pid"}, plant...))
		}},
	} {
		for _, kind := range []string{"link", "pipe"} {
			t.Run(tt.name+", "+kind, func(t *testing.T) {
				top := t.TempDir()
				dir, victim := filepath.Join(top, "shared"), filepath.Join(top, "victim")
				if err := errors.Join(os.Chmod(top, 0o755), os.Mkdir(dir, 0o777), os.Chmod(dir, 0o777), os.WriteFile(victim, []byte(kept), 0o600)); err != nil {
					t.Fatal(err)
				}
				at := filepath.Join(dir, tt.plant)
				how := "ln -sf " + victim + " " + at
				if kind == "pipe" {
					how = "mkfifo " + at
				}
				argv := tt.argv(dir, "-n", "1", "sh", "-c", fmt.Sprintf("mkdir -p %s; rm -rf %s; %s; echo of the rank; exit 3", filepath.Dir(at), at, how))
				c := exec.Command(argv[0], argv[1:]...)
				c.Dir, c.Env = top, []string{"PATH=/usr/bin:/bin", "HOME=" + top, "TMPDIR=" + top}
				r := lab.Run(t, bound, c)
				if text, err := os.ReadFile(victim); err != nil || string(text) != kept {
					t.Errorf("another's file has %.200q, %v", text, err)
				}
				code, says := tt.code, tt.says
				if kind == "pipe" && tt.named {
					code, says = 3, ""
				}
				first := code == 251 && r.Code == 3 // the rank's end was told of before its output came
				if r.Code != code && !first || !strings.Contains(r.Stderr, says) {
					t.Errorf("code %d, not %d with %q:\n%s", r.Code, code, says, r.Stderr)
				}
				if tt.left != "" {
					if fi, err := os.Lstat(filepath.Join(dir, tt.left)); err != nil || !fi.Mode().IsRegular() || fi.Size() == 0 {
						t.Errorf("%s: %v, %v", tt.left, fi, err)
					}
				}
			})
		}
	}
}

// again is a command that runs twice: its second life counts.
func again(argv []string) []string {
	return append([]string{"sh", "-c", `"$@" >&2; exec "$@"`, "twice"}, argv...)
}
