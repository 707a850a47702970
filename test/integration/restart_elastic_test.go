package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/test/netns"
)

// elasticTorch works with torch until a file exists, and says where its ranks are.
const elasticTorch = `import os, sys, time
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
os.write(1, ("%d of %d, start %s: %s\n" % (dist.get_rank(), dist.get_world_size(), os.environ["MPIUP_RESTART_COUNT"], os.uname().nodename)).encode())
end = torch.zeros(1)
while not end.item():
    end.fill_(os.path.exists(sys.argv[1]))
    dist.all_reduce(end)
    time.sleep(0.02)
`

// ends makes the file by which a job's ranks know that they are to end.
func ends(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
}

// A host goes away and torch's ranks go on with fewer; it comes back, and they go on with more. torchrun's range of nodes means the same.
func TestTorchGoesOnWithTheHostsThereAre(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	python, _ := l.torch(t, "torch-ddp")
	script := l.trainer(t, elasticTorch)
	for _, c := range []struct {
		name string
		run  func(l *lab, end string) *running
	}{
		{"mpiup run", func(l *lab, end string) *running {
			return l.start(t, job{hosts: "a:2,b:2", args: []string{"--stdin", "none", "--min-np", "2", "--max-np", "4", "--last-call", "1", "--max-restarts", "3", python, script, end}})
		}},
		{"torchrun", func(l *lab, end string) *running {
			told := "OMPI_MCA_orte_default_hostfile=" + l.file(t, "a slots=1\nb slots=1\n")
			return l.command(t, job{env: []string{told, "MPIUP_KEY=" + l.key, "PYTHON_EXEC=" + python}}, l.link(t, "torchrun"), "--nnodes", "1:2", "--nproc-per-node", "2", "--max-restarts", "3",
				"--rdzv-conf", "last_call_timeout=1", script, end)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := l.apart(t, netns.Config{Hosts: []string{"a", "b"}})
			for _, h := range []string{"a", "b"} {
				l.agent(t, h, container{})
			}
			end := filepath.Join(l.folder(t), "end")
			run := c.run(l, end)
			run.Says(t, "0 of 4, start 0: a", "1 of 4, start 0: a", "2 of 4, start 0: b", "3 of 4, start 0: b")
			if err := l.cluster.Kill("b"); err != nil {
				t.Fatal(err)
			}
			run.Says(t, "0 of 2, start 1: a", "1 of 2, start 1: a")
			if err := l.cluster.Boot("b"); err != nil {
				t.Fatal(err)
			}
			l.agent(t, "b", container{})
			run.Says(t, "0 of 4, start 2: a", "1 of 4, start 2: a", "2 of 4, start 2: b", "3 of 4, start 2: b")
			ends(t, end)
			r := run.Wait(t).Fails(t, 0, "the job goes on with 2 ranks on a; it had 4", "host b has come; the ranks start again, 4 in place of 2", "the job goes on with 4 ranks on a, b; it had 2")
			if n := strings.Count(r.Stdout, ", start "); n != 10 {
				t.Errorf("%d ranks in all starts, want 10\n%s", n, r.Stdout)
			}
		})
	}
}

// An MPI job begins with the hosts that there are, takes one that was missing when it comes, and ends when fewer ranks are left than may be.
func TestMPIGoesOnWithTheHostsThereAre(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	for _, exe := range []string{l.program(t, "again"), l.openMPI(t, "again")} {
		t.Run(filepath.Base(exe), func(t *testing.T) {
			t.Parallel()
			l := l.apart(t, netns.Config{Hosts: []string{"a", "b", "c"}})
			for _, h := range []string{"a", "b"} {
				l.agent(t, h, container{})
			}
			run := l.start(t, job{hosts: "a:2,b:2,c:2", args: []string{"--stdin", "none", "-n", "6", "--min-np", "4", "--last-call", "1", "--max-restarts", "9", "--wait", "6",
				exe, "wait", "0", "9"}})
			run.Says(t, "0 of 4, start 0: a", "3 of 4, start 0: b")
			l.agent(t, "c", container{})
			run.Says(t, "0 of 6, start 1: a", "3 of 6, start 1: b", "5 of 6, start 1: c")
			if err := l.cluster.Kill("a"); err != nil {
				t.Fatal(err)
			}
			run.Says(t, "0 of 4, start 2: b", "1 of 4, start 2: b", "2 of 4, start 2: c", "3 of 4, start 2: c")
			if err := l.cluster.Kill("b"); err != nil {
				t.Fatal(err)
			}
			run.Wait(t).Fails(t, 248, "the job begins with 4 ranks on a, b; for -n 6 there are not hosts enough yet", "host c has come; the ranks start again, 6 in place of 4",
				"host a with ranks 0-1 was lost", "the job goes on with 4 ranks on b, c; it had 6",
				"the ranks were not started again: the hosts that answered within 6s (--wait) have room for 2 ranks, and --min-np is 4", "host b with ranks 0-1 was lost")
		})
	}
}
