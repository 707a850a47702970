package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mpiup/mpiup/launcher/verdict"
	testlab "github.com/mpiup/mpiup/test/lab"
	"github.com/mpiup/mpiup/test/need"
	"github.com/mpiup/mpiup/test/netns"
)

// checkpointed is the example that saves and resumes, built with an MPI library.
func (l *lab) checkpointed(t *testing.T, mpicc string) string {
	t.Helper()
	need.MPICH(t)
	need.Program(t, "mpicc.openmpi", "libopenmpi-dev")
	exe := filepath.Join(l.folder(t), "checkpoint")
	if err := testlab.Compile(mpicc, "checkpoint", exe); err != nil {
		t.Fatal(err)
	}
	return exe
}

// examples/checkpoint over two hosts: a worker is taken away, the job begins again when its agent is back, then the launcher is,
// and the third run ends with the sum that one run would have found.
func TestPreemptedJobGoesOn(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, mpicc string
		flags       []string
		told        string
	}{
		{"MPICH", "mpicc.mpich", []string{"--preempt-signal", "USR1"}, "SIGUSR1"},
		{"Open MPI", "mpicc.openmpi", nil, "SIGTERM"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := hosted(t).apart(t, netns.Config{Hosts: []string{"w0", "w1"}})
			exe, dir := l.checkpointed(t, c.mpicc), l.folder(t)
			l.agent(t, "w0", container{})
			w1 := l.agent(t, "w1", container{})
			const steps, ranks = 400, 4
			begin := func(restart int) *running {
				args := append(c.flags[:len(c.flags):len(c.flags)], "-n", fmt.Sprint(ranks), "--checkpoint-dir", filepath.Join(dir, "saved"), exe, fmt.Sprint(steps), "20")
				return l.start(t, job{hosts: "w0:2,w1:2", args: args, env: []string{fmt.Sprint("JOBSET_RESTART_ATTEMPT=", restart)}})
			}
			var step [2]int
			saved := func(r result, at int) {
				t.Helper()
				_, text, _ := strings.Cut(r.Stdout, "saved at step ")
				if _, err := fmt.Sscan(text, &step[at]); err != nil || step[at] == 0 || step[at] >= steps {
					t.Fatalf("nothing was saved in between: %v\n%s%s", err, r.Stdout, r.Stderr)
				}
			}

			r := begin(0)
			r.Says(t, "begins at step 0, restart 0\n")
			w1.Signal(t, syscall.SIGTERM)
			saved(r.Wait(t).Fails(t, 249, "host w1 with ranks 2-3 is being taken away", "all ranks get "+c.told, "its agent got SIGTERM: see by the host's log who ended it"), 0)
			if a := w1.Wait(t); a.Code != 143 {
				t.Errorf("the agent ended with %d", a.Code)
			}
			l.agent(t, "w1", container{})

			r = begin(1)
			r.Says(t, fmt.Sprintf("begins at step %d, restart 1\n", step[0]))
			r.Signal(t, syscall.SIGTERM)
			saved(r.Wait(t).Fails(t, 249, "the launcher on", "got SIGTERM"), 1)
			if step[1] <= step[0] {
				t.Errorf("saved at step %d, then at step %d", step[0], step[1])
			}

			done := begin(2).Wait(t).OK(t)
			n := steps * ranks
			if want := fmt.Sprintf("begins at step %d, restart 2\nthe sum is %d\n", step[1], n*(n+1)*(2*n+1)/6); done.Stdout != want {
				t.Errorf("printed %q, want %q", done.Stdout, want)
			}
		})
	}
}

// A directory that ranks cannot save in ends the run before any of them starts, and names the host.
func TestCheckpointDirIsTried(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	dir := l.folder(t)
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ dir, says, errno string }{
		{filepath.Join(file, "saved"), "not a directory", "ENOTDIR"},
		{"/proc/saved", "no such file or directory", "ENOENT"},
	} {
		r := l.run(t, job{hosts: "w0:1,w1:1", args: []string{"--output", "json", "--checkpoint-dir", c.dir, "echo", "started"}})
		r.Fails(t, 247, " on w", "--checkpoint-dir", c.says, "at the same path on all hosts")
		if v := verdictOf(t, r); v.Kind != verdict.Usage || v.Errno != c.errno {
			t.Errorf("%+v", v)
		}
		if strings.Contains(r.Stdout, "started") {
			t.Error("a rank was started")
		}
	}
	made := filepath.Join(dir, "a", "b")
	if r := l.run(t, job{hosts: "w0:1", args: []string{"--checkpoint-dir", made, "sh", "-c", `echo $MPIUP_CHECKPOINT_DIR; ls -A $MPIUP_CHECKPOINT_DIR`}}).OK(t); r.Stdout != made+"\n" {
		t.Errorf("printed %q", r.Stdout)
	}
	l.run(t, job{hosts: "w0:1", args: []string{"--checkpoint-dir", "/dev/shm/" + filepath.Base(dir), "rmdir", "/dev/shm/" + filepath.Base(dir)}}).Fails(t, 0, "on memory (tmpfs)", "does not outlive this container or machine")
}

// saver saves on the signal that it is told of, once, and then takes a while.
const saver = `n=0; trap 'n=$((n+1)); sleep 1; echo $MPIUP_RANK saved $n; exit 0' $MPIUP_PREEMPT_SIGNAL; echo ready; while :; do sleep 0.05; done`

// The names of other launchers take the signal from a variable, and a script that SIGTERM ends leaves its runs their time.
func TestPreemptedUnderOtherNames(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	r := l.calling(t, "mpirun", job{env: []string{"MPIUP_PREEMPT_SIGNAL=USR2"}}, "-np", "2", "--host", "w0:1,w1:1", "sh", "-c", saver)
	r.Says(t, "ready\nready\n")
	r.Signal(t, syscall.SIGTERM)
	if res := r.Wait(t).Fails(t, 249, "passed it on as SIGUSR2"); strings.Count(res.Stdout, "saved 1") != 2 {
		t.Errorf("printed %q", res.Stdout)
	}

	run := fmt.Sprintf("%s run --key %s --host w0:1,w1:1 sh -c '%s'; echo not reached", l.bin, l.key, strings.ReplaceAll(saver, "'", `'\''`))
	r = l.command(t, job{}, l.bin, "launcher", "--key", l.key, "--host", "w0,w1", "--", "sh", "-c", run)
	r.Says(t, "ready\nready\n")
	r.Signal(t, syscall.SIGTERM)
	if res := r.Wait(t).Fails(t, 249, "the ranks have"); strings.Count(res.Stdout, "saved 1") != 2 || strings.Contains(res.Stdout, "not reached") {
		t.Errorf("printed %q", res.Stdout)
	}
}

// A rank that does not end has its time, and is named.
func TestRankThatDoesNotEnd(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	r := l.start(t, job{hosts: "w0:1,w1:1", args: []string{"--term-grace", "2", "sh", "-c",
		`[ $MPIUP_RANK = 0 ] && { echo ready; exec sleep 1000; }; trap '' TERM; echo ready; while :; do sleep 0.05; done`}})
	r.Says(t, "ready\nready\n")
	r.Signal(t, syscall.SIGTERM)
	r.Wait(t).Fails(t, 249, "rank 1 on w1 had not ended when the time was up", "--term-grace")
}

// Every rank is told within a second of SIGTERM to one worker, over 12 hosts or as many as MPIUP_PREEMPT_HOSTS says: each is an agent and
// a rank. The time is from just before kill(2) to the last rank's handler.
func TestAllRanksAreToldAtOnce(t *testing.T) {
	hosts := 12
	if text := os.Getenv("MPIUP_PREEMPT_HOSTS"); text != "" {
		if _, err := fmt.Sscan(text, &hosts); err != nil {
			t.Fatal(err)
		}
	} else {
		t.Parallel()
	}
	l := hosted(t)
	need.Program(t, "cc", "gcc")
	exe := filepath.Join(l.folder(t), "told")
	if err := testlab.Compile("cc", "told", exe); err != nil {
		t.Fatal(err)
	}
	names := make([]string, hosts)
	for i := range names {
		names[i] = fmt.Sprintf("w%d", i)
	}
	l = l.apart(t, netns.Config{Hosts: names})
	agents := make([]*running, hosts)
	for i, name := range names {
		agents[i] = l.agent(t, name, container{})
	}
	r := l.start(t, job{hosts: strings.Join(names, ":1,") + ":1", args: []string{"--tag-output", exe}})
	testlab.Eventually(t, "all ranks run", func() bool { return strings.Count(r.Stdout.String(), "ready") == hosts })
	begun := time.Now()
	agents[hosts-1].Signal(t, syscall.SIGTERM)
	res := r.Wait(t).Fails(t, 249)
	var last time.Duration
	n := 0
	for line := range strings.Lines(res.Stdout) {
		var at int64
		if _, text, ok := strings.Cut(line, "told "); ok {
			if _, err := fmt.Sscan(text, &at); err != nil {
				t.Fatal(err)
			}
			n, last = n+1, max(last, time.Unix(0, at).Sub(begun))
		}
	}
	t.Logf("%d hosts: the last rank is told after %v", hosts, last)
	if n != hosts || last > time.Second {
		t.Errorf("%d of %d ranks were told, the last after %v", n, hosts, last)
	}
}

// examples/torch-checkpoint over two hosts: a worker is taken away; the job begins again with a host less, and gets it back; and the loss at the end
// is that of a run that nothing happened to.
func TestPreemptedTrainingGoesOn(t *testing.T) {
	t.Parallel()
	l := hosted(t).apart(t, netns.Config{Hosts: []string{"w0", "w1"}})
	python, script := l.torch(t, "torch-checkpoint")
	l.agent(t, "w0", container{})
	w1 := l.agent(t, "w1", container{})
	dir := l.folder(t)
	begin := func(saved string, pause int, flags ...string) *running {
		args := append([]string{"--stdin", "none", "--checkpoint-dir", filepath.Join(dir, saved)}, flags...)
		return l.start(t, job{hosts: "w0:1,w1:1", args: append(args, python, script, "400", fmt.Sprint(pause))})
	}
	whole := begin("whole", 0, "-n", "2").Wait(t).OK(t)
	_, loss, ok := strings.Cut(whole.Stdout, "begins at step 0, restart 0, 2 ranks\ntrained 400 steps, loss ")
	if !ok {
		t.Fatalf("printed %q", whole.Stdout)
	}

	r := begin("parts", 20, "-n", "2")
	r.Says(t, "begins at step 0, restart 0, 2 ranks\n")
	saved := filepath.Join(dir, "parts", "checkpoint.pt")
	testlab.Eventually(t, "a checkpoint is there", func() bool { _, err := os.Stat(saved); return err == nil })
	w1.Signal(t, syscall.SIGTERM)
	taken := r.Wait(t).Fails(t, 249, "host w1 with rank 1 is being taken away")
	var at int
	_, text, _ := strings.Cut(taken.Stdout, "saved at step ")
	if _, err := fmt.Sscan(text, &at); err != nil || at <= 50 || at >= 400 {
		t.Fatalf("saved at step %d: %v\n%s%s", at, err, taken.Stdout, taken.Stderr)
	}
	w1.Wait(t)

	r = begin("parts", 20, "--min-np", "1", "--max-restarts", "1", "--last-call", "0")
	r.Says(t, fmt.Sprintf("begins at step %d, restart 0, 1 ranks\n", at))
	l.agent(t, "w1", container{})
	done := r.Wait(t).Fails(t, 0, "host w1 has come; the ranks start again, 2 in place of 1")
	_, text, _ = strings.Cut(done.Stdout, "trained 400 steps, loss ")
	if !strings.Contains(done.Stdout, ", restart 1, 2 ranks\n") || text != loss {
		t.Errorf("the loss is %q, and %q in a run of its own\n%s%s", text, loss, done.Stdout, done.Stderr)
	}
}
