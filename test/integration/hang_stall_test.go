package integration

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	seen "github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/launcher/report"
	"github.com/mpiup/mpiup/launcher/verdict"
	"github.com/mpiup/mpiup/test/deadmount"
	"github.com/mpiup/mpiup/test/need"
	"github.com/mpiup/mpiup/test/netns"
)

// A run whose rank sleeps while others wait for it actively in a barrier is told of, or ended, with the rank's name; so is one that
// waits in MPI_Init. Ranks that compute without a word are left alone.
func TestStall(t *testing.T) {
	t.Parallel()
	l := hosted(t).apart(t, netns.Config{Hosts: []string{"w0", "w1"}})
	for _, host := range []string{"w0", "w1"} {
		l.agent(t, host, container{})
	}
	for _, stack := range []string{"MPICH", "Open MPI"} {
		t.Run(stack, func(t *testing.T) {
			l.stuck(t, stack, "sleep", "--stall-timeout", "3s", "--on-stall", "abort").Wait(t).Fails(t, 110,
				"mpiup: no rank has worked for --stall-timeout 3s\n", "\nmpiup: rank 2 on w1 (pid ", ") is the odd one out: it ", " while others use CPU\n")
			l.stuck(t, stack, "init", "--init-timeout", "2s", "--on-stall", "abort").Wait(t).Fails(t, 110,
				"mpiup: ranks waited in MPI_Init for --init-timeout 2s\n", "mpiup: rank 2 on w1 (pid ", "it has not called MPI_Init, and others wait for it there\n")
		})
	}
	p := l.stuck(t, "MPICH", "sleep", "--stall-timeout", "2s")
	for _, text := range []string{"no rank has shown work for ", "of ranks 0-3, and of them one idles and 3 use CPU\n", "rank 2 on w1 (pid ", "mpiup stacks; --on-stall abort ends such a run"} {
		if err := p.Until(p.Stderr, text); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-p.Done:
		t.Error("a notice ended the run")
	default:
	}
	_ = p.Cmd.Process.Kill()
	<-p.Done
	args := []string{"-n", "4", "--stall-timeout", "2s", "--on-stall", "abort", "--timeout", "6s", l.program(t, "stuck"), "0", "busy"}
	r := l.run(t, job{hosts: "w0:2,w1:2", args: args}).Fails(t, 110, "--timeout 6s")
	if strings.Contains(r.Stderr, "no rank has ") {
		t.Errorf("ranks that compute:\n%s", r.Stderr)
	}
}

// Runs that go on though they look as if they hung are not ended, and nobody says that none of their ranks has worked.
func TestStallSparesWhatGoesOn(t *testing.T) {
	t.Parallel()
	l := hosted(t).apart(t, netns.Config{})
	need.Program(t, "eu-stack", "elfutils")
	file := filepath.Join(l.folder(t), "data")
	if err := os.WriteFile(file, make([]byte, 32<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	const computes = "--on-stall abort does not end the run: rank 1 on "
	for how, said := range map[string][]string{"recv": nil, "map": nil, "rest": {}, "one": {"no rank has shown work", "rank 1 on ", ") is the odd one out: it uses CPU while others idle\n", computes},
		"sleep": {"no rank has worked", "--on-stall abort does not end the run: every rank sleeps"}} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			r := l.embedded(t, job{}, "-n", "3", "--stall-timeout", "1s", "--on-stall", "abort", l.program(t, "habits"), how, "8", file).Wait(t)
			if r.Code != 0 || !strings.Contains(r.Stdout, "went on") || said == nil && strings.Contains(r.Stderr, "no rank has ") {
				t.Errorf("ended with %d\n%s%s", r.Code, r.Stdout, r.Stderr)
			}
			for _, text := range said {
				if !strings.Contains(r.Stderr, text) {
					t.Errorf("nobody says %q:\n%s", text, r.Stderr)
				}
			}
		})
	}
}

// Where a rank waits for a file system that does not answer, the notice, mpiup ps and the verdict name its mount.
func TestStallOnADeadMount(t *testing.T) {
	t.Parallel()
	dir := deadmount.New(t)
	l := hosted(t).apart(t, netns.Config{Hosts: []string{"w0", "w1"}, Share: []string{dir}})
	for _, host := range []string{"w0", "w1"} {
		l.agent(t, host, container{})
	}
	file, mount := filepath.Join(dir, "file"), dir+" (fuse)"
	p := l.stuck(t, "MPICH", file, "--stall-timeout", "2s")
	if err := p.Until(p.Stderr, " on "+mount+" while others use CPU\n"); err != nil {
		t.Fatal(err)
	}
	for _, r := range l.ps(t, "w0,w1") {
		if want := map[int]string{2: mount}[r.Rank]; r.Mount != want {
			t.Errorf("rank %d waits for %q, want %q", r.Rank, r.Mount, want)
		}
	}
	if table := l.mpiup(t, "ps", "--key", l.key, "--host", "w1").OK(t).Stdout; strings.Count(table, " on "+mount) != 1 {
		t.Errorf("as a table:\n%s", table)
	}
	_ = p.Cmd.Process.Kill()
	<-p.Done
	r := l.stuck(t, "MPICH", file, "--stall-timeout", "2s", "--on-stall", "abort", "--output", "json").Wait(t)
	r.Fails(t, 110, "mpiup: rank 2 on w1 (pid ", ") is the odd one out: it waits in ", " on "+mount+" while others use CPU\n", "stuck-io; more: mpiup help stuck-io, mpiup report\n")
	if v := verdictOf(t, r); v.Kind != verdict.StuckIO || !strings.Contains(strings.Join(v.Evidence, "\n"), " on "+mount) {
		t.Errorf("%+v", v)
	}
}

// Before a run that hangs is ended it is looked where its ranks are. By that, at the time limit, the one that computes while all others
// wait in one call of MPI is named; nobody is where all sleep.
func TestStacksBeforeAHangIsEnded(t *testing.T) {
	t.Parallel()
	l := hosted(t).apart(t, netns.Config{Hosts: []string{"w0", "w1", "w2"}})
	need.Program(t, "eu-stack", "elfutils")
	for host, flags := range map[string][]string{"w0": nil, "w1": nil, "w2": {"--deny", "look"}} {
		l.agent(t, host, container{flags: flags})
	}
	at := func(s seen.Stack, ranks, frame string) bool {
		return s.Ranks == ranks && len(s.Frames) <= 3 && slices.ContainsFunc(s.Frames, func(f string) bool { return strings.TrimPrefix(f, "P") == frame })
	}
	for _, tt := range []struct {
		name, how, flags, other string
		sure                    verdict.Confidence
	}{
		{"the time limit", "spin", "--timeout 5", "MPI_Barrier", verdict.Probable},
		{"--init-timeout", "init", "--init-timeout 2s --on-stall abort", "MPI_Init", verdict.Certain},
		{"a stall", "sleep", "--stall-timeout 3s --on-stall abort", "MPI_Barrier", verdict.Probable},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := l.folder(t)
			r := l.stuck(t, "MPICH", tt.how, append(strings.Fields(tt.flags), "--output", "json", "--report", dir)...).Wait(t)
			r.Fails(t, 110, "mpiup: rank 2 on w1 (pid ", "mpiup: stack of rank 2 (w1, pid ", ", called by main\n")
			v := verdictOf(t, r)
			if v.Rank == nil || *v.Rank != 2 || v.Host != "w1" || v.PID == 0 || v.Confidence != tt.sure {
				t.Errorf("%+v", v)
			}
			if len(v.Stacks) != 2 || !at(v.Stacks[0], "2", "odd_one_out") || !at(v.Stacks[1], "0-1,3", tt.other) || v.Stacks[1].Of != 4 || v.Stacks[0].PID != v.PID {
				t.Errorf("%+v", v.Stacks)
			}
			text, err := os.ReadFile(filepath.Join(dir, "report.json"))
			var is report.Report
			if err != nil || json.Unmarshal(text, &is) != nil || is.Verdict == nil || len(is.Verdict.Stacks) != len(v.Stacks) {
				t.Errorf("the report: %v\n%s", err, text)
			}
		})
	}
	run := func(hosts, how string) result {
		return l.run(t, job{hosts: hosts, args: []string{"-n", "4", "--timeout", "5", "--output", "json", l.program(t, "stuck"), "2", how}}).Fails(t, 110, "--timeout 5s")
	}
	r := run("w0:2,w1:2", "rest")
	if v := verdictOf(t, r); v.Rank != nil || v.Ranks != "" || v.Confidence != "" || len(v.Stacks) != 1 || !at(v.Stacks[0], "0-3", "odd_one_out") || strings.Contains(r.Stderr, "odd one out") {
		t.Errorf("all sleep: %+v\n%s", v, r.Stderr)
	}
	r = run("w0:2,w2:2", "spin")
	const no = "where ranks of w2 are: the agent's policy refuses look to launchers (--deny look)"
	if v := verdictOf(t, r); v.Rank != nil || len(v.Stacks) != 1 || !at(v.Stacks[0], "0-1", "MPI_Barrier") || !strings.Contains(r.Stderr, no) {
		t.Errorf("nobody may look: %+v\n%s", v, r.Stderr)
	}
}
