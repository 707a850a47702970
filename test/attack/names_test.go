package attack

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/test/lab"
	"github.com/mpiup/mpiup/test/need"
)

// A name that somebody else chose ends in a command line: as a host, a job, a variable or a directory. No shell reads it, and none of
// them is an option.
func TestNamesThatAreCommands(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"kubectl-mpiup", "mpirun", "ssh"} {
		if err := os.Symlink(bin, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	// A kubectl that says what it is given.
	if err := os.WriteFile(filepath.Join(dir, "kubectl"), []byte("#!/bin/sh\nfor a; do echo \"kubectl got <$a>\"; done\nexit 1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	const pwn = "touch pwn"
	for _, bad := range []string{"w;" + pwn, "$(" + pwn + ")", "`" + pwn + "`", "--kubeconfig=x", "-oProxyCommand=" + pwn, "a\n" + pwn, "a b", "../x", "w'x\"y"} {
		for _, argv := range [][]string{
			{bin, "run", "--wait", "1", "--host", bad, "-n", "1", "true"},
			{bin, "exec", "--wait", "1", "--", bad, "true"},
			{bin, "ps", "--host", bad},
			{bin, "doctor", "--wait", "1", "--host", bad},
			{"ssh", "-o", "ConnectTimeout=1", "--", bad, "true"},
			{"kubectl-mpiup", "ps", bad},
			{"kubectl-mpiup", "logs", "mpijob/" + bad},
			{"kubectl-mpiup", "exec", "pi", bad, "--", "true"},
			{"kubectl-mpiup", "ps", "pi", "--pod", bad},
		} {
			c := exec.Command(argv[0], argv[1:]...)
			if filepath.Base(argv[0]) == argv[0] {
				c = exec.Command(filepath.Join(dir, argv[0]), argv[1:]...)
			}
			c.Dir, c.Env = dir, []string{"PATH=" + dir + ":/usr/bin:/bin", "HOME=" + dir}
			e := lab.Run(t, bound, c)
			if _, err := os.Stat(filepath.Join(dir, "pwn")); err == nil {
				t.Fatalf("%q: a shell has read it", argv)
			}
			if e.Code == 0 || argv[0] != "kubectl-mpiup" && strings.Contains(e.Stderr+e.Stdout, "kubectl got") {
				t.Errorf("%q ends with %d:\n%s%s", argv, e.Code, e.Stdout, e.Stderr)
			}
			if strings.Contains(e.Stdout+e.Stderr, "kubectl got <"+bad+">") {
				t.Errorf("%q: kubectl has it as a word of its own:\n%s%s", argv, e.Stdout, e.Stderr)
			}
			if strings.Contains(e.Stderr, "\n"+pwn) {
				t.Errorf("%q: it has a line of its own:\n%s", argv, e.Stderr)
			}
		}
	}
	for _, variable := range []string{"A;" + pwn + "=1", "A=$(" + pwn + ")", "A=`" + pwn + "`", "A=1\n" + pwn} {
		c := exec.Command(filepath.Join(dir, "mpirun"), "--allow-run-as-root", "-x", variable, "-n", "1", "sh", "-c", "true")
		c.Dir, c.Env = dir, []string{"PATH=/usr/bin:/bin", "HOME=" + dir}
		lab.Run(t, bound, c)
		if _, err := os.Stat(filepath.Join(dir, "pwn")); err == nil {
			t.Fatalf("-x %q: a shell has read it", variable)
		}
	}
}

// peakOf runs a command and writes into a file how many KiB it took at most. The kernel counts what the parent had before
// execve, too, so that this test, with the race detector in it, cannot ask for itself.
const peakOf = `import resource, subprocess, sys
code = subprocess.call(sys.argv[2:])
open(sys.argv[1], "w").write(str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss))
sys.exit(code)`

// Logs that are made to cost much are read in little memory, and all of a command's readers come to their end.
func TestLogsThatCost(t *testing.T) {
	need.Program(t, "python3", "python3")
	var ranks, tags strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&ranks, `{"time":"2026-01-01T00:00:00Z","rank":%d,"host":"%s%d","stream":"stderr","line":"Traceback (most recent call last):"}`+"\n", i*7919, strings.Repeat("h", 200), i)
		fmt.Fprintf(&tags, "[1,%d]<stderr>: RuntimeError: CUDA error %d\n", i, i)
	}
	const most = 96 << 10 // KiB; an empty log takes some 20 MiB
	for name, log := range map[string]string{
		"objects without end":      strings.Repeat(`{"a":`, 200_000) + "\n",
		"lists without end":        strings.Repeat("[", 2_000_000) + "\n",
		"a line without end":       strings.Repeat("x", 16<<20),
		"empty lines":              strings.Repeat("\n", 200_000),
		"ranks, each on its host":  ranks.String(),
		"ranks, each with a tag":   tags.String(),
		"a traceback without end":  "Traceback (most recent call last):\n" + strings.Repeat("  File \"x\", line 1\n", 50_000),
		"ranks that are no number": strings.Repeat(`{"rank":1e999,"line":"x"}`+"\n"+`{"rank":-9223372036854775808,"stream":"stderr","line":"x"}`+"\n"+"[99999999999999999999,1]<stderr>: x\n", 1000),
		"times that are none":      strings.Repeat("9999-99-99T99:99:99Z x\n0000-00-00T00:00:00.999999999999999999Z {\"rank\":1}\n", 1000),
	} {
		for _, args := range [][]string{{"verdict"}, {"report"}, {"logs", "--rank", "3", "--level", "error"}} {
			dir := t.TempDir()
			c := exec.Command("python3", append([]string{"-c", peakOf, filepath.Join(dir, "peak"), bin}, args...)...)
			c.Dir, c.Env, c.Stdin = dir, []string{"PATH=/usr/bin:/bin"}, strings.NewReader(log)
			e := lab.Run(t, bound, c)
			text, err := os.ReadFile(filepath.Join(dir, "peak"))
			if err != nil {
				t.Fatal(err)
			}
			if kib, err := strconv.Atoi(string(text)); err != nil || kib > most || strings.Contains(e.Stderr, "goroutine ") {
				t.Errorf("%s: mpiup %s takes %d KiB and ends with %d:\n%.2000s", name, args[0], kib, e.Code, e.Stderr)
			}
		}
	}
}
