package integration

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/mpiup/mpiup/test/golden"
	testlab "github.com/mpiup/mpiup/test/lab"
	"github.com/mpiup/mpiup/test/need"
	"github.com/mpiup/mpiup/test/netns"
)

// ending is a program of which rank 1 fails in the way that is named, and the others only notice it.
const ending = `import os, signal, sys, time
rank, way = int(os.environ["MPIUP_RANK"]), sys.argv[1]
def meet(step):
    open("%s.%d.%d" % (sys.argv[2], step, rank), "w").close()
    while not all(os.path.exists("%s.%d.%d" % (sys.argv[2], step, r)) for r in range(3)):
        time.sleep(0.01)
def end(*_):
    if way == "raise":
        raise RuntimeError("[../gloo/transport/tcp/pair.cc:598] Connection closed by peer [10.0.0.2]:8109")
    os._exit(0 if way == "save" else 143)
def train():
    signal.signal(signal.SIGTERM, end)
    meet(0)
    print("ready", flush=True)
    meet(1)
    if rank == 1 and way == "raise":
        raise RuntimeError("CUDA error: an illegal memory access was encountered")
    if rank == 1 and way == "exit":
        sys.exit(3)
    if rank == 1 and way == "grow":
        while True:
            kept.append(bytearray(1 << 20))
    if rank != 1 and way == "hang":
        os.read(os.pipe()[0], 1)
    time.sleep(1000)
kept = []
train()
`

var (
	changing = regexp.MustCompile(`[\d.]+ s later|\b\d+ MiB|pid \d+|within [\d.]+m?s|where ranks of w\d|host \S+ was lost.*|, by \S+: .*`)
	numbers  = regexp.MustCompile(`[\d.]+`)
)

// lastLines are mpiup's last lines, behind the blank one, without what differs from run to run.
func lastLines(stderr string) string {
	at := strings.LastIndex(stderr, "\n\nmpiup: ")
	return changing.ReplaceAllStringFunc(stderr[at+1:], func(s string) string {
		if before, _, ok := strings.Cut(s, ": "); ok {
			return numbers.ReplaceAllString(before, "N") + ": …"
		}
		return strings.Replace(numbers.ReplaceAllString(s, "N"), "Nms", "Ns", 1)
	})
}

// A run that fails ends with its verdict: what happened first, at most six lines, nothing twice. testdata/ends.txt has them for real programs.
func TestLastLinesOfARun(t *testing.T) {
	t.Parallel()
	l := hosted(t).apart(t, netns.Config{Hosts: []string{"w0", "w1"}})
	agents := map[string]*running{}
	for _, host := range []string{"w0", "w1"} {
		a, err := testlab.Start(l.cluster.RunInit(context.Background(), host, l.bin, "agent", "--key", l.key))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.cluster.LimitMemory(host, 1<<40); err != nil {
			need.Done(t, "cgroup", err, "run where memory cgroups can be made")
		}
		if err := a.Until(a.Stderr, "agent is ready"); err != nil {
			t.Fatal(err)
		}
		agents[host] = a
	}
	dir := l.folder(t)
	script := filepath.Join(dir, "train.py")
	if err := os.WriteFile(script, []byte(ending), 0o644); err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, tt := range []struct {
		name, way string
		flags     []string
		code      int
		do        func(p *running)
	}{
		{name: "a rank raises an exception", way: "raise", code: 1},
		{name: "a rank exits", way: "exit", code: 3},
		{name: "a rank hangs", way: "hang", flags: []string{"--stall-timeout", "2s", "--on-stall", "abort"}, code: 110},
		{name: "Ctrl-C", way: "wait", code: 130, do: func(p *running) { p.Signal(t, syscall.SIGINT) }},
		{name: "preemption", way: "save", code: 249, do: func(p *running) { p.Signal(t, syscall.SIGTERM) }},
		{name: "a rank wants too much memory", way: "grow", code: 137, do: func(*running) {
			if _, err := l.cluster.LimitMemory("w1", 96<<20); err != nil {
				t.Fatal(err)
			}
		}},
		{name: "a host is lost", way: "wait", flags: []string{"--node-timeout", "2s"}, code: 248, do: func(*running) { _ = agents["w0"].Cmd.Process.Kill() }},
	} {
		args := append([]string{"-n", "3", "--map-by", "node"}, tt.flags...)
		p := l.start(t, job{hosts: "w0:2,w1:2", args: append(args, "python3", script, tt.way, filepath.Join(dir, tt.way+fmt.Sprint(tt.code)))})
		p.Says(t, "ready\nready\nready\n")
		if tt.do != nil {
			tt.do(p)
		}
		r := p.Wait(t).Fails(t, tt.code)
		end := lastLines(r.Stderr)
		if tt.code == 130 {
			end = r.Stderr[strings.LastIndex(r.Stderr, "\nmpiup: "):]
		}
		if n := strings.Count(strings.TrimPrefix(end, "\n"), "\n"); n > 6 {
			t.Errorf("%s: %d lines at the end:\n%s", tt.name, n, r.Stderr)
		}
		fmt.Fprintf(&all, "# %s: %d\n%s\n", tt.name, tt.code, end)
	}
	golden.Is(t, "testdata/ends.txt", all.String())
}
