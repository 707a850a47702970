package integration

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	testlab "github.com/mpiup/mpiup/test/lab"
)

// elasticWorker trains nothing, by Horovod's own elastic loop. What Horovod's library would do is done
// here: a worker asks for its rank again as the library does, and a broadcast from rank 0 fails when one of the
// others is gone. The arguments are two files: where rank 0 listens, and what ends the job when it exists.
const elasticWorker = `import json, os, socket, sys, time
from urllib.request import urlopen
from horovod.common.elastic import ObjectState, run_fn
from horovod.common.exceptions import HorovodInternalError

env, (meeting, end) = os.environ, sys.argv[1:]
host, rank, size, restarts, peers = env["HOROVOD_HOSTNAME"], int(env["HOROVOD_RANK"]), int(env["HOROVOD_SIZE"]), 0, []

def join():
    global peers
    if rank == 0:
        with socket.create_server(("", 0)) as listener:
            with open(meeting + ".new", "w") as f:
                f.write("%s %d" % (host, listener.getsockname()[1]))
            os.replace(meeting + ".new", meeting)
            peers = [listener.accept()[0].makefile("rw") for _ in range(size - 1)]
    while not peers and size > 1: # where rank 0 listened before, nobody answers any more
        try:
            name, port = open(meeting).read().split()
            peers = [socket.create_connection((name, int(port))).makefile("rw")]
        except OSError:
            time.sleep(0.05)

def hear(peer):
    line = peer.readline()
    if not line:
        raise OSError("it is gone")
    return json.loads(line)

def say(peer, what):
    print(json.dumps(what), file=peer, flush=True)

def broadcast(what):
    try:
        for p in peers:
            if rank == 0:
                say(p, what)
        for p in peers:
            got = hear(p)
            if rank != 0:
                what = got
                say(p, "had")
        return what
    except OSError as e:
        raise HorovodInternalError(e)

def reset():
    global rank, size, restarts
    restarts += 1
    while peers:
        peers.pop().close()
    url = "http://%s:%s/rank_and_size/%s:%s" % (env["HOROVOD_GLOO_RENDEZVOUS_ADDR"], env["HOROVOD_GLOO_RENDEZVOUS_PORT"], host, env["HOROVOD_LOCAL_RANK"])
    rank, size = map(int, urlopen(url).read().decode().split(",")[:2])
    if rank < 0:
        print(host + " is no longer wanted", flush=True)
        sys.exit(1)
    join()

def train(state):
    print("%s among %d, restart %d, step %d" % (host, size, restarts, state.step), flush=True)
    while not broadcast(os.path.exists(end)):
        state.step += 1
        state.commit()
        time.sleep(0.05)

join()
run_fn(train, reset)(ObjectState(broadcast, lambda: rank, step=0))
`

// elastic is a horovodrun whose hosts change while it runs.
type elastic struct {
	*running
	hosts, end string // files: the hosts for its script, and what ends its workers
}

// elastic starts workers on three hosts, of which two are enough.
func (l *lab) elastic(t *testing.T) *elastic {
	t.Helper()
	dir := l.folder(t)
	e := &elastic{hosts: filepath.Join(dir, "hosts"), end: filepath.Join(dir, "end")}
	e.are(t, "w0", "w1", "w2")
	worker := append(l.script(t, "horovod", elasticWorker), filepath.Join(dir, "meeting"), e.end)
	e.running = l.horovod(t, append([]string{"--gloo", "--network-interface", "eth0", "-np", "3", "--min-np", "2", "--max-np", "3",
		"--host-discovery-script", "cat " + e.hosts}, worker...)...)
	return e
}

// are makes hosts, a slot each, what the discovery script prints.
func (e *elastic) are(t *testing.T, hosts ...string) {
	t.Helper()
	if err := os.WriteFile(e.hosts+".new", []byte(strings.Join(hosts, ":1\n")+":1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(e.hosts+".new", e.hosts); err != nil {
		t.Fatal(err)
	}
}

// horovodrun's elastic driver starts workers over ssh on the hosts that a script names. One whose host is named
// no more ends, one on a host that comes joins the others at their step, one that is killed takes its
// host out of the job; the others go on, and the job ends well.
func TestHorovodrunElastic(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	e := l.elastic(t)
	e.Says(t, "w0 among 3, restart 0", "w1 among 3, restart 0", "w2 among 3, restart 0")
	e.are(t, "w0", "w1")
	e.Says(t, "w0 among 2, restart 1", "w1 among 2, restart 1", "w2 is no longer wanted")
	testlab.Eventually(t, "the worker of w2 ends", func() bool { return len(l.matching(t, "w2", e.end)) == 0 })
	e.are(t, "w0", "w1", "w2")
	e.Says(t, "w0 among 3, restart 2", "w1 among 3, restart 2")
	for _, pid := range l.matching(t, "w1", e.end) {
		_ = syscall.Kill(pid, syscall.SIGKILL) // its shell may have ended with it
	}
	e.Says(t, "w0 among 2, restart 3", "w2 among 2, restart 1")
	if err := os.WriteFile(e.end, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	r := e.Wait(t)
	if r.Code != 0 || strings.Count(r.Stdout, "step 0\n") != 3 {
		t.Errorf("ended with %d, or not only the first three began at the beginning: printed %q and %.4000s", r.Code, r.Stdout, r.Stderr)
	}
}
