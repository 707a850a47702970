package integration

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/mpiup/mpiup/test/netns"
)

// starts are how often each start of a job's ranks was written by all of them, with their hosts in order of rank.
func starts(stdout string) map[string]string {
	hosts := map[string]string{}
	for _, start := range []string{"0", "1", "2", "3"} {
		var list []string
		for rank := 0; ; rank++ {
			m := regexp.MustCompile(fmt.Sprintf(`(?m)^%d of \d+, start %s: (\S+)$`, rank, start)).FindStringSubmatch(stdout)
			if m == nil {
				break
			}
			list = append(list, m[1])
		}
		if list != nil {
			hosts[start] = strings.Join(list, " ")
		}
	}
	return hosts
}

// Ranks that failed are started again on their hosts, by each protocol, and the run ends as the last start does.
func TestRanksStartAgain(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	mpich, openMPI := l.program(t, "again"), l.openMPI(t, "again")
	for _, c := range []struct {
		name, exe string
		args      string
		how       string
		code      int
		starts    int
		says      []string
	}{
		{"MPICH, a signal", mpich, "--max-restarts 3", "signal 3 2", 0, 3, []string{"rank 3 on w1 was killed by signal 9 (SIGKILL); the ranks start again (restart 1 of 3)", "start again in 1s (restart 2 of 3)"}},
		{"MPICH, PMI-2", mpich, "--max-restarts 1 --mpi pmi2", "exit 0 1", 0, 2, []string{"rank 0 on w0 exited with code 3; the ranks start again (restart 1 of 1)"}},
		{"MPICH, an abort", mpich, "--max-restarts 1", "abort 2 1", 0, 2, []string{"rank 2 on w1 called MPI_Abort with code 5; the ranks start again"}},
		{"Open MPI, a signal", openMPI, "--max-restarts 1", "signal 3 1", 0, 2, []string{"rank 3 on w1 was killed by signal 9"}},
		{"Open MPI, an abort", openMPI, "--max-restarts 1", "abort 0 1", 0, 2, []string{"rank 0 on w0 called MPI_Abort with code 5"}},
		{"too often", mpich, "--max-restarts 1", "signal 1 9", 137, 2, []string{"the ranks had been started again once (--max-restarts 1)"}},
		{"never", mpich, "", "signal 1 1", 137, 1, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			args := append(append([]string{"-n", "4", "--stdin", "none"}, strings.Fields(c.args)...), append([]string{c.exe}, strings.Fields(c.how)...)...)
			r := l.run(t, job{hosts: "w0:2,w1:2", args: args}).Fails(t, c.code, c.says...)
			got := starts(r.Stdout)
			for n := range c.starts {
				if got[fmt.Sprint(n)] != "w0 w0 w1 w1" {
					t.Errorf("start %d: %q\n%s", n, got[fmt.Sprint(n)], r.Stderr)
				}
			}
			if len(got) != c.starts {
				t.Errorf("%d starts, want %d", len(got), c.starts)
			}
		})
	}
}

// What the ranks of each start wrote, and the files that were copied for them, are there; the report tells of both starts.
func TestWhatAStartAgainLeaves(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	dir := l.folder(t)
	report, out := filepath.Join(dir, "report"), filepath.Join(dir, "out")
	script := filepath.Join(dir, "script")
	// Rank 0 fails when it has written; rank 1 may not have, when it is ended for that.
	const text = "#!/bin/sh\necho start $MPIUP_RESTART_COUNT\ncat $MPIUP_FILES/again-input\n[ $MPIUP_RESTART_COUNT = 1 ] && exit 0\n[ $MPIUP_RANK = 1 ] || exit 7\nexec sleep 1000\n"
	if err := os.WriteFile(script, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "again-input"), []byte("copied\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	r := l.run(t, job{hosts: "w0:1,w1:1", dir: dir, args: []string{"-n", "2", "--stdin", "none", "--max-restarts", "2", "--output", "json", "--output-dir", out, "--report", report,
		"--preload-files", "again-input", script}}).Fails(t, 0, "the output of restart 1 goes to "+out+"/attempt-2")
	for name, want := range map[string]string{"rank.0/stdout": "start 0\ncopied\n", "attempt-2/rank.0/stdout": "start 1\ncopied\n", "attempt-2/rank.1/stdout": "start 1\ncopied\n"} {
		if text, err := os.ReadFile(filepath.Join(out, name)); string(text) != want {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
	var event struct {
		Event   string
		Restart int
		Verdict struct{ Kind string }
	}
	for line := range strings.Lines(r.Stdout) {
		if strings.Contains(line, `"event":"restart"`) {
			if err := json.Unmarshal([]byte(line), &event); err != nil {
				t.Error(err)
			}
		}
	}
	if event.Restart != 1 || event.Verdict.Kind != "exit-code" {
		t.Errorf("%+v of %s", event, r.Stdout)
	}
	var is struct {
		Exit_code int
		Restarts  []struct{ Kind, Why string }
		Ranks     []struct{ End string }
	}
	text2, err := os.ReadFile(filepath.Join(report, "report.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text2, &is); err != nil || len(is.Restarts) != 1 || len(is.Ranks) != 2 || is.Ranks[0].End != "exit code 0" || !strings.Contains(is.Restarts[0].Why, "exited with code 7") {
		t.Errorf("%+v, %v", is, err)
	}
}

// A host that is lost is replaced: by a spare, by one that has no ranks, by its own next incarnation. Where nobody comes, the
// failure stays what it was.
func TestALostHostIsReplaced(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	mpich, openMPI := l.program(t, "again"), l.openMPI(t, "again")
	for _, c := range []struct {
		name, exe string
		hosts     string
		args      string
		back      bool // its agent is started anew
		code      int
		then      string // hosts of the second start
		says      []string
	}{
		{"a spare, MPICH", mpich, "a:2,b:2,c:2", "--spares 1", false, 0, "a a c c", []string{"host b with ranks 2-3 was lost", "the ranks start again", "c comes in for b: ranks 2-3"}},
		{"a spare, Open MPI", openMPI, "a:2,b:2,c:2", "--spares 1", false, 0, "a a c c", []string{"c comes in for b: ranks 2-3"}},
		{"an idle host", mpich, "a:2,b:2,c:4", "", false, 0, "a a c c", []string{"c comes in for b: ranks 2-3"}},
		{"its own next incarnation", openMPI, "a:2,b:2", "", true, 0, "a a b b", []string{"host b with ranks 2-3 was lost"}},
		{"nobody", mpich, "a:2,b:2", "--wait 3", false, 248, "", []string{"host b: ", "the ranks were not started again: within 3s (--wait) no host came for b", "host b with ranks 2-3 was lost"}},
		{"a host that is too small", mpich, "a:2,b:2,c:1", "--wait 3", false, 248, "", []string{"no host came for b"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := l.apart(t, netns.Config{Hosts: []string{"a", "b", "c"}})
			for _, h := range []string{"a", "b", "c"} {
				l.agent(t, h, container{})
			}
			args := append(append([]string{"-n", "4", "--stdin", "none", "--max-restarts", "1"}, strings.Fields(c.args)...), c.exe, "wait", "0", "1")
			run := l.start(t, job{hosts: c.hosts, args: args})
			run.Says(t, "0 of 4, start 0: a", "1 of 4, start 0: a", "2 of 4, start 0: b", "3 of 4, start 0: b")
			if err := l.cluster.Kill("b"); err != nil {
				t.Fatal(err)
			}
			if c.back {
				if err := l.cluster.Boot("b"); err != nil {
					t.Fatal(err)
				}
				l.agent(t, "b", container{})
			}
			r := run.Wait(t).Fails(t, c.code, c.says...)
			if got := starts(r.Stdout)["1"]; got != c.then {
				t.Errorf("the second start: %q, want %q\n%s", got, c.then, r.Stderr)
			}
		})
	}
}

// A host that is cut off is replaced once the ranks that may run there have ended by their lease, which none outlives.
func TestRanksOfAHostThatIsCutOffEndFirst(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	exe := l.program(t, "again")
	l = l.apart(t, netns.Config{Hosts: []string{"a", "b", "c"}})
	for _, h := range []string{"a", "b", "c"} {
		l.agent(t, h, container{})
	}
	run := l.start(t, job{hosts: "a:2,b:2,c:2", args: []string{"-n", "4", "--stdin", "none", "--max-restarts", "1", "--spares", "1",
		"--node-timeout", "2", "--launcher-timeout", "2", "--grace", "1", exe, "wait", "0", "1"}})
	run.Says(t, "3 of 4, start 0: b")
	undo, err := l.cluster.CutLink("b")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = undo() }()
	run.Says(t, "2 of 4, start 1: c")
	if left := l.matching(t, "b", exe); len(left) > 0 {
		t.Errorf("processes %v run on the host that is cut off", left)
	}
	run.Wait(t).Fails(t, 0, "the ranks start again in ", "when those of b have ended by their lease", "c comes in for b")
}

// A user who interrupts is obeyed also while ranks wait to start again.
func TestAnInterruptEndsRestarts(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	run := l.start(t, job{hosts: "w0:1", args: []string{"-n", "1", "--stdin", "none", "--max-restarts", "9", "sh", "-c", "exit 4"}})
	if err := run.Until(run.Stderr, "start again in 4s"); err != nil {
		t.Fatal(err)
	}
	run.Signal(t, syscall.SIGINT)
	run.Wait(t).Fails(t, 130, "got SIGINT in the pause before restart 4, after rank 0 on w0 exited with code 4")
}
