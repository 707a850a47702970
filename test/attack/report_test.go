package attack

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/launcher/report"
	"github.com/mpiup/mpiup/launcher/verdict"
)

// A rank writes reports of its own, of a run that went well, and much that looks like parts of one, and fails. Whoever reads the log with mpiup report is
// shown the run's own, or told that he is not.
func TestRankWritesAReport(t *testing.T) {
	key := report.Key{1}
	forged, err := report.Seal(&report.Report{Version: report.Version, Job: "forged", Ranks: []report.Rank{{Host: "w9", End: "exit code 0"}}}, key)
	if err != nil {
		t.Fatal(err)
	}
	lines := append([]string{report.Promise(key)}, forged...)
	for _, digit := range "0123456789abcdef" {
		for _, other := range "0123" {
			lines = append(lines, "mpiup-report "+strings.Repeat(string(digit)+string(other), 4)+" 1/2 AAAA")
		}
	}
	lines = append(append(lines, forged...), "[0] no end of line")
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, how := range []string{"", "--tag-output", "--output json"} {
		for _, end := range []string{"0", "3"} {
			args := append([]string{"run", "--seal"}, strings.Fields(how)...)
			run := mpiup(t, append(args, "-n", "1", "sh", "-c", "cat "+text+"; cat "+text+" >&2; exit "+end)...)
			log := run.Stderr
			if how == "--output json" {
				log = run.Stdout + run.Stderr
			}
			e := read(t, log, "report")
			if e.Code != 0 || !strings.Contains(e.Stdout, "exit code "+end+"\n") || strings.Contains(e.Stdout, "Job forged") {
				t.Errorf("%q, exit %s: mpiup report ends with %d and says %s%s of\n%s", how, end, e.Code, e.Stdout, e.Stderr, log)
			}
			if strings.Contains(e.Stderr, "may have written this report") || strings.Contains(e.Stderr, "nothing proves") {
				t.Errorf("%q, exit %s: the run's own report is doubted: %s", how, end, e.Stderr)
			}
			_, behind, _ := strings.Cut(log, report.Promise(key)) // kubectl logs --tail
			if e := read(t, behind, "report"); e.Code != 0 || !strings.Contains(e.Stdout, "exit code "+end+"\n") || !strings.Contains(e.Stderr, "nothing proves") && how == "" {
				t.Errorf("%q, exit %s: of the last lines mpiup report ends with %d and says %s%s", how, end, e.Code, e.Stdout, e.Stderr)
			}
			at := strings.LastIndex(log[:strings.LastIndex(log, "mpiup-report ")], "\n")
			if e := read(t, log[:max(at, 0)], "report"); how == "" && !strings.Contains(e.Stderr, "a rank may have written this report") ||
				how != "" && (strings.Contains(e.Stdout, "Job forged") || !strings.Contains(e.Stderr, "it holds no report")) { // the log's lines tell why
				t.Errorf("%q, exit %s: without the run's own mpiup report ends with %d and says %s%s", how, end, e.Code, e.Stdout, e.Stderr)
			}
		}
	}
}

// An agent or a rank gets escapes and the beginnings of lines into a report. Nothing but what is printed shows, and no line is theirs.
func TestReportShowsNoEscapes(t *testing.T) {
	const evil = "x\x1b[2J\u009b31m\u202ey\nVerdict: none\r"
	lines, err := report.Seal(&report.Report{Version: report.Version, Job: evil, Command: []string{evil}, Launcher: evil, Mpiup: evil, LeftOut: []string{evil},
		Hosts:   []report.Host{{Name: evil, Node: evil}},
		Events:  []report.Event{{Kind: evil, Host: evil, Ranks: evil, Text: evil}},
		Ranks:   []report.Rank{{Host: evil, End: evil, Last: []string{evil}}},
		Verdict: &verdict.Verdict{Kind: evil, Evidence: []string{evil}, Advice: []string{evil}},
	}, report.Key{})
	if err != nil {
		t.Fatal(err)
	}
	for _, as := range []string{"--json=false", "--json"} {
		e := read(t, strings.Join(lines, "\n"), "report", as)
		if e.Code != 0 || strings.ContainsAny(e.Stdout+e.Stderr, "\x1b\u009b\u202e\r") || strings.Contains(e.Stdout, "\nVerdict: none") {
			t.Errorf("%s: it ends with %d and writes %q", as, e.Code, e.Stdout)
		}
	}
}
