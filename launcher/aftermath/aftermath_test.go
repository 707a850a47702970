package aftermath

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/launcher/report"
	"github.com/mpiup/mpiup/launcher/verdict"
)

// left writes reports of two failures into a folder, the newer of rank 1.
func left(t *testing.T, dir string) {
	t.Helper()
	rank := 1
	for i, code := range []int{7, 3} {
		r := &report.Report{Mark: report.Mark, Version: report.Version, Job: "j", Command: []string{"mpiup", "run", "./\x1b[31mtrain"}, ExitCode: code,
			Verdict: &verdict.Verdict{Kind: verdict.ExitCode, Rank: &rank, Host: "w1", Evidence: []string{"rank 1 on w1 exited with code 3"}, Advice: []string{"see what it wrote"}},
			Ranks:   []report.Rank{{Rank: 0, Host: "w0", End: "signal 15 (SIGTERM)", Last: []string{"lost my peer"}}, {Rank: 1, Host: "w1", End: "exit code 3", Last: []string{"no input.dat"}}}}
		var b strings.Builder
		if err := visible.JSON(&b, r); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, []string{"20260101T000000.000-a.json", "20260102T000000.000-b.json"}[i]), []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// A log without a report, as of a run that goes on, makes a page of its lines; one that has half a report does not.
func TestPageOfALogWithoutAReport(t *testing.T) {
	dir := t.TempDir()
	log, to := filepath.Join(dir, "launcher.log"), filepath.Join(dir, "run.html")
	lines := "{\"time\":\"2026-01-02T03:04:05Z\",\"rank\":1,\"host\":\"w1\",\"stream\":\"stdout\",\"text\":\"step 1 password=hunter2hunter2\"}\n" +
		"{\"time\":\"2026-01-02T03:04:07Z\",\"rank\":0,\"host\":\"w0\",\"stream\":\"stdout\",\"text\":\"step 1\"}\n"
	if err := os.WriteFile(log, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	d := &Desk{Stdout: &strings.Builder{}, Stderr: &strings.Builder{}}
	if err := d.Page(log, "", to); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(to)
	for _, want := range []string{`"begun":"2026-01-02T03:04:05Z"`, `{"rank":0,"host":"w0"}`, `{"rank":1,"host":"w1"}`, "the log has no report"} {
		if err != nil || !strings.Contains(string(page), want) {
			t.Errorf("%v: the page lacks %s", err, want)
		}
	}
	if err := d.Page(filepath.Join(dir, "none"), "", to); err == nil {
		t.Error("a file that is not there made a page")
	}
}

// Without a name, at a terminal, the newest failure of this user is shown, of a folder that is this user's alone.
func TestTheNewestFailure(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	var out, errs strings.Builder
	d := &Desk{Stdout: &out, Stderr: &errs, Typed: true, Kept: filepath.Join(dir, "none")}
	for name, ask := range map[string]func() error{
		"why":           func() error { _, err := d.Why(""); return err },
		"report":        func() error { return d.Report("", report.View{}, false) },
		"report --json": func() error { return d.Report("", report.View{}, true) },
		"report --html": func() error { return d.Page("", "", filepath.Join(dir, "page.html")) },
		"report --list": d.List,
	} {
		err := ask()
		if err == nil || !strings.Contains(err.Error(), "no run of this user has left a report") || !strings.Contains(err.Error(), "mpiup run --report DIR") {
			t.Errorf("%s without any: %v", name, err)
		}
	}
	d.Kept = dir
	left(t, dir)
	found, err := d.Why("")
	want := "Verdict: exit-code, rank 1 on w1\n  rank 1 on w1 exited with code 3\n  see what it wrote\n\nLast lines of rank 1 on w1 (exit code 3):\n  no input.dat\n\nNext: mpiup help exit-code    mpiup report --rank 1 " + dir + "/20260102T000000.000-b.json\n"
	if err != nil || !found || out.String() != want || !strings.HasPrefix(errs.String(), "mpiup: the newest of 2 reports: ") ||
		!strings.Contains(errs.String(), "mpiup run --report DIR") { // for who means a later run that ended well
		t.Errorf("%v, %q on stderr, %q, want %q", err, errs.String(), out.String(), want)
	}
	out.Reset()
	if err := d.Report("", report.View{}, false); err != nil || !strings.Contains(out.String(), "exit code 3\n\nVerdict: exit-code") || strings.Contains(out.String(), "lost my peer") {
		t.Errorf("%v: %s", err, out.String())
	}
	out.Reset()
	if err := d.List(); err != nil || strings.Count(out.String(), "\n") != 3 || !strings.Contains(out.String(), "7 exit-code") || strings.Contains(out.String(), "\x1b") ||
		strings.Index(out.String(), "3 exit-code") > strings.Index(out.String(), "7 exit-code") {
		t.Errorf("%v: %s", err, out.String())
	}
	if err := os.Chmod(dir, 0o777); err != nil { // anybody may put a report there
		t.Fatal(err)
	}
	if err := d.List(); err == nil || !strings.Contains(err.Error(), "is not a directory that only uid ") {
		t.Errorf("of a folder of all: %v", err)
	}
}

// At a terminal, without a name, runs that go on here tell what their ranks wrote last, by rank and stream as any log; a run that does not
// tell is named.
func TestLinesOfRunsThatGoOn(t *testing.T) {
	var out, errs strings.Builder
	d := &Desk{Stdout: &out, Stderr: &errs, Typed: true, Said: func() ([]byte, int, error) {
		return []byte("[0 w0 stdout] step 1\n[1 w0 stdout] step 2\n[1 10.0.0.1 stderr] slow\n"), 2, errors.New("pid 8: not now")
	}}
	found, err := d.Logs(nil, Wanted{Ranks: idset.Of(1), Stream: "stderr"})
	if !found || err != nil || out.String() != "[1 10.0.0.1 stderr] slow\n" {
		t.Errorf("%v, %v, %q", found, err, out.String())
	}
	for _, says := range []string{"of your 2 runs on this machine wrote last", "of your runs on this machine: pid 8: not now"} {
		if !strings.Contains(errs.String(), says) {
			t.Errorf("%q does not say %q", errs.String(), says)
		}
	}
}

// A log without a report tells why by its lines, on standard input too; and who waits at a terminal reads that it is read.
func TestWhyOfALog(t *testing.T) {
	log := filepath.Join(t.TempDir(), "a log")
	text := "[0] step 1\n[1] cannot open \x1b[2Jinput.dat\n[0] lost\n\nmpiup: rank 1 on w1 exited with code 3\nmpiup: lines that it had not flushed are lost with it: --pty (or MPIUP_PTY=1) has them written one by one\nmpiup: exit-code; more: mpiup help exit-code, mpiup report\n"
	if err := os.WriteFile(log, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, ask := range map[string]func(d *Desk) error{
		"why":    func(d *Desk) error { _, err := d.Why(log); return err },
		"report": func(d *Desk) error { return d.Report(log, report.View{}, false) },
		"stdin": func(d *Desk) error {
			f, err := os.Open(log)
			if err != nil {
				return err
			}
			defer f.Close()
			d.Stdin = f
			_, err = d.Why("")
			return err
		},
	} {
		var out, errs strings.Builder
		if err := ask(&Desk{Stdout: &out, Stderr: &errs}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, want := range []string{"Verdict: exit-code, rank 1 on w1\n  rank 1 on w1 exited with code 3\n", "\nLast lines of rank 1:\n  [1] cannot open ",
			"input.dat\n\nWhat mpiup wrote at the log's end:\n  mpiup: lines that it had not flushed are lost with it: --pty (or MPIUP_PTY=1) has them written one by one\n\nNext: mpiup help exit-code"} {
			if !strings.Contains(out.String(), want) || strings.ContainsRune(out.String(), 0x1b) {
				t.Errorf("%s: %q lacks %q", name, out.String(), want)
			}
		}
		if name == "why" && !strings.HasSuffix(out.String(), "    mpiup logs --rank 1 '"+log+"'\n") {
			t.Errorf("%q", out.String())
		}
	}
	var out, errs strings.Builder
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	d := &Desk{Stdin: f, Stdout: &out, Stderr: &errs, Typed: true}
	if found, err := d.Verdict(nil, false); found || err != nil || !strings.HasPrefix(errs.String(), "mpiup: reading standard input until Ctrl-D") {
		t.Errorf("%v, %q", err, errs.String())
	}
}

// Why of a log has the shape that it has of a report, and is never less than what the log's own last lines say.
func TestWhyIsNoLessThanTheLog(t *testing.T) {
	const crash = `{"time":"2026-11-27T02:03:15Z","rank":1,"host":"w1","stream":"stderr","text":"    raise ValueError(\"lr\")"}` + "\n" +
		`{"time":"2026-11-27T02:03:15Z","rank":1,"host":"w1","stream":"stderr","text":"ValueError: lr"}` + "\n"
	const mpirun = "-----\nmpirun detected that one or more processes exited with non-zero status\n-----\n"
	const words = "mpiup: rank 0 on w0 was killed by signal 11 (SIGSEGV)\nmpiup: the program crashed: see what it wrote before; a core file needs ulimit -c\n" +
		"mpiup: segfault; more: mpiup help segfault, mpiup report\n"
	for name, c := range map[string]struct{ log, want, never string }{
		"records": {crash, "Verdict: python-exception, rank 1 on w1\n  ValueError: lr\n", "{"},
		"indent":  {crash, "\nLast lines of rank 1:\n      raise ValueError(\"lr\")\n  ValueError: lr\n\nNext: ", "log's last"},
		"of another launcher": {"[1,1]<stderr>:Traceback (most recent call last):\n[1,1]<stderr>:ValueError: lr\n[1,0]<stderr>:bye\n" + mpirun,
			"ValueError: lr\n\nThe log's last lines:\n  -----\n  mpirun detected", "bye"},
		"mpiup's own": {"step 1\n\n" + words, "before mpiup's own, of whatever rank:\n  step 1\n\nWhat mpiup wrote at the log's end:\n  mpiup: the program crashed: see what it wrote before; " +
			"a core file needs ulimit -c\n\nNext: mpiup help segfault    mpiup logs --level warn ", "more:"},
		"with times":                  {"T step 1\n2026-11-27T02:03:15.18Z \n" + strings.ReplaceAll("\n"+words, "\nmpiup", "\n2026-11-27T02:03:15.18Z mpiup"), "log's end:\n  2026-11-27T02:03:15.18Z mpiup: the program crashed", "Z \n"},
		"of no failure that is known": {"step 1\nstep 2\n", "\nThe log's last lines:\n  step 1\n  step 2\n\nNext: mpiup logs --level warn ", "Verdict"},
	} {
		file := filepath.Join(t.TempDir(), "a.log")
		if err := os.WriteFile(file, []byte(c.log), 0o600); err != nil {
			t.Fatal(err)
		}
		out, _ := asked(t, file, func(d *Desk) (bool, error) { return d.Why(file) })
		if !strings.Contains(out, c.want) || strings.Contains(out, c.never) {
			t.Errorf("%s: %s\nwant %s", name, out, c.want)
		}
	}
}

// What is kept of a log is bounded, however long it and its lines are.
func TestALogIsBounded(t *testing.T) {
	g := &gathered{}
	for range 8 {
		if n, err := g.Write([]byte(strings.Repeat("x", 1<<20))); n != 1<<20 || err != nil {
			t.Fatal(n, err)
		}
	}
	if len(g.line) > 64<<10 || len(g.end) > 2*maxEnd || cap(g.end) > 8*maxEnd {
		t.Errorf("%d bytes of a line, %d of the end", len(g.line), len(g.end))
	}
}
