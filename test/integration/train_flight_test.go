package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	testlab "github.com/mpiup/mpiup/test/lab"
	"github.com/mpiup/mpiup/test/netns"
)

// absent is ranks of which rank 2 stays away from step 20. No GPU is here: torch's Gloo has the recorder of its NCCL, and a thread stands
// for the monitor of ProcessGroupNCCL, which reads the pipe that its variable names, and for the RAS service of NCCL.
const absent = `
import os, socket, threading, time, torch, torch.distributed as dist
from torch._C._distributed_c10d import _dump_fr_trace_file

def monitor(rank):
    path = os.environ["TORCH_NCCL_DEBUG_INFO_PIPE_FILE"] + str(rank) + ".pipe"
    os.mkfifo(path)
    pipe = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    while True:
        time.sleep(1)
        try:
            if os.read(pipe, 128):
                _dump_fr_trace_file(rank)
        except BlockingIOError:
            pass

def ras():
    server = socket.create_server(("127.0.0.1", 28028))
    while True:
        client, _ = server.accept()
        for line in client.makefile():
            if line.startswith("CLIENT"):
                client.sendall(b"SERVER PROTOCOL 2\n")
            elif line.startswith("TIMEOUT"):
                client.sendall(b"OK\n")
            else:
                client.sendall(b"NCCL version 2.28.3\n\nErrors\n======\n\nWarnings\n========\n\n  Rank 2 has launched up to operation 19 -- GPU 0 managed by process 7 on node 10.0.0.3\n")
                break
        client.shutdown(socket.SHUT_RDWR)
        client.close()

dist.init_process_group("gloo")
rank, x, step = dist.get_rank(), torch.ones(1000), 0
threading.Thread(target=monitor, args=(rank,), daemon=True).start()
if rank == 3:
    threading.Thread(target=ras, daemon=True).start()
while True:
    step += 1
    if rank == 2 and step == 20:
        time.sleep(10000)
    dist.all_reduce(x)
`

// A training hangs in a collective. The verdict names the rank that is absent from it, by the flight recorders, and the report has their dumps.
func TestTheRankAbsentFromACollective(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	python := newTorch(t)
	script := l.trainer(t, absent)
	dir := filepath.Join(l.folder(t), "report")
	r := l.run(t, job{hosts: "w0:2,w1:2", args: []string{"--stall-timeout", "10s", "--on-stall", "abort", "--output", "json", "--report", dir, "-n", "4", python, script}})
	r.Fails(t, 110, ` is the odd one out: it has not called gloo:all_reduce number 20 of group default_pg (0), in which ranks 0-1,3 wait`,
		"NCCL's RAS service, which is not always right, says: Rank 2 has launched up to operation 19", "mpiup: rank 2 on w1 (pid ", "it has finished number 19 there, gloo:all_reduce")
	for _, want := range []string{`"absent":[{"rank":2,`, `"rank":2,"host":"w1"`} {
		if !strings.Contains(r.Stdout, want) {
			t.Errorf("the verdict's event lacks %s:\n%s", want, r.Stdout)
		}
	}
	for _, rank := range []string{"0", "1", "2", "3"} {
		if text, err := os.ReadFile(filepath.Join(dir, "flight", "rank_"+rank)); err != nil || !strings.Contains(string(text), "profiling_name") {
			t.Errorf("rank %s's dump: %v", rank, err)
		}
	}
}

// While nothing looks whether the run hangs, mpiup stacks asks the flight recorders.
func TestStacksOfACollective(t *testing.T) {
	t.Parallel()
	l := hosted(t).apart(t, netns.Config{Hosts: []string{"w0", "w1"}}) // one service of NCCL has the port
	for _, host := range []string{"w0", "w1"} {
		l.agent(t, host, container{})
	}
	python := newTorch(t)
	l.start(t, job{hosts: "w0:2,w1:2", args: []string{"-n", "4", python, l.trainer(t, absent)}})
	var r result
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(r.Stdout, r.Stderr)
		}
	})
	testlab.Eventually(t, "mpiup stacks names the absent rank", func() bool {
		r = l.mpiup(t, "stacks", "--key", l.key, "--host", "w0,w1")
		return strings.Contains(r.Stdout, "\nrank 2 (w1, pid ") &&
			strings.Contains(r.Stdout, "): it has not called gloo:all_reduce number 20 of group default_pg (0), in which ranks 0-1,3 wait; it has finished number 19 there, gloo:all_reduce")
	})
}
