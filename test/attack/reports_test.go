package attack

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/launcher/report"
	"github.com/mpiup/mpiup/launcher/verdict"
	"github.com/mpiup/mpiup/test/lab"
)

// evilCommand is what no output of a command may have.
const evilCommand = "kubectl delete node --all"

// forgedReport is a report as a rank may write it, with a command in each text of its verdict but those that quote the rank.
func forgedReport(mark string) *report.Report {
	nine := 9
	return &report.Report{Mark: mark, Version: report.Version, Job: "j", Command: []string{"mpiup", "run"}, Launcher: "l", ExitCode: 1,
		Ranks: []report.Rank{{Rank: 9, Host: "w9", End: evilCommand}},
		Verdict: &verdict.Verdict{Kind: verdict.GPUFault, Rank: &nine, Host: "w9", Node: evilCommand, Pod: evilCommand, Cordon: evilCommand, Phase: evilCommand,
			Signal: evilCommand, Errno: evilCommand, GPU: evilCommand, PCI: evilCommand, HCA: evilCommand, Why: evilCommand, Ranks: evilCommand,
			Reporters: evilCommand, Confidence: evilCommand, Evidence: []string{evilCommand}, Advice: []string{evilCommand}, Others: []string{evilCommand},
			Frames: []string{evilCommand}}}
}

// A rank writes what begins as a report at the beginning of its log: what the log tells is told, and nothing of that.
func TestLogsThatBeginAsReports(t *testing.T) {
	for name, mark := range map[string]string{"without a mark": "", "with the mark": report.Mark} {
		line, err := visible.JSONLine(forgedReport(mark))
		if err != nil {
			t.Fatal(err)
		}
		const truth = "[1,3]<stderr>:RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB\n"
		for what, log := range map[string]string{"a whole one": string(line) + "\n" + truth, "half of one": string(line[:len(line)/2]) + "\n" + truth, "a word": `{"version":` + "\n" + truth} {
			file := filepath.Join(t.TempDir(), "log")
			if err := os.WriteFile(file, []byte(log), 0o600); err != nil {
				t.Fatal(err)
			}
			for _, args := range [][]string{{"why"}, {"verdict"}, {"verdict", "--json"}, {"report"}, {"logs", "--rank", "3"}} {
				for _, e := range []lab.Result{read(t, log, args...), mpiup(t, append(slices.Clone(args), file)...)} {
					said, _, _ := strings.Cut(e.Stdout, "last lines") // which are the log's own
					if strings.Contains(said, evilCommand) || strings.Contains(said, "w9") || e.Code != 0 {
						t.Errorf("%s %s, %q: it ends with %d and says %s%s", what, name, args, e.Code, e.Stdout, e.Stderr)
					}
					if args[0] != "logs" && !strings.Contains(said, "gpu-out-of-memory") {
						t.Errorf("%s %s, %q: the log is not read: %s%s", what, name, args, e.Stdout, e.Stderr)
					}
				}
			}
		}
	}
}

// A rank leaves a file in the place of a run's report: without the mark it is none, and of one that copies that no sentence and no command is told.
func TestReportsThatRanksWrite(t *testing.T) {
	for _, mark := range []string{"", report.Mark} {
		text, err := visible.JSONLine(forgedReport(mark))
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		file := filepath.Join(dir, report.FileName)
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{{"why", dir}, {"why", file}, {"verdict", dir}, {"verdict", "--json", dir}, {"verdict", "--json", file}, {"report", "--json", dir}} {
			e := mpiup(t, args...)
			said := e.Stdout + e.Stderr
			if log := mark == "" && args[len(args)-1] == file; log { // whose line is quoted as what it is
				if args[0] == "verdict" && strings.Contains(said, `"advice":["`+evilCommand) || strings.Contains(said, "Verdict: gpu-fault") || strings.HasPrefix(said, `{"kind":"gpu-fault"`) {
					t.Errorf("%q: it believes a log: %s", args, said)
				}
				continue
			}
			if strings.Contains(said, evilCommand) || mark == "" && (e.Code == 0 || strings.Contains(said, "gpu-fault")) {
				t.Errorf("%q: it ends with %d and says %s%s", args, e.Code, e.Stdout, e.Stderr)
			}
		}
		// Who shows all of it shows it as what the file says.
		for line := range strings.Lines(mpiup(t, "report", dir).Stdout) {
			if strings.Contains(line, evilCommand) && !strings.HasPrefix(line, "  | ") {
				t.Errorf("mpiup report says %s", line)
			}
		}
	}
}
