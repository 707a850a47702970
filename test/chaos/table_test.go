package chaos

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
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

// TestChaosTable writes docs/chaos.md from the results in $MPIUP_CHAOS_TABLE, and from docs/data/chaos.tsv those of cells that were
// not run now: each says its commit.
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
	if err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(root, "docs", "data", "chaos.tsv")
	before, err := os.ReadFile(data)
	if err != nil {
		t.Fatal(err)
	}
	if all, err = withBefore(all, string(before)); err != nil {
		t.Fatal(err)
	}
	page := filepath.Join(root, "docs", "chaos.md")
	part := falseKillsPart(kills)
	if part == "" { // they were not run now
		old, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		if _, rest, ok := strings.Cut(string(old), falseKillsHead); ok {
			part = falseKillsHead + rest[:strings.LastIndex(rest, "\nCommit ")+1]
		}
	}
	err = os.WriteFile(page, chaosPage(all, part), 0o644)
	if err == nil {
		err = os.WriteFile(data, chaosData(all), 0o644)
	}
	if err != nil {
		t.Error(err)
	}
}

// chaosPage is the page of some results: a row a fault.
func chaosPage(all []result, kills string) []byte {
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
	out.WriteString(kills)
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
					library := r.Library
					if r.NA != "" {
						library = "-"
					}
					fmt.Fprintf(&out, "%s\t%s\t%s\t%s\t%s\t%s\n", r.Fault, r.Phase, library, word, strings.Join(times, "\t"), r.Commit)
				}
			}
		}
	}
	return out.Bytes()
}

// withBefore adds to results those of a file that chaosData made whose cells have none.
func withBefore(all []result, file string) ([]result, error) {
	known := map[string]bool{}
	for _, r := range all {
		known[r.cell()] = true
	}
	for n, line := range strings.Split(strings.TrimSpace(file), "\n") {
		f := strings.Split(line, "\t")
		if n == 0 {
			continue
		}
		if len(f) != 7 {
			return nil, fmt.Errorf("line %d has %d fields, want 7", n+1, len(f))
		}
		r, err := resultOf(f)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n+1, err)
		}
		if !known[r.cell()] {
			known[r.cell()] = true
			all = append(all, r)
		}
	}
	return all, nil
}

// resultOf is a line's.
func resultOf(line []string) (result, error) {
	r := result{Fault: line[0], Phase: line[1], Library: line[2], OK: true, Commit: line[6]}
	at := slices.IndexFunc(matrixFaults, func(f matrixFault) bool { return f.name == r.Fault })
	if at < 0 {
		return r, fmt.Errorf("there is no fault %q", r.Fault)
	}
	want := matrixFaults[at].expects(r.Phase, r.Library)
	switch outcome := line[3]; outcome {
	case "n/a":
		r.NA = noRank
	case "FAILED":
		r.OK, r.Wrong = false, []string{"see commit " + r.Commit}
	case "again":
		r.Again, r.Within = true, want.within
	case "goes on":
	default:
		code, err := strconv.Atoi(outcome)
		if err != nil {
			return r, err
		}
		r.Code, r.Within = code, want.within
	}
	for i, to := range []*time.Duration{&r.Launcher, &r.Ranks} {
		if text := line[4+i]; text != "-" {
			d, err := time.ParseDuration(text + "s")
			if err != nil {
				return r, err
			}
			*to = d
		}
	}
	return r, nil
}

// cell is which one a result is of. One without a rank has no library.
func (r result) cell() string {
	if r.NA != "" {
		return r.Fault + "/" + r.Phase
	}
	return r.Fault + "/" + r.Phase + "/" + r.Library
}

const falseKillsHead = "## Jobs ended though nothing was wrong\n\n"

// falseKillsPart is the part of the page about jobs that nothing may end; "" where none were run.
func falseKillsPart(kills []falseKills) string {
	if len(kills) == 0 {
		return ""
	}
	out := &strings.Builder{}
	fmt.Fprint(out, falseKillsHead+"`make false-kills` ran jobs of four ranks on two hosts, one of which has a trouble, with the default times.\n\n"+
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
	return out.String()
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
	}, falseKillsPart([]falseKills{{Trouble: "agent SIGSTOP 8 s", Side: 20, Well: 249, Wrong: []string{"the launcher ended with 248: x"}, Commit: "abc"}})))
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

// What chaosData writes is read again as it was; a cell that was run since then counts anew, with the other library too.
func TestChaosDataIsKept(t *testing.T) {
	const restarted = "rank SIGKILL, --max-restarts 1"
	ms := time.Millisecond
	before := []result{
		{Fault: "rank SIGKILL", Phase: gathering, NA: noRank},
		{Fault: "rank SIGKILL", Phase: inFence, Library: "openmpi", OK: true, Code: 137, Launcher: 270 * ms, Ranks: 10 * ms, Within: death},
		{Fault: "rank SIGKILL", Phase: running, Library: "mpich", OK: true, Code: 137, Within: death},
		{Fault: restarted, Phase: running, Library: "mpich", OK: true, Again: true, Launcher: 300 * ms, Within: anew},
		{Fault: "slow link", Phase: running, Library: "mpich", OK: true},
		{Fault: "disk full", Phase: running, Library: "mpich"},
	}
	now := []result{
		{Fault: "rank SIGKILL", Phase: gathering, NA: noRank},
		{Fault: "rank SIGKILL", Phase: inFence, Library: "mpich", OK: true, Code: 137, Within: death},
		{Fault: "rank SIGKILL", Phase: running, Library: "mpich", OK: true, Code: 137, Within: death},
	}
	for commit, all := range map[string][]result{"abc": before, "def": now} {
		for i := range all {
			all[i].Commit = commit
		}
	}
	file := string(chaosData(before))
	if again, err := withBefore(nil, file); err != nil || string(chaosData(again)) != file {
		t.Errorf("error %v, read and written again:\n%s\nwant:\n%s", err, chaosData(again), file)
	}
	all, err := withBefore(now, file)
	if want := []string{"abc (4 cells)", "def (3 cells)"}; err != nil || !slices.Equal(commitsOf(all), want) {
		t.Errorf("%q, want %q, error %v:\n%s", commitsOf(all), want, err, chaosData(all))
	}
	for _, bad := range []string{"rank SIGKILL\trunning", "none\trunning\tmpich\t137\t-\t-\tabc",
		"rank SIGKILL\trunning\tmpich\tx\t-\t-\tabc", "rank SIGKILL\trunning\tmpich\t137\tx\t-\tabc"} {
		if _, err := withBefore(nil, "fault\n"+bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}
