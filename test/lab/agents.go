package lab

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/mpiup/mpiup/test/netns"
)

// ready is what an agent logs once it can be reached.
const ready = "agent is ready"

// Agents starts argv, which is an agent, as PID 1 on every worker and waits until all are ready. The processes that
// were started are returned with an error too.
func Agents(ctx context.Context, c *netns.Cluster, argv ...string) (map[string]*Process, error) {
	agents := map[string]*Process{}
	for _, host := range c.Workers() {
		a, err := Start(c.RunInit(ctx, host, argv...))
		if err != nil {
			return agents, err
		}
		agents[host] = a
	}
	for host, a := range agents {
		if err := a.Until(a.Stderr, ready); err != nil {
			return agents, fmt.Errorf("agent on %s: %w", host, err)
		}
	}
	return agents, nil
}

// Idle tells agents that run no job to end, and returns an error for each that does not end with 0.
func Idle(agents map[string]*Process) error {
	var errs []error
	for host, a := range agents {
		errs = append(errs, a.Cmd.Process.Signal(syscall.SIGTERM))
		if r, err := a.End(); err != nil {
			errs = append(errs, fmt.Errorf("agent on %s: %w", host, err))
		} else if r.Code != 0 {
			errs = append(errs, fmt.Errorf("agent on %s ended with %d when idle:\n%s", host, r.Code, r.Stderr[max(0, len(r.Stderr)-2000):]))
		}
	}
	return errors.Join(errs...)
}

var (
	network  = fmt.Sprintf("127.%d.%d.", 64+rand.IntN(190), rand.IntN(256))
	nextHost atomic.Int32
)

// Address is a loopback address that nobody else is likely to use.
func Address() string { return fmt.Sprintf("%s%d", network, nextHost.Add(1)) }

// Loopback is an agent on an address of this machine's.
type Loopback struct {
	Addr string // without its port, which is the default one
	Pid  int
	Log  *Text
}

// NewLoopback starts an agent and waits until it is ready. The test's end ends it; it fails the test if the agent then
// hangs, or ends with another code than 0 and 143.
func NewLoopback(t testing.TB, bin string, env []string, flags ...string) *Loopback {
	t.Helper()
	a := &Loopback{Addr: Address(), Log: new(Text)}
	cmd := exec.Command(bin, append([]string{"agent", "--listen", a.Addr, "--name", "h" + strings.ReplaceAll(a.Addr, ".", "-")}, flags...)...)
	dir := t.TempDir()
	cmd.Env = append([]string{"PATH=/usr/bin:/bin", "HOME=" + dir, "TMPDIR=" + dir}, env...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, a.Log, a.Log
	p, err := StartHere(cmd)
	if err != nil {
		t.Fatal(err)
	}
	a.Pid = cmd.Process.Pid
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		select {
		case <-p.Done:
		case <-time.After(Bound):
			t.Error("the agent does not end")
			_ = cmd.Process.Kill()
			<-p.Done
		}
		if code := cmd.ProcessState.ExitCode(); code != 0 && code != 143 {
			t.Errorf("the agent ended with %d", code)
		}
		if t.Failed() {
			t.Logf("agent:\n%s", a.Log)
		}
	})
	if err := p.Until(a.Log, ready); err != nil {
		t.Fatal(err)
	}
	return a
}
