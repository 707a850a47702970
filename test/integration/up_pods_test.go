package integration

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	testlab "github.com/mpiup/mpiup/test/lab"
	"github.com/mpiup/mpiup/test/netns"
)

// pods are hosts of an Indexed Job, pi-0, pi-1 ..., whose PID 1 is one command.
type pods struct {
	*lab
	count int
}

func (l *lab) pods(t *testing.T, count int) pods {
	t.Helper()
	names := make([]string, count)
	for i := range names {
		names[i] = fmt.Sprintf("pi-%d", i)
	}
	return pods{l.apart(t, netns.Config{Hosts: names}), count}
}

// start starts a pod with what the controller tells it. Its end is the test's at the latest.
func (p pods) start(t *testing.T, index int, env []string, argv ...string) *running {
	t.Helper()
	host := fmt.Sprintf("pi-%d", index)
	ctx, cancel := context.WithCancel(context.Background())
	cmd := p.cluster.RunInit(ctx, host, argv...)
	cmd.Env = append([]string{"PATH=" + p.dir + "/names:/usr/bin:/bin", "HOME=/root", "MPIUP_KEY=" + p.key, "MPIUP_JOB=pi", "MPIUP_POD_GRACE=15", "NODE_NAME=node-" + host,
		fmt.Sprintf("JOB_COMPLETION_INDEX=%d", index)}, env...)
	cmd.WaitDelay = testlab.Bound
	r, err := testlab.Start(cmd)
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); <-r.Done })
	return r
}

// all starts the same command in every pod.
func (p pods) all(t *testing.T, env []string, argv ...string) []*running {
	t.Helper()
	list := make([]*running, p.count)
	for i := range list {
		list[i] = p.start(t, i, env, argv...)
	}
	return list
}

func (p pods) up(args ...string) []string {
	return append([]string{p.bin, "up", "--size", fmt.Sprint(p.count)}, args...)
}

// onPods counts the lines of hello of each pod's ranks.
func onPods(t *testing.T, stdout string, count, each int) {
	t.Helper()
	for i := range count {
		if n := strings.Count(stdout, fmt.Sprintf("on pi-%d, ", i)); n != each {
			t.Errorf("%d ranks on pi-%d, want %d:\n%s", n, i, each, stdout)
		}
	}
}

// One command in every pod runs a job on all, and all end well with it.
func TestUp(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	for name, exe := range map[string]string{"MPICH": l.program(t, "hello"), "Open MPI": l.openMPI(t, "hello")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := l.pods(t, 3)
			list := p.all(t, nil, p.up("-N", "2", exe)...)
			onPods(t, list[0].Wait(t).OK(t).Stdout, 3, 2)
			for _, r := range list[1:] {
				r.Wait(t).OK(t)
			}
		})
	}
}

// mpirun does the same where the pods are told so, once for each line of a script. Ranks are not told.
func TestUpUnderTheNameMpirun(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	exe := l.openMPI(t, "hello")
	p := l.pods(t, 2)
	names := l.folder(t)
	if err := os.Symlink(l.bin, filepath.Join(names, "mpirun")); err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf("set -e; %s/mpirun --allow-run-as-root -np 4 %s; %s/mpirun --allow-run-as-root -np 2 -npernode 1 env", names, exe, names)
	list := p.all(t, []string{"MPIUP_UP=--slots 2 --deny exec,shell", "PET_NNODES=2"}, "/bin/sh", "-c", script)
	out := list[0].Wait(t).OK(t).Stdout
	onPods(t, out, 2, 2)
	if strings.Count(out, "MPIUP_RANK=") != 2 || strings.Contains(out, "MPIUP_UP=") {
		t.Errorf("environment of the second job:\n%s", out)
	}
	list[1].Wait(t).OK(t)
}

// All pods end with the code of the rank that failed, and say why.
func TestUpFails(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	p := l.pods(t, 3)
	list := p.all(t, nil, p.up("-N", "1", l.program(t, "exitcode"), "7", "1", "without")...)
	list[0].Wait(t).Fails(t, 7, "rank 1 on pi-1 exited with code 7")
	for _, r := range list[1:] {
		r.Wait(t).Fails(t, 7, "the job has ended with exit code 7; its first pod says: rank 1 on pi-1 exited with code 7")
	}
}

// A pod that serves does not wait for ever, and neither does the first.
func TestUpWaitsNotForEver(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	p := l.pods(t, 2)
	exe := l.program(t, "hello")
	p.start(t, 1, nil, p.up("--wait", "2", exe)...).Wait(t).Fails(t, 241,
		"no launcher has come for 2s (--wait): this pod serves, by JOB_COMPLETION_INDEX=1, and pi-0 is to launch")
	p.start(t, 0, nil, p.up("--wait", "2", exe)...).Wait(t).Fails(t, 243, "pi-1")
}

// A pod that has no ranks waits as long as the first one's job runs, and probes find all pods serving.
func TestUpWithoutRanks(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	p := l.pods(t, 2)
	list := p.all(t, nil, p.bin, "up", "--host", "pi-0:2,pi-1:2", "--wait", "3", "-n", "2", l.program(t, "steady"), "8")
	list[0].Says(t, "0 1\n")
	for i := range list {
		r, err := testlab.Start(p.cluster.Command(t.Context(), fmt.Sprintf("pi-%d", i), "/usr/bin/env", "MPIUP_KEY="+p.key, "MPIUP_JOB=pi", p.bin, "agent", "--check"))
		if err != nil {
			t.Fatal(err)
		}
		r.Wait(t).OK(t)
	}
	for _, r := range list {
		r.Wait(t).OK(t)
	}
}

// A first pod whose container ends without a word is started again, and its job with it on the pods that serve.
func TestUpAfterTheFirstPod(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	p := l.pods(t, 3)
	line := p.up("-N", "1", "--launcher-timeout", "3", l.program(t, "steady"), "4")
	list := p.all(t, nil, line...)
	list[0].Says(t, "2 5\n")
	if err := p.cluster.Kill("pi-0"); err != nil {
		t.Fatal(err)
	}
	list[0].Wait(t)
	p.start(t, 0, nil, line...).Wait(t).OK(t)
	for _, r := range list[1:] {
		r.Wait(t).OK(t)
	}
}

// A pod that is taken away takes the job with it: all others end with 249, whichever it was.
func TestUpIsTakenAway(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	exe := l.program(t, "steady")
	for gone := range 2 {
		t.Run(fmt.Sprintf("pi-%d", gone), func(t *testing.T) {
			t.Parallel()
			p := l.pods(t, 3)
			list := p.all(t, nil, p.up("-N", "1", exe, "60")...)
			list[0].Says(t, "2 5\n")
			list[gone].Signal(t, syscall.SIGTERM)
			for i, r := range list {
				code := 249
				if i == gone && i > 0 {
					code = 128 + int(syscall.SIGTERM)
				}
				r.Wait(t).Fails(t, code)
			}
		})
	}
}

// Ranks start again on the pods that there are, among them one whose container was started again.
func TestUpStartsAgain(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	p := l.pods(t, 3)
	line := p.up("-N", "1", "--max-restarts", "2", l.program(t, "steady"), "5")
	list := p.all(t, nil, line...)
	list[0].Says(t, "2 5\n")
	if err := p.cluster.Kill("pi-2"); err != nil {
		t.Fatal(err)
	}
	list[2].Wait(t)
	list[2] = p.start(t, 2, nil, line...)
	list[0].Wait(t).Fails(t, 0, "the ranks start again (restart 1 of 2)")
	for _, r := range list[1:] {
		r.Wait(t).OK(t)
	}
}

// Where nothing tells which pod this is, that is said; and so is an agent that is there already.
func TestUpRefuses(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	for _, c := range []struct {
		args, says string
		code       int
	}{
		{"--key " + l.key, "There is none of JOB_COMPLETION_INDEX (Indexed Job, JobSet), LWS_WORKER_INDEX", 240},
		{"--key " + l.key + " --host w0,w1", "names 2 hosts, and this one, launcher, is none of them", 240},
		{"--key " + l.key + " --local", "write mpiup run --local", 240},
		{"--key " + l.key + " --mpi native", "starts its daemons by ssh from one pod", 240},
		{"--key " + l.key + " --index -2", "--index: -2 is not the number of a pod", 240},
		{"--index 0", "no job secret found", 244},
	} {
		l.mpiup(t, append(append([]string{"up"}, strings.Fields(c.args)...), "true")...).Fails(t, c.code, c.says)
	}
}
