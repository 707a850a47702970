package badinput

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/mpiup/mpiup/test/lab"
)

// What the user wants written somewhere and cannot be is known before a rank starts, by whatever name mpiup is called.
func TestOutputsThatCannotBe(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"mpiexec.hydra", "orterun", "horovodrun", "torchrun"} {
		if err := os.Symlink(bin, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	const none = "/dev/null/x" // where nobody makes anything, root neither
	for _, tt := range []struct {
		name, env string
		argv      []string
		code      int
		says      string
	}{
		{"--report", "", []string{bin, "run", "--report", none}, 251, "--report " + none},
		{"--report, a file", "", []string{bin, "run", "--report", "/proc/version"}, 251, "--report /proc/version"},
		{"--report, where no file can be", "", []string{bin, "run", "--report", "/proc/self"}, 251, "--report /proc/self: create a file in /proc/self"},
		{"--termination-log", "", []string{bin, "run", "--termination-log", none}, 251, "--termination-log " + none},
		{"--termination-log without its directory", "", []string{bin, "run", "--termination-log", at("gone/log")}, 251, "gone/log: no such file"},
		{"--termination-log, a directory", "", []string{bin, "run", "--termination-log", dir}, 251, "is a directory"},
		{"MPIUP_TERMINATION_LOG", "MPIUP_TERMINATION_LOG=" + none, []string{bin, "run"}, 251, none},
		{"MPIUP_TERMINATION_LOG of exec", "MPIUP_TERMINATION_LOG=" + none, []string{at("orterun"), "--allow-run-as-root"}, 251, none},
		{"--output-dir", "", []string{bin, "run", "--output-dir", none}, 251, "mkdir /dev/null"},
		{"--output-filename", "", []string{at("orterun"), "--allow-run-as-root", "--output-filename", none}, 251, "mkdir /dev/null"},
		{"--report-pid", "", []string{at("orterun"), "--allow-run-as-root", "--report-pid", none}, 240, "--report-pid"},
		{"-outfile-pattern, a path", "", []string{at("mpiexec.hydra"), "-outfile-pattern", none}, 251, "mkdir /dev/null"},
		{"-errfile-pattern", "", []string{at("mpiexec.hydra"), "-errfile-pattern", none + "/%r"}, 251, "mkdir /dev/null"},
		{"horovodrun", "", []string{at("horovodrun"), "--output-filename", none}, 251, "mkdir /dev/null"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ran := filepath.Join(t.TempDir(), "ran")
			size := "-n"
			if filepath.Base(tt.argv[0]) == "horovodrun" {
				size = "-np"
			}
			c := exec.Command(tt.argv[0], append(append([]string{}, tt.argv[1:]...), size, "1", "touch", ran)...)
			c.Dir, c.Env = t.TempDir(), []string{"PATH=/usr/bin:/bin", "HOME=" + dir, "TMPDIR=" + dir}
			if tt.env != "" {
				c.Env = append(c.Env, tt.env)
			}
			ended{Result: lab.Run(t, bound, c)}.check(t, tt.code, tt.says)
			if _, err := os.Stat(ran); err == nil {
				t.Error("the rank ran")
			}
		})
	}
}
