package attack

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mpiup/mpiup/test/lab"
)

// shared is a directory that ranks may write to, in one that they may write to as well, and a file that they may not.
func shared(t *testing.T) (top, dir, victim string) {
	t.Helper()
	top = t.TempDir()
	dir, victim = filepath.Join(top, "open", "shared"), filepath.Join(top, "victim")
	if err := errors.Join(os.MkdirAll(dir, 0o777), os.Mkdir(filepath.Join(top, "theirs"), 0o777), os.WriteFile(victim, []byte(kept), 0o600)); err != nil {
		t.Fatal(err)
	}
	return top, dir, victim
}

const kept = "nobody else's\n"

// in runs a command with a shell script for a rank in a place of a test's own.
func in(t *testing.T, top string, args ...string) lab.Result {
	t.Helper()
	c := exec.Command(bin, args...)
	c.Dir, c.Env = top, []string{"PATH=/usr/bin:/bin", "HOME=" + top, "TMPDIR=" + top}
	return lab.Run(t, bound, c)
}

// A rank moves the directory that a launcher was told to leave its report in, and puts a link, or one of its own, in its place. The report is in the
// directory that was there when the run began, or the run says that it is not.
func TestDirectoriesThatRanksMove(t *testing.T) {
	for _, how := range []string{"ln -s %[2]s %[1]s", "mkdir %[1]s", "mkfifo %[1]s", "true"} {
		top, dir, _ := shared(t)
		other := filepath.Join(top, "theirs")
		script := fmt.Sprintf("mv %[1]s %[1]s.old; "+how+"; exit 3", dir, other)
		r := in(t, top, "run", "--report", dir, "-n", "1", "sh", "-c", script)
		for _, at := range []string{other, dir} {
			if names, err := os.ReadDir(at); err == nil && len(names) > 0 {
				t.Errorf("%s: in %s is %v", how, at, names)
			}
		}
		if _, err := os.Stat(dir + ".old/report.json"); r.Code != 3 || err != nil {
			t.Errorf("%s: it ends with %d, %v:\n%s", how, r.Code, err, r.Stderr)
		}
	}
}

// A rank changes what stands at a name all the time while the launcher opens it: a link, a file, nothing, a pipe. What the link leads to stays as it is.
func TestNamesThatRanksChangeMeanwhile(t *testing.T) {
	top, dir, victim := shared(t)
	flip := filepath.Join(top, "flip")
	script := fmt.Sprintf("while test -d %s; do for n in o.0 report.json events.jsonl log; do ln -sf %s %s/$n; rm -f %[3]s/$n; echo x >%[3]s/$n; rm -f %[3]s/$n; mkfifo %[3]s/$n 2>&-; rm -f %[3]s/$n; done; done", flip, victim, dir)
	if err := os.Mkdir(flip, 0o700); err != nil {
		t.Fatal(err)
	}
	c := exec.Command("sh", "-c", script)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	hydra := filepath.Join(top, "mpiexec.hydra")
	if err := os.Symlink(bin, hydra); err != nil {
		t.Error(err)
	}
	for range 6 {
		r := in(t, top, "run", "--report", dir, "--termination-log", dir+"/log", "-n", "1", "sh", "-c", "echo x; exit 3")
		h := exec.Command(hydra, "-outfile-pattern", dir+"/o.%r", "-n", "1", "sh", "-c", "echo of the rank")
		h.Dir, h.Env = top, []string{"PATH=/usr/bin:/bin", "HOME=" + top, "TMPDIR=" + top}
		o := lab.Run(t, bound, h)
		if text, err := os.ReadFile(victim); err != nil || string(text) != kept {
			t.Fatalf("another's file has %q, %v", text, err)
		}
		if r.Code != 3 && r.Code != 251 || o.Code != 0 && o.Code != 251 {
			t.Errorf("they end with %d and %d:\n%s%s", r.Code, o.Code, r.Stderr, o.Stderr)
		}
	}
	if err := os.Remove(flip); err != nil {
		t.Error(err)
	}
	_ = c.Wait() // its last command's code
}

// Ranks of a run before plant directories with the numbers of attempts to come. Nothing of them is written to, and the run's own output is somewhere.
func TestAttemptsThatRanksNumber(t *testing.T) {
	for _, planted := range []string{"attempt-9223372036854775807", "attempt-99999999999999999999", "attempt-0", "attempt--1", "attempt-2 ", "attempt-0x7"} {
		top, dir, victim := shared(t)
		at := filepath.Join(dir, planted)
		if err := errors.Join(os.MkdirAll(filepath.Join(at, "rank.0"), 0o777), os.Symlink(victim, filepath.Join(at, "rank.0", "stdout")), os.MkdirAll(filepath.Join(dir, "rank.0"), 0o777), os.Symlink(victim, filepath.Join(dir, "rank.0", "stdout"))); err != nil {
			t.Fatal(err)
		}
		r := in(t, top, "run", "--output-dir", dir, "-n", "1", "echo", "of the rank")
		text, err := os.ReadFile(victim)
		if err != nil || string(text) != kept {
			t.Errorf("%s: another's file has %q, %v", planted, text, err)
		}
		found, _ := filepath.Glob(dir + "/*/rank.0/stdout")
		whole := false
		for _, f := range found {
			if text, err := os.ReadFile(f); err == nil && strings.Contains(string(text), "of the rank") {
				whole = true
			}
		}
		if r.Code == 0 != whole || r.Code != 0 && !strings.Contains(r.Stderr, dir) {
			t.Errorf("%s: it ends with %d, and the output is there: %v\n%s", planted, r.Code, whole, r.Stderr)
		}
	}
}

// Somebody puts a pipe, a directory, a link without end or another's file where a person looks for a report. mpiup report ends, and shows nothing of it.
func TestReportsThatSomebodyPlants(t *testing.T) {
	top, dir, _ := shared(t)
	secret := filepath.Join(top, "secret")
	if err := os.WriteFile(secret, []byte("root:$6$salt$hash:1::::::\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, how := range []string{"mkfifo %[1]s", "mkdir %[1]s", "ln -s %[1]s %[1]s", "ln -s /dev/zero %[1]s", "ln -s /dev/stdin %[1]s", "ln -s " + secret + " %[1]s", "ln " + secret + " %[1]s"} {
		at := filepath.Join(dir, "report.json")
		if err := exec.Command("sh", "-c", fmt.Sprintf("rm -rf %[1]s; "+how, at)).Run(); err != nil {
			t.Fatal(how, err)
		}
		begun := time.Now()
		for _, args := range [][]string{{"report", dir}, {"report", "--json", dir}} {
			if e := mpiup(t, args...); e.Code == 0 || strings.Contains(e.Stdout+e.Stderr, "hash") || !strings.Contains(e.Stderr, "report.json") {
				t.Errorf("%s: it ends with %d: %s%s", how, e.Code, e.Stdout, e.Stderr)
			}
		}
		if took := time.Since(begun); took > bound/2 {
			t.Errorf("%s: it takes %v", how, took)
		}
	}
}

// What ranks plant where a launcher brings files from, and where it keeps reports of runs that failed, holds nobody up.
func TestPlacesThatRanksFill(t *testing.T) {
	top, dir, victim := shared(t)
	if err := exec.Command("mkfifo", filepath.Join(dir, "prog"), filepath.Join(dir, "data")).Run(); err != nil {
		t.Fatal(err)
	}
	at := startAgent(t, nil, "--insecure", "--http", "off")
	for _, args := range [][]string{{"--preload-files", dir + "/data", "-n", "1", "true"}, {"--preload-binary", "-n", "1", dir + "/prog"}} {
		if r := in(t, top, append([]string{"run", "--insecure", "--host", at.Addr, "--wait", "5"}, args...)...); r.Code == 0 || !strings.Contains(r.Stderr, dir) {
			t.Errorf("%q ends with %d:\n%s", args, r.Code, r.Stderr)
		}
	}
	reports := filepath.Join(top, "reports")
	if err := os.MkdirAll(filepath.Join(reports, "00000000T000000.json", "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	for i := range 40 {
		if err := os.Symlink(victim, filepath.Join(reports, fmt.Sprintf("0000%04d.json", i))); err != nil {
			t.Fatal(err)
		}
	}
	c := exec.Command(bin, "run", "-n", "1", "sh", "-c", "exit 3")
	c.Dir, c.Env = top, []string{"PATH=/usr/bin:/bin", "HOME=" + top, "MPIUP_REPORTS=" + reports}
	r := lab.Run(t, bound, c)
	if text, err := os.ReadFile(victim); r.Code != 3 || err != nil || string(text) != kept {
		t.Errorf("it ends with %d, and another's file has %q, %v\n%s", r.Code, text, err, r.Stderr)
	}
	if list, err := filepath.Glob(reports + "/20*.json"); err != nil || len(list) != 1 {
		t.Errorf("of the run is %q, %v", list, err)
	}
}
