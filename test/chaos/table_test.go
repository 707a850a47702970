package chaos

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mpiup/mpiup/test/lab"
	"github.com/mpiup/mpiup/test/need"
)

const chaosHead = `# Faults, in every phase of a job

` + "`make chaos`" + ` (test/chaos) writes this page; do not edit it. A job has four ranks of MPICH 4.0.2 or Open MPI 4.1.4 on three hosts, which are Linux
namespaces with an agent each as PID 1. Each fault hits the host of ranks 0 and 1, or what its name says, in each of six phases: gathering, launching, in
MPI_Init, in a fence, running, in finalize. After each, nothing of the job was left on any host, and the agents ran another job.

- **goes on**: exit code 0, every line of output once.
- **a number**: the launcher ended with this code and said why. The slowest is given, from the fault to the launcher's end, and to the last rank's.
- **again**: all ranks started again (` + "`--max-restarts 1`" + `) and the job ended with 0. The slowest is until the new ranks stood where the first had stood.

[data/chaos.tsv](data/chaos.tsv) has each cell. Times are of a machine with other work on it. A time above its bound has a \*: a clock of the test
stood still for at least half of the difference. [performance.md](performance.md) has what a failure costs.

`

// TestChaosTable writes docs/chaos.md from the results in $MPIUP_CHAOS_TABLE.
func TestChaosTable(t *testing.T) {
	dir := need.Asked(t, "MPIUP_CHAOS_TABLE", "a directory of results, as make chaos does")
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	var all []result
	for _, file := range files {
		b, err := os.ReadFile(file)
		var r result
		if err == nil {
			err = json.Unmarshal(b, &r)
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	var kills []falseKills
	for _, h := range harmless {
		var k falseKills
		if b, err := os.ReadFile(falseKillsFile(dir, h.name)); err == nil && json.Unmarshal(b, &k) == nil {
			kills = append(kills, k)
		}
	}
	root, err := lab.Root()
	if err == nil {
		err = os.WriteFile(filepath.Join(root, "docs", "chaos.md"), chaosPage(all, kills), 0o644)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(root, "docs", "data", "chaos.tsv"), chaosData(all), 0o644)
	}
	if err != nil {
		t.Error(err)
	}
}

// chaosPage is the page of some results: a row a fault.
func chaosPage(all []result, kills []falseKills) []byte {
	var out, notes bytes.Buffer
	out.WriteString(chaosHead + "| fault | bound | outcome | slowest |\n|---|---|---|---|\n")
	counts := map[string]int{}
	for _, f := range matrixFaults {
		bound := "–"
		if f.most.within > 0 {
			bound = fmt.Sprint(f.most.within)
		}
		var outcomes []string
		var worst result
		for _, p := range matrixPhases {
			for _, r := range all {
				if r.Fault != f.name || r.Phase != p.name {
					continue
				}
				word, note := r.outcome()
				counts[word]++
				if note != "" {
					fmt.Fprintf(&notes, "- %s, %s: %s\n", f.name, p.name, note)
				}
				if word != "n/a" && !slices.Contains(outcomes, word) {
					outcomes = append(outcomes, word)
				}
				worst.Launcher, worst.Ranks, worst.Within = max(worst.Launcher, r.Launcher), max(worst.Ranks, r.Ranks), max(worst.Within, r.Within)
			}
		}
		fmt.Fprintf(&out, "| %s | %s | %s | %s |\n", f.name, bound, strings.Join(outcomes, ", "), worst.times())
	}
	fmt.Fprintf(&out, "\n%d cells: %d n/a (no rank runs in that phase), %d failed. CI runs %d of them.\n\n", len(all), counts["n/a"], counts["FAILED"], len(ci))
	if notes.Len() > 0 {
		fmt.Fprintf(&out, "%s\n", notes.String())
	}
	writeFalseKills(&out, kills)
	fmt.Fprintf(&out, "Commit %s, %s, %d cores, Linux %s.\n", strings.Join(commitsOf(all), ", "), runtime.GOARCH, runtime.NumCPU(), kernel())
	return out.Bytes()
}

// chaosData has a line a cell.
func chaosData(all []result) []byte {
	var out bytes.Buffer
	out.WriteString("fault\tphase\tlibrary\toutcome\tlauncher ends, s\tlast rank ends, s\tcommit\n")
	for _, f := range matrixFaults {
		for _, p := range matrixPhases {
			for _, r := range all {
				if r.Fault == f.name && r.Phase == p.name {
					word, _ := r.outcome()
					times := []string{"-", "-"}
					for i, d := range []time.Duration{r.Launcher, r.Ranks} {
						if d > 0 {
							times[i] = fmt.Sprintf("%.2f", d.Seconds())
						}
					}
					fmt.Fprintf(&out, "%s\t%s\t%s\t%s\t%s\t%s\n", r.Fault, r.Phase, r.Library, word, strings.Join(times, "\t"), r.Commit)
				}
			}
		}
	}
	return out.Bytes()
}

// writeFalseKills is the part of the page about jobs that nothing may end.
func writeFalseKills(out *bytes.Buffer, kills []falseKills) {
	if len(kills) == 0 {
		return
	}
	fmt.Fprint(out, "## Jobs ended though nothing was wrong\n\n`make false-kills` ran jobs of four ranks on two hosts, one of which has a trouble, with the default times.\n\n"+
		"| trouble | side by side | jobs | ended | not judged | commit |\n|---|---|---|---|---|---|\n")
	var notes strings.Builder
	for _, k := range kills {
		fmt.Fprintf(out, "| %s | %d | %d | %d | %d | %s |\n", k.Trouble, k.Side, k.Well+len(k.Wrong), k.ended(), len(k.Wrong)-k.ended(), k.Commit)
		counts := map[string]int{}
		for _, w := range k.Wrong {
			if counts[w]++; counts[w] == 1 && len(counts) <= 5 {
				fmt.Fprintf(&notes, "- %s: %s\n", k.Trouble, w[:min(len(w), 300)])
			}
		}
	}
	if notes.Len() > 0 {
		fmt.Fprintf(out, "\n%s", notes.String())
	}
	fmt.Fprintln(out)
}

// outcome is a result in a word, and what is to be said of one that failed.
func (r result) outcome() (word, note string) {
	switch {
	case r.NA != "":
		return "n/a", ""
	case !r.OK:
		why := strings.Join(strings.Fields(strings.Join(r.Wrong, "; ")), " ")
		return "FAILED", "failed with " + r.Library + ": " + why[:min(len(why), 300)]
	case r.Again:
		return "again", ""
	case r.Within == 0:
		return "goes on", ""
	}
	return fmt.Sprint(r.Code), ""
}

// times are those of the slowest cell of a row.
func (r result) times() string {
	var text string
	switch {
	case r.Launcher == 0 && r.Ranks == 0:
		return ""
	case r.Ranks > time.Millisecond:
		text = seconds(r.Launcher) + " (" + seconds(r.Ranks) + ")"
	default:
		text = seconds(r.Launcher)
	}
	if r.Launcher > r.Within {
		text += "\\*"
	}
	return text
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }

// commitsOf are the commits of results, of which there should be one; where there are several, with how many cells each has.
func commitsOf(all []result) (out []string) {
	count := map[string]int{}
	for _, r := range all {
		if count[r.Commit]++; count[r.Commit] == 1 {
			out = append(out, r.Commit)
		}
	}
	if len(out) < 2 {
		return out
	}
	slices.Sort(out)
	for i, c := range out {
		out[i] = fmt.Sprintf("%s (%d cells)", c, count[c])
	}
	return out
}

// kernel is the kernel's release.
func kernel() string {
	b, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	return strings.TrimSpace(string(b))
}

func TestChaosPage(t *testing.T) {
	page := string(chaosPage([]result{
		{Fault: "rank SIGKILL", Phase: gathering, Library: "mpich", NA: noRank, Commit: "abc"},
		{Fault: "rank SIGKILL", Phase: inFence, Library: "openmpi", OK: true, Code: 137, Launcher: 270 * time.Millisecond, Ranks: 12 * time.Millisecond, Within: death, Commit: "abc"},
		{Fault: "rank SIGKILL, --max-restarts 1", Phase: launching, Library: "mpich", OK: true, Again: true, Within: anew, Commit: "abc"},
		{Fault: "rank SIGKILL, --max-restarts 1", Phase: running, Library: "mpich", OK: true, Again: true, Launcher: 300 * time.Millisecond, Ranks: 20 * time.Millisecond, Within: anew, Commit: "abc"},
		{Fault: "slow link", Phase: running, Library: "mpich", OK: true, Commit: "abc"},
		{Fault: "disk full", Phase: running, Library: "mpich", Wrong: []string{"left on w0:\nfile x"}, Commit: "abc"},
	}, []falseKills{{Trouble: "agent SIGSTOP 8 s", Side: 20, Well: 249, Wrong: []string{"the launcher ended with 248: x"}, Commit: "abc"}}))
	for _, want := range []string{
		"| rank SIGKILL | 200ms | 137 | 0.27 s (0.01 s)\\* |\n",
		"| rank SIGKILL, --max-restarts 1 | 2s | again | 0.30 s (0.02 s) |\n",
		"| slow link | – | goes on |  |\n", "6 cells: 1 n/a (no rank runs in that phase), 1 failed. CI runs ",
		"- disk full, running: failed with mpich: left on w0: file x\n", "Commit abc, ",
		"| agent SIGSTOP 8 s | 20 | 250 | 1 | 0 | abc |\n\n- agent SIGSTOP 8 s: the launcher ended with 248: x\n",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not have %q:\n%s", want, page)
		}
	}
}
