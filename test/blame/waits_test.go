package blame

import (
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/launcher/verdict"
	"github.com/mpiup/mpiup/test/lab"
	"github.com/mpiup/mpiup/test/need"
)

//go:embed waits.py
var waitsPy []byte

// Each row is a program of waits.py in which ranks wait in vain, with the right answer, written down before mpiup gave it. Hosts have eu-stack and no
// py-spy, so that calls are known by tracebacks and the C library's functions.
var waitRows = []struct {
	how    string
	flags  []string
	code   int
	kinds  []verdict.Kind
	named  []int    // who may be named alone; nil: nobody is
	says   []string // each is in the verdict's evidence
	silent []string // none of it is
}{
	// The others are looked at before the stop; the sentence has who was elsewhere and where.
	{how: "sleep", code: 1, kinds: timedOut, named: []int{3}, says: []string{"rank 3 on w1", "clock_nanosleep", "in all_reduce at waits.py:"}, silent: tellsNot},
	{how: "spin", code: 1, kinds: timedOut, named: []int{3}, says: []string{"rank 3 on w1"}, silent: tellsNot},
	{how: "read", code: 1, kinds: timedOut, named: []int{3}, says: []string{"rank 3 on w1", "read"}, silent: tellsNot},
	{how: "barrier", code: 1, kinds: timedOut, named: []int{3}, says: []string{"rank 3 on w1"}, silent: tellsNot},
	{how: "object", code: 1, kinds: timedOut, named: []int{3}, says: []string{"rank 3 on w1"}, silent: tellsNot},
	{how: "recv", code: 1, kinds: timedOut, named: []int{3}, says: []string{"rank 3 on w1", "clock_nanosleep"}, silent: tellsNot},
	{how: "watchdog", code: 134, kinds: timedOut, says: []string{"rank 1 (w0", "rank 3 (w1", "clock_nanosleep"}, silent: tellsNot},

	// A name that torch printed is one rank's word, unless the look bears it out.
	{how: "monitored", code: 1, kinds: timedOut, named: []int{3}, says: []string{"failed to pass monitoredBarrier", "rank 0 names it"}, silent: tellsNot},
	{how: "all", code: 1, kinds: timedOut, named: []int{3}, says: []string{"failed to pass monitoredBarrier", "rank 0 names it"}, silent: tellsNot},
	{how: "said", code: 1, kinds: timedOut, says: []string{"rank 0's word about rank 1 alone"}},

	// Ranks that are in different collectives wait for each other for ever.
	{how: "mixed", code: 1, kinds: []verdict.Kind{verdict.CollectiveMismatch}, says: []string{"in different collectives", "in broadcast at waits.py:", "in all_reduce at waits.py:"}, silent: tellsNot},
	{how: "mixed3", code: 1, kinds: []verdict.Kind{verdict.CollectiveMismatch}, says: []string{"in different collectives", "in all_gather at waits.py:"}, silent: tellsNot},
	{how: "mixedmpi", flags: []string{"--timeout", "12s"}, code: 110, kinds: []verdict.Kind{verdict.CollectiveMismatch}, says: []string{"in different collectives", "MPI_Bcast", "MPI_Allreduce"}, silent: []string{"give it more time"}},
	{how: "mixedmpi3", flags: []string{"--timeout", "14s"}, code: 110, kinds: []verdict.Kind{verdict.CollectiveMismatch}, says: []string{"in different collectives", "MPI_Barrier", "MPI_Allgather"}},
}

var (
	timedOut = []verdict.Kind{verdict.Collective}
	tellsNot = []string{"nothing tells which"}
)

// TestWaits tries each row with Debian's torch, and with the newest where test/frameworks.sh has built it.
func TestWaits(t *testing.T) {
	need.Asked(t, "MPIUP_BLAME_WAITS", "1: jobs of torch that wait for each other in vain, for some minutes")
	hosted(t)
	script := filepath.Join(world.dir, "waits.py")
	if err := os.WriteFile(script, waitsPy, 0o644); err != nil {
		t.Fatal(err)
	}
	for name, python := range torches() {
		for _, row := range waitRows {
			words := strings.Fields(row.how)
			if strings.HasPrefix(words[0], "mixedmpi") {
				if name != "torch" {
					continue
				}
				python = world.python["mpi4py"]
			}
			t.Run(fmt.Sprint(name, " ", row.how, " ", strings.Join(row.flags, " ")), func(t *testing.T) {
				module := map[bool]string{true: "mpi4py", false: "torch"}[strings.HasPrefix(words[0], "mixedmpi")]
				need.Done(t, "torch", exec.Command(python, "-c", "import "+module).Run(), "Debian's python3-torch for "+python+", or test/wheels.sh for mpi4py")
				j := job{flags: row.flags, program: slices.Concat([]string{python, script}, words)}
				res, err := j.run(t.Context(), func(*lab.Process) error { return nil })
				if err != nil {
					t.Fatal(err)
				}
				v, ok := verdictOf(res.Stdout)
				if !ok {
					t.Fatalf("no verdict:\n%s", res.Stderr)
				}
				said := strings.Join(slices.Concat(v.Evidence, v.Others), "\n")
				if res.Code != row.code || !slices.Contains(row.kinds, v.Kind) {
					t.Errorf("code %d, %s; want %d, %v", res.Code, v.Kind, row.code, row.kinds)
				}
				if named := v.Rank != nil; named != (len(row.named) == 1) || named && *v.Rank != row.named[0] {
					t.Errorf("named %v %q, want %v", v.Rank, v.Ranks, row.named)
				}
				for _, w := range row.says {
					if !strings.Contains(said, w) {
						t.Errorf("lacks %q", w)
					}
				}
				for _, w := range row.silent {
					if strings.Contains(said+strings.Join(v.Advice, "\n"), w) {
						t.Errorf("has %q", w)
					}
				}
				if t.Failed() {
					t.Logf("%s\n%s", said, res.Stderr)
				}
			})
		}
	}
}

// torches are the interpreters that have torch, by what to call them.
func torches() map[string]string {
	all := map[string]string{"torch": world.python["torch"]}
	if newest := newestTorch(); newest != "" {
		all["newest torch"] = filepath.Join(newest, "bin", "python")
	}
	return all
}

// newestTorch is where test/frameworks.sh has built it; "": it has not.
func newestTorch() string {
	cache, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	dir := filepath.Join(cache, "mpiup", "frameworks", "torch")
	if _, err := os.Stat(dir); err != nil {
		return ""
	}
	return dir
}
