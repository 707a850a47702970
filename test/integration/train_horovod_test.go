package integration

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/test/need"
	"github.com/mpiup/mpiup/test/netns"
)

// Horovod with MPI and Gloo in it takes MPI, and Gloo where it is told to, then also twice in one process.
func TestHorovodBare(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	python, whole := framework("horovod")
	need.File(t, "horovod", whole, "run test/frameworks.sh horovod")
	script := l.example(t, "horovod-pytorch")
	again := fmt.Sprintf("import sys; sys.path.insert(0, %q); import train; sys.exit(train.main() or train.main())", filepath.Dir(script))
	for _, c := range []struct {
		name    string
		args    []string
		program []string
		times   int
	}{
		{"MPI", nil, []string{script}, 1},
		{"Gloo", []string{"--env", "horovod"}, []string{script}, 1},
		{"Gloo twice, as the user asks", []string{"-x", "HOROVOD_CONTROLLER=gloo", "-x", "HOROVOD_CPU_OPERATIONS=gloo"}, []string{"-c", again}, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			args := slices.Concat([]string{"-n", "4"}, c.args, []string{python}, c.program)
			r := l.run(t, job{hosts: "w0:2,w1:2", args: args})
			learns(t, r, 4)
			if n := strings.Count(r.Stdout, "weights equal"); n != 4*c.times {
				t.Errorf("%d lines of %d ranks:\n%s", n, 4, r.Stdout)
			}
		})
	}
}

// Horovod of MPICH has MPI only, and finds it.
func TestHorovodOfMPICHBare(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	python, whole := framework("horovod-mpich")
	need.File(t, "horovod-mpich", whole, "run test/frameworks.sh horovod-mpich")
	learns(t, l.run(t, job{hosts: "w0:2,w1:2", args: []string{"-n", "4", python, l.example(t, "horovod-pytorch")}}), 4)
}

// mpiup under horovodrun's name, with its command line: no ssh, no mpirun and no horovodrun is asked.
func TestAsHorovodrun(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	python, whole := framework("horovod")
	need.File(t, "horovod", whole, "run test/frameworks.sh horovod")
	script := l.example(t, "horovod-pytorch")
	for _, how := range []string{"--gloo", "--mpi"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			learns(t, l.called(t, "horovodrun", job{}, "-np", "4", "-H", "w0:2,w1:2", how, "--cycle-time-ms", "2", python, script), 4)
		})
	}
}

// elasticHorovod trains with Horovod's elastic state until a file exists.
const elasticHorovod = `import os, sys
import torch
import horovod.torch as hvd
hvd.init()
model = torch.nn.Linear(4, 1)
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.01), named_parameters=model.named_parameters())
begun = 0

@hvd.elastic.run
def train(state):
    global begun
    os.write(1, ("%s among %d, meeting %d, step %d\n" % (os.uname().nodename, hvd.size(), begun, state.step)).encode())
    begun += 1
    end = False
    while not end:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(torch.ones(8, 4)), torch.ones(8, 1)).backward()
        optimizer.step()
        state.step += 1
        end = hvd.allreduce(torch.tensor(float(os.path.exists(sys.argv[1]))), name="end").item() > 0
        state.commit()

train(hvd.elastic.TorchState(model, optimizer, step=0))
os.write(1, ("%s: ended\n" % os.uname().nodename).encode())
`

// Horovod's elastic job under horovodrun's name keeps what its ranks have in memory: a host whose agent ends is left by the job, one that
// comes joins it at its step, and its ranks that were there all the while never begin anew. Who is there says the membership.
func TestAsHorovodrunElastic(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	python, whole := framework("horovod")
	need.File(t, "horovod", whole, "run test/frameworks.sh horovod")
	script := l.trainer(t, elasticHorovod)
	l = l.apart(t, netns.Config{Hosts: []string{"a", "b", "c"}})
	for _, h := range []string{"a", "b"} {
		l.agent(t, h, container{})
	}
	dir := l.folder(t)
	end := filepath.Join(dir, "end")
	run := l.calling(t, "horovodrun", job{dir: dir}, "-np", "2", "--min-np", "1", "--max-np", "3", "-H", "a:1,b:1,c:1", "--network-interface", "eth0",
		"--gloo-timeout-seconds", "15", "--blacklist-cooldown-range", "1", "2", python, script, end)
	run.Says(t, "a among 2, meeting 0, step 0", "b among 2, meeting 0, step 0")
	l.agent(t, "c", container{})
	run.Says(t, "a among 3, meeting 1", "b among 3, meeting 1", "c among 3, meeting 0, step ")
	if err := l.cluster.Kill("b"); err != nil {
		t.Fatal(err)
	}
	run.Says(t, "a among 2, meeting 2", "c among 2, meeting 1")
	if err := l.cluster.Boot("b"); err != nil {
		t.Fatal(err)
	}
	l.agent(t, "b", container{})
	run.Says(t, "a among 3, meeting 3", "c among 3, meeting 2", "b among 3, meeting 0, step ")
	ends(t, end)
	r := run.Wait(t)
	if r.Code != 0 || strings.Count(r.Stdout, "step 0\n") != 2 || strings.Count(r.Stdout, ": ended") != 3 {
		t.Errorf("ended with %d, printed\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
}
