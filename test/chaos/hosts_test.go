package chaos

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mpiup/mpiup/internal/identity"
	"github.com/mpiup/mpiup/test/lab"
	"github.com/mpiup/mpiup/test/netns"
	"golang.org/x/sys/unix"
)

// bound is far beyond what anything here takes, on slow cores with neighbours.
const bound = 90 * time.Second

// pool is the hosts that no scenario has now.
var pool struct {
	mu   sync.Mutex
	free []string // guarded by mu; workers are w0, w1, ..., launchers' hosts l0, l1, ...

	names sync.Mutex // held while a hosts file is changed
}

// take hands out a free host of a kind, "w" or "l", until the test's end.
func take(t *testing.T, kind string) string {
	t.Helper()
	pool.mu.Lock()
	defer pool.mu.Unlock()
	i := slices.IndexFunc(pool.free, func(h string) bool { return strings.HasPrefix(h, kind) })
	if i < 0 {
		t.Fatalf("no host %s… is free", kind)
	}
	host := pool.free[i]
	pool.free = slices.Delete(pool.free, i, i+1)
	t.Cleanup(func() {
		pool.mu.Lock()
		defer pool.mu.Unlock()
		pool.free = append(pool.free, host)
	})
	return host
}

// site is one scenario's hosts.
type site struct {
	t        *testing.T
	c        *netns.Cluster
	launcher string // the host that launchers run on
	workers  []*worker

	kubernetes bool // launchers find what a pod has in its environment
}

// worker is a host with an agent.
type worker struct {
	s     *site
	host  string
	name  string           // what the launcher calls it: its own, or that of a forwarder
	fwd   *netns.Forwarder // nil: direct
	flags []string
	init  bool // the agent is PID 1, as in a pod
	agent *netns.Cmd
	log   *lab.Text
}

// newSite takes n workers out of the pool, starts an agent on each, and returns when they serve.
func newSite(t *testing.T, n int, flags ...string) *site {
	t.Helper()
	t.Parallel()
	return takeSite(t, n, flags...)
}

// takeSite is newSite for a test that has its turn.
func takeSite(t *testing.T, n int, flags ...string) *site {
	t.Helper()
	s := &site{t: t, c: cluster(t), launcher: netns.Launcher}
	for range n {
		host := take(t, "w")
		s.workers = append(s.workers, &worker{s: s, host: host, name: host, flags: flags, init: true, log: new(lab.Text)})
	}
	for _, w := range s.workers {
		w.start()
	}
	t.Cleanup(func() {
		for _, w := range s.workers {
			w.end()
		}
	})
	return s
}

// ownLauncher gives the scenario a launcher host of its own.
func (s *site) ownLauncher() *site {
	s.launcher = take(s.t, "l")
	return s
}

// forwarded puts a forwarder between the launcher and every worker.
func (s *site) forwarded() *site {
	s.t.Helper()
	for _, w := range s.workers {
		f, err := s.c.Forward(w.host, identity.DefaultPort)
		if err != nil {
			s.t.Fatal(err)
		}
		w.fwd, w.name = f, w.host+"-by-"+strings.ReplaceAll(f.Addr().String(), ".", "-")
		pool.names.Lock()
		path := s.c.Dir(s.launcher) + "/hosts"
		b, err := os.ReadFile(path)
		if err == nil {
			err = s.c.SetHosts(s.launcher, string(b)+fmt.Sprintf("%s %s\n", f.Addr(), w.name))
		}
		pool.names.Unlock()
		if err != nil {
			s.t.Fatal(err)
		}
	}
	return s
}

// start starts the agent, as in production with gossip and HTTP, and waits until it serves.
func (w *worker) start() {
	w.s.t.Helper()
	argv := append([]string{world.mpiup, "agent", "--key", world.key, "-v"}, w.flags...)
	if !slices.Contains(w.flags, "--host") {
		var all []string // a pod finds its job's by their service
		for _, o := range w.s.workers {
			all = append(all, o.host)
		}
		argv = append(argv, "--host", strings.Join(all, ","))
	}
	if w.init {
		w.agent = w.s.c.RunInit(context.Background(), w.host, argv...)
	} else {
		w.agent = w.s.c.Command(context.Background(), w.host, argv...)
	}
	ready := strings.Count(w.log.String(), "agent is ready")
	w.agent.Stdout, w.agent.Stderr = w.log, w.log
	if err := w.agent.Start(); err != nil {
		w.s.t.Fatal(err)
	}
	lab.Eventually(w.s.t, "the agent on "+w.host+" is ready", func() bool { return strings.Count(w.log.String(), "agent is ready") > ready })
}

// sound fails the test when a program fell over, or its race detector (an MPIUP_BIN that was
// built with -race) found something.
func sound(t *testing.T, who, log string) {
	t.Helper()
	for _, bad := range []string{"WARNING: DATA RACE", "panic: ", "fatal error: "} {
		if _, after, found := strings.Cut(log, bad); found {
			t.Errorf("%s: %s%s", who, bad, after[:min(len(after), 4000)])
		}
	}
}

func (w *worker) signal(sig syscall.Signal) {
	w.s.t.Helper()
	if err := unix.Kill(w.agent.Process.Pid, sig); err != nil {
		w.s.t.Fatalf("%v to the agent on %s: %v", sig, w.host, err)
	}
}

// kill ends the agent, and as PID 1 with it the host's processes, at once.
func (w *worker) kill() {
	w.s.t.Helper()
	w.signal(syscall.SIGKILL)
	_ = w.agent.Wait()
}

func (w *worker) end() {
	_ = w.agent.Process.Signal(syscall.SIGKILL)
	_ = w.agent.Wait()
	if w.fwd != nil {
		_ = w.fwd.Close()
	}
	sound(w.s.t, "agent on "+w.host, w.log.String())
	if w.s.t.Failed() {
		w.s.t.Logf("agent on %s:\n%s", w.host, summary(w.log.String()))
	}
}

// processes are those on the host that are a rank or were started by one.
func (w *worker) processes() (out []netns.Process) {
	all, err := w.s.c.Processes(w.host)
	if err != nil {
		return nil // no PID 1, so no process
	}
	for _, p := range all {
		if strings.Contains(p.Argv, world.counter) || strings.HasPrefix(p.Argv, "sleep ") {
			out = append(out, p)
		}
	}
	return out
}

// gone waits until no process of a job is left on the worker.
func (w *worker) gone() {
	w.s.t.Helper()
	lab.Eventually(w.s.t, "no process of the job is left on "+w.host, func() bool { return len(w.processes()) == 0 })
}

// last lets time pass: the length of a fault, which is the point of a scenario.
func (s *site) last(d time.Duration) {
	select {
	case <-time.After(d):
	case <-s.t.Context().Done():
	}
}
