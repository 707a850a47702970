package integration

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"

	testlab "github.com/mpiup/mpiup/test/lab"
	"github.com/mpiup/mpiup/test/netns"
)

// torchPods are three hosts without agents, each of which is to run torchrun, as pods of manifests for PyTorch's do.
func torchPods(t *testing.T) *lab {
	t.Helper()
	return hosted(t).apart(t, netns.Config{Hosts: []string{"p0", "p1", "p2"}, DNS: true})
}

// torchrun starts mpiup under that name in one of them.
func (l *lab) torchrun(t *testing.T, pod string, env []string, args ...string) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cmd := l.cluster.Command(ctx, pod, append([]string{l.link(t, "torchrun")}, args...)...)
	cmd.WaitDelay = testlab.Bound
	cmd.Env = append([]string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/root", "PYTHON_EXEC=/usr/bin/python3", "MPIUP_REPORTS=" + l.folder(t)}, env...)
	p, err := testlab.Start(cmd)
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); <-p.Done })
	return p
}

// at is an endpoint of a pod's, at a port of the test's own.
func (l *lab) at(pod string, port int) string { return fmt.Sprintf("%s:%d", l.cluster.Addr(pod), port) }

// tells waits until a torchrun has told something on standard error.
func tells(t *testing.T, p *running, text string) {
	t.Helper()
	if err := p.Until(p.Stderr, text); err != nil {
		t.Fatal(err)
	}
}

// together is what all said, each of which ended with 0.
func together(t *testing.T, all ...*running) (r result) {
	t.Helper()
	for _, p := range all {
		one := p.Wait(t).Fails(t, 0)
		r.Stdout += one.Stdout
		r.Stderr += one.Stderr
	}
	return r
}

// The lines of manifests in which each pod runs torchrun: torch really trains, with a key and without, by name and by address, with
// numbers and without, all nodes or those that came; one comes late.
func TestTorchrunInEachPod(t *testing.T) {
	t.Parallel()
	l := torchPods(t)
	_, script := l.torch(t, "torch-ddp")
	key := []string{"MPIUP_KEY=" + l.key}
	c10d := func(nodes, endpoint string, more ...string) []string {
		return append(append([]string{"--nnodes=" + nodes, "--nproc_per_node=1", "--rdzv_backend=c10d", "--rdzv_endpoint=" + endpoint}, more...), script)
	}

	t.Run("without a key, one of them late", func(t *testing.T) {
		t.Parallel()
		line := c10d("3", l.at("p0", 29411))
		first := []*running{l.torchrun(t, "p0", nil, line...), l.torchrun(t, "p2", nil, line...)}
		tells(t, first[0], "3 are waited for at ")
		r := together(t, append(first, l.torchrun(t, "p1", nil, line...))...)
		learns(t, r, 3)
		if n := strings.Count(r.Stderr, "without a key: whoever reaches that port can join the job"); n != 1 {
			t.Errorf("%d lines say that there is no key:\n%s", n, r.Stderr)
		}
	})
	t.Run("with a key, by name, whoever is first", func(t *testing.T) {
		t.Parallel()
		line := c10d("3", l.cluster.FQDN("p1")+":29412", "--rdzv_id=job-7")
		first := []*running{l.torchrun(t, "p0", key, line...), l.torchrun(t, "p2", key, line...)}
		tells(t, first[0], "no torchrun lets this node in at ")
		r := together(t, append(first, l.torchrun(t, "p1", key, line...))...)
		learns(t, r, 3)
		if strings.Contains(r.Stderr, "without a key") {
			t.Error(r.Stderr)
		}
	})
	t.Run("those that came", func(t *testing.T) {
		t.Parallel()
		line := c10d("1:3", l.at("p0", 29413), "--rdzv_conf=last_call_timeout=4")
		learns(t, together(t, l.torchrun(t, "p0", nil, line...), l.torchrun(t, "p1", nil, line...)), 2)
	})
	t.Run("numbered, of several sizes, by variables", func(t *testing.T) {
		t.Parallel()
		var all []*running
		for i, ranks := range []string{"1", "2", "1"} {
			env := []string{"PET_NNODES=3", fmt.Sprint("PET_NODE_RANK=", i), "PET_NPROC_PER_NODE=" + ranks, "PET_MASTER_ADDR=" + l.cluster.FQDN("p0"), "PET_MASTER_PORT=29414"}
			all = append(all, l.torchrun(t, fmt.Sprint("p", i), env, script))
		}
		learns(t, together(t, all...), 4)
	})
}

// What ranks get of where they are in the whole job, whatever their pods' torchruns start.
func TestWhatRanksOfPodsGet(t *testing.T) {
	t.Parallel()
	l := torchPods(t)
	script := l.trainer(t, "import os\ne = os.environ\nprint(*[e.get(n, 'none') for n in ['RANK', 'WORLD_SIZE', 'LOCAL_RANK', 'LOCAL_WORLD_SIZE', 'GROUP_RANK', "+
		"'GROUP_WORLD_SIZE', 'ROLE_RANK', 'ROLE_WORLD_SIZE', 'ROLE_NAME', 'NODE_RANK', 'TORCHELASTIC_RUN_ID', 'TORCHELASTIC_RESTART_COUNT', 'TORCHELASTIC_MAX_RESTARTS', "+
		"'TORCHELASTIC_USE_AGENT_STORE', 'MASTER_ADDR']])\n")
	at := l.at("p0", 29415)
	var all []*running
	for _, c := range []struct{ pod, ranks, role string }{{"p2", "1", "actor"}, {"p0", "2", "actor"}, {"p1", "2", "learner"}} {
		all = append(all, l.torchrun(t, c.pod, []string{"RANK=9", "WORLD_SIZE=9", "TORCHELASTIC_RUN_ID=outer"}, "--nnodes=3", "--nproc_per_node="+c.ranks, "--role="+c.role,
			"--rdzv_id=7", "--max_restarts=2", "--rdzv_backend=c10d", "--rdzv_endpoint="+at, script))
	}
	host := l.cluster.Addr("p0").String()
	want := "0 5 0 2 0 3 0 3 actor 0 7 0 2 False HOST\n1 5 1 2 0 3 1 3 actor 0 7 0 2 False HOST\n" +
		"2 5 0 2 1 3 0 2 learner 1 7 0 2 False HOST\n3 5 1 2 1 3 1 2 learner 1 7 0 2 False HOST\n4 5 0 1 2 3 2 3 actor 2 7 0 2 False HOST\n"
	if got := inOrder(together(t, all...).Stdout); got != strings.ReplaceAll(want, "HOST", host) {
		t.Errorf("ranks say\n%s, not\n%s", got, want)
	}
}

// However one pod ends, all end with its code and a sentence that names it; whose ranks have ended well waits for the others.
func TestHowPodsOfTorchrunEnd(t *testing.T) {
	t.Parallel()
	l := torchPods(t)
	script := l.trainer(t, `import os, sys, time
rank, how = os.environ['RANK'], sys.argv[1]
print('start', os.environ['TORCHELASTIC_RESTART_COUNT'], 'of', os.environ['WORLD_SIZE'], flush=True)
if how == 'fails' and rank == '1':
    raise ValueError('loss is nan')
if how == 'once' and rank == '1' and os.environ['TORCHELASTIC_RESTART_COUNT'] == '0':
    sys.exit(3)
if how == 'well':
    time.sleep(int(rank) * 1.5)
elif how != 'once':
    time.sleep(1000)
`)
	start := func(t *testing.T, port int, how string, more ...string) (all []*running) {
		for _, pod := range []string{"p0", "p1", "p2"} {
			args := append([]string{"--nnodes=3", "--nproc_per_node=1", "--rdzv_backend=c10d", "--rdzv_endpoint=" + l.at("p0", port)}, more...)
			all = append(all, l.torchrun(t, pod, nil, append(args, script, how)...))
		}
		return all
	}
	run := func(all []*running, t *testing.T) {
		t.Helper()
		for _, p := range all {
			if err := p.Until(p.Stdout, "start 0 of 3"); err != nil {
				t.Fatal(err)
			}
		}
	}

	t.Run("a rank fails", func(t *testing.T) {
		t.Parallel()
		all := start(t, 29421, "fails")
		all[1].Wait(t).Fails(t, 1, "mpiup: rank 1 on p1 exited with code 1: ValueError: loss is nan (train.py:5)\n")
		for _, i := range []int{0, 2} {
			all[i].Wait(t).Fails(t, 1, "node 1 (p1) failed: rank 1 exited with code 1: ValueError: loss is nan (train.py:5)\n")
		}
	})
	t.Run("a pod dies", func(t *testing.T) {
		t.Parallel()
		all := start(t, 29422, "runs")
		run(all, t)
		all[1].Signal(t, syscall.SIGKILL)
		for _, i := range []int{0, 2} {
			all[i].Wait(t).Fails(t, 248, "mpiup: node 1 (p1) is lost: its torchrun's connection ended\n")
		}
	})
	t.Run("the pod dies where they met", func(t *testing.T) {
		t.Parallel()
		all := start(t, 29423, "runs")
		run(all, t)
		all[0].Signal(t, syscall.SIGKILL)
		for _, i := range []int{1, 2} {
			all[i].Wait(t).Fails(t, 248, "mpiup: node 0 (p0), where the nodes met, is lost: its torchrun's connection ended\n")
		}
	})
	t.Run("a pod is taken away", func(t *testing.T) {
		t.Parallel()
		all := start(t, 29424, "runs")
		run(all, t)
		all[2].Signal(t, syscall.SIGTERM)
		all[2].Wait(t).Fails(t, 249)
		for _, i := range []int{0, 1} {
			all[i].Wait(t).Fails(t, 249, "torchrun (mpiup): node 2 (p2) is being taken away: its torchrun got SIGTERM\n")
		}
	})
	t.Run("one after the other, well", func(t *testing.T) {
		t.Parallel()
		together(t, start(t, 29425, "well")...)
	})
	t.Run("again", func(t *testing.T) {
		t.Parallel()
		r := together(t, start(t, 29426, "once", "--max_restarts=1")...)
		if strings.Count(r.Stdout, "start 1 of 3\n") != 3 || strings.Count(r.Stderr, "node 1 (p1) failed: rank 1 exited with code 3; all ranks start again (restart 1 of 1)\n") != 3 {
			t.Errorf("%s%s", r.Stdout, r.Stderr)
		}
	})
	t.Run("one more comes", func(t *testing.T) {
		t.Parallel()
		line := []string{"--nnodes=1:3", "--nproc_per_node=1", "--rdzv_backend=c10d", "--rdzv_endpoint=" + l.at("p0", 29427), "--rdzv_conf=last_call_timeout=2", script}
		p0, p1 := l.torchrun(t, "p0", nil, append(line, "runs")...), l.torchrun(t, "p1", nil, append(line, "runs")...)
		for _, p := range []*running{p0, p1} {
			if err := p.Until(p.Stdout, "start 0 of 2"); err != nil {
				t.Fatal(err)
			}
		}
		p2 := l.torchrun(t, "p2", nil, append(line, "runs")...)
		all := []*running{p0, p1, p2}
		run(all, t)
		p0.Signal(t, syscall.SIGINT)
		for _, p := range all {
			p.Wait(t).Fails(t, 130)
		}
	})
	t.Run("too few", func(t *testing.T) {
		t.Parallel()
		r := l.torchrun(t, "p0", nil, "--nnodes=2", "--nproc_per_node=1", "--rdzv_backend=c10d", "--rdzv_endpoint="+l.at("p0", 29428), "--rdzv_conf=join_timeout=1", script, "runs").Wait(t)
		r.Fails(t, 241, "1 node here (p0) after 1s (--rdzv-conf join_timeout), and --nnodes is 2")
	})
}

// A pod that is cut off is lost when its kernel does not answer for half a minute, on both sides.
func TestPodOfTorchrunIsCutOff(t *testing.T) {
	t.Parallel()
	l := torchPods(t)
	script := l.trainer(t, "import time\nprint('start', flush=True)\ntime.sleep(1000)\n")
	var all []*running
	for _, pod := range []string{"p0", "p1", "p2"} {
		all = append(all, l.torchrun(t, pod, nil, "--nnodes=3", "--nproc_per_node=1", "--rdzv_backend=c10d", "--rdzv_endpoint="+l.at("p0", 29431), script))
	}
	for _, p := range all {
		if err := p.Until(p.Stdout, "start"); err != nil {
			t.Fatal(err)
		}
	}
	undo, err := l.cluster.CutLink("p2")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := undo(); err != nil {
			t.Error(err)
		}
	})
	for _, p := range all[:2] {
		p.Wait(t).Fails(t, 248, "mpiup: node 2 (p2) is lost: its torchrun's connection ended (")
	}
	all[2].Wait(t).Fails(t, 248, "mpiup: node 0 (p0), where the nodes met, is lost: its torchrun's connection ended (")
}

// PyTorch's own torchrun and mpiup's do not understand each other, and both sides' logs say what to do.
func TestTorchrunMeetsPyTorchs(t *testing.T) {
	t.Parallel()
	l := torchPods(t)
	_, script := l.torch(t, "torch-ddp")
	line := func(port int) []string {
		return []string{"--nnodes=2", "--nproc_per_node=1", "--rdzv_backend=c10d", "--rdzv_endpoint=" + l.at("p0", port), script}
	}
	theirs := func(pod string, port int) *running {
		// Without these two, which name a rank that is not there, torchrun 1.13 fails on Python 3.11.
		cmd := l.cluster.Command(t.Context(), pod, append([]string{"env", "PET_REDIRECTS=9:1", "PET_TEE=9:1", "/usr/bin/torchrun"}, line(port)...)...)
		p, err := testlab.Start(cmd)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill(); <-p.Done })
		return p
	}
	t.Run("theirs calls", func(t *testing.T) {
		t.Parallel()
		host := l.torchrun(t, "p0", nil, line(29441)...)
		theirs("p1", 29441)
		tells(t, host, "is not let in: PyTorch's own torchrun called: use one torchrun in all pods, mpiup's or PyTorch's\n")
		tells(t, host, "torchrun (mpiup): "+l.cluster.Addr("p1").String()+":")
		together(t, host, l.torchrun(t, "p2", nil, line(29441)...))
	})
	t.Run("theirs is called", func(t *testing.T) {
		t.Parallel()
		theirs("p0", 29442)
		for _, env := range [][]string{nil, {"MPIUP_KEY=" + l.key}} {
			l.torchrun(t, "p1", env, line(29442)...).Wait(t).Fails(t, 243, "PyTorch's own torchrun listens there (its TCPStore), and this is mpiup's: use one torchrun in all pods\n")
		}
	})
}
