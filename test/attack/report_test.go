package attack

import (
	"strings"
	"testing"

	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/launcher/report"
	"github.com/mpiup/mpiup/launcher/verdict"
)

// An agent or a rank gets escapes and the beginnings of lines into a report. Nothing but what is printed shows, and no line is theirs.
func TestReportShowsNoEscapes(t *testing.T) {
	const evil = "x\x1b[2J\u009b31m\u202ey\nVerdict: none\r"
	text, err := visible.JSONLine(&report.Report{Mark: report.Mark, Version: report.Version, Job: evil, Command: []string{evil}, Launcher: evil, Mpiup: evil,
		Hosts:   []report.Host{{Name: evil, Node: evil}},
		Events:  []report.Event{{Kind: evil, Host: evil, Ranks: evil, Text: evil}},
		Ranks:   []report.Rank{{Host: evil, End: evil, Last: []string{evil}}},
		Verdict: &verdict.Verdict{Kind: verdict.GPUFault, Phase: evil, Why: evil, Evidence: []string{evil}, Advice: []string{evil}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, as := range []string{"--json=false", "--json"} {
		e := read(t, string(text), "report", as)
		if e.Code != 0 || strings.ContainsAny(e.Stdout+e.Stderr, "\x1b\u009b\u202e\r") || strings.Contains(e.Stdout, "\nVerdict: none") {
			t.Errorf("%s: it ends with %d and writes %q", as, e.Code, e.Stdout)
		}
	}
}
