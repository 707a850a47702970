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

Written by ` + "`make chaos`" + ` (test/chaos) from the last result of each cell; do not edit. A cell is one fault in one phase of a job of
four ranks on three hosts, which are Linux namespaces with an agent each as PID 1; gossip and metrics are on, as by default, and the agents know each other before the fault, but in the first two phases; the fault hits the host of ranks 0 and 1, or what
its name says. M is a job of MPICH 4.0.2, O one of Open MPI 4.1.4 (Debian's).

What a failure costs a job that starts again, in GPU-seconds, beside mpirun and torchrun: [performance.md](performance.md#what-a-failure-costs).

- **goes on**: the job went on unharmed: exit code 0, every line of its output once.
- **137, 0.02 s (0.01 s)**: the launcher ended with this code, so long after the fault, and said why; the last rank had ended after the time
  in parentheses. A time above the row's bound has a \*: this machine, with other work on it, kept a clock of the test waiting meanwhile that ticks each
  millisecond, by at least half of what is above: one half for the agent, one for the launcher. A cell whose time is above the bound by more has failed.
  The bound of a rank's death is that of ranks which spin on two cores that they share with other cells; [performance.md](performance.md) has it for ranks with cores of their own.
- **again, 0.30 s (0.02 s)**: all ranks started again (` + "`" + `--max-restarts 1` + "`" + `), and the job ended with 0. So long after the fault the new ranks stood where the first
  ones had stood, of which the last had ended after the time in parentheses. In phases without ranks no time is measured.
- **n/a**: there is no such cell, for a reason below. **FAILED**: see below.

After each, nothing of the job was left on any host (processes, sockets, files, shared memory), and the agents ran another job. Times are those of
the machine below, with other work on it: they show an order of magnitude.

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
	if err != nil {
		t.Error(err)
	}
}

// chaosPage is the page of some results.
func chaosPage(all []result, kills []falseKills) []byte {
	var out, notes bytes.Buffer
	out.WriteString(chaosHead)
	counts := map[string]int{}
	fmt.Fprint(&out, "| fault | bound |")
	for _, p := range matrixPhases {
		fmt.Fprintf(&out, " %s |", p.name)
	}
	fmt.Fprintf(&out, "\n|%s\n", strings.Repeat("---|", len(matrixPhases)+2))
	for _, f := range matrixFaults {
		bound := "–"
		if f.most.within > 0 {
			bound = fmt.Sprint(f.most.within)
		}
		fmt.Fprintf(&out, "| %s | %s |", f.name, bound)
		for _, p := range matrixPhases {
			var cells []string
			for _, r := range all {
				if r.Fault != f.name || r.Phase != p.name {
					continue
				}
				text, note := r.cell()
				counts[strings.Fields(text)[0]]++
				if line := fmt.Sprintf("- %s, %s: %s\n", f.name, p.name, note); note != "" && !strings.Contains(notes.String(), line) { // once for both libraries
					notes.WriteString(line)
				}
				cells = append(cells, text)
			}
			fmt.Fprintf(&out, " %s |", strings.Join(cells, "; "))
		}
		fmt.Fprintln(&out)
	}
	fmt.Fprintf(&out, "\n%d cells: %d n/a, %d failed. CI runs %d of them, the `ci` of test/chaos/matrix_test.go.\n\n%s\n",
		len(all), counts["n/a"], counts["FAILED"], len(ci), notes.String())
	writeFalseKills(&out, kills)
	fmt.Fprintf(&out, "Commit %s, %s, %d cores, Linux %s.\n", strings.Join(commitsOf(all), ", "), runtime.GOARCH, runtime.NumCPU(), kernel())
	return out.Bytes()
}

// writeFalseKills is the part of the page about jobs that nothing may end.
func writeFalseKills(out *bytes.Buffer, kills []falseKills) {
	if len(kills) == 0 {
		return
	}
	fmt.Fprint(out, "## Jobs ended though nothing was wrong\n\nOf `make false-kills`: a job of four ranks on two hosts has this trouble on one of them, and the default times.\n\n"+
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

// cell is a result in few words, and what is to be said of it below the table.
func (r result) cell() (text, note string) {
	library := strings.ToUpper(r.Library[:1])
	switch {
	case r.NA != "":
		return "n/a", r.NA
	case !r.OK:
		why := strings.Join(strings.Fields(strings.Join(r.Wrong, "; ")), " ")
		return "FAILED " + library, "failed with " + library + ": " + why[:min(len(why), 300)]
	case r.Within == 0:
		return "goes on " + library, ""
	}
	text = fmt.Sprintf("%d, %s", r.Code, seconds(r.Launcher))
	if r.Again {
		text = strings.TrimSuffix("again, "+seconds(r.Launcher), ", "+seconds(0))
	}
	if r.Ranks > time.Millisecond {
		text += " (" + seconds(r.Ranks) + ")"
	}
	if r.Launcher > r.Within {
		text += "\\*"
	}
	return text + " " + library, ""
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
		"| rank SIGKILL | 200ms | n/a |  |  | 137, 0.27 s (0.01 s)\\* O |  |  |\n",
		"| rank SIGKILL, --max-restarts 1 | 2s |  | again M |  |  | again, 0.30 s (0.02 s) M |  |\n",
		"| slow link | – |  |  |  |  | goes on M |  |\n", "6 cells: 1 n/a, 1 failed. CI runs ", "- rank SIGKILL, gathering: no rank runs yet\n",
		"- disk full, running: failed with M: left on w0: file x\n", "Commit abc, ",
		"| agent SIGSTOP 8 s | 20 | 250 | 1 | 0 | abc |\n\n- agent SIGSTOP 8 s: the launcher ended with 248: x\n",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not have %q:\n%s", want, page)
		}
	}
}
