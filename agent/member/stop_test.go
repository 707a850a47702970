package member

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mpiup/mpiup/test/need"
)

// childEnv makes the test binary a member on its own: "NAME ADDRESS SEED...".
const childEnv = "MPIUP_MEMBER_TEST_CHILD"

// child runs a member until its standard input ends, which it does with its parent.
func child() int {
	f := strings.Fields(os.Getenv(childEnv))
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	g, l, err := realMember(f[0], f[1], f[2:])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	ctx, cancel := context.WithCancel(ctx)
	var work sync.WaitGroup
	work.Go(func() { g.Run(ctx) })
	work.Go(func() { serve(l, g) })
	io.Copy(io.Discard, os.Stdin)
	cancel()
	l.Close()
	work.Wait()
	return 0
}

// startChild starts a member in a process of its own, which ends with the test.
func startChild(t *testing.T, name, addr string, seeds ...string) *exec.Cmd {
	t.Helper()
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), childEnv+"="+strings.Join(append([]string{name, addr}, seeds...), " "))
	c.Stderr = os.Stderr
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Process.Signal(syscall.SIGCONT)
		in.Close()
		c.Wait()
	})
	return c
}

// A process that is stopped for 8 s stays in every view, over real connections.
func TestStoppedForEightSeconds(t *testing.T) {
	t.Parallel()
	need.Time(t)
	a := startReal(t, "a", "127.0.71.1:17811")
	b := startReal(t, "b", "127.0.71.2:17811", a.addr.String())
	c := startChild(t, "c", "127.0.71.3:17811", a.addr.String())
	for _, n := range []*node{a, b} {
		n.await(t, time.Minute, func(v *View) bool { return count(v, Alive) == 3 })
	}
	if err := c.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	resume := time.AfterFunc(8*time.Second, func() { c.Process.Signal(syscall.SIGCONT) })
	defer resume.Stop()
	var all sync.WaitGroup
	for _, n := range []*node{a, b} {
		all.Go(func() {
			if !n.holds(20*time.Second, func(v *View) bool { return len(v.Members) == 3 && count(v, Left) == 0 }) {
				t.Errorf("%s lost the stopped one: %+v", n.addr, n.View().Members)
			}
			n.await(t, 30*time.Second, func(v *View) bool { return count(v, Alive) == 3 })
		})
	}
	all.Wait()
}

// A process that gets a tenth of a core, in slices of 10 ms in 100 as a cgroup's quota gives it,
// stays in every view, and keeps everybody in its own, as nobody dies here.
func TestThrottledToATenth(t *testing.T) {
	t.Parallel()
	need.Time(t)
	a := startReal(t, "a", "127.0.76.1:17811")
	b := startReal(t, "b", "127.0.76.2:17811", a.addr.String())
	c := startChild(t, "c", "127.0.76.3:17811", a.addr.String())
	for _, n := range []*node{a, b} {
		n.await(t, time.Minute, func(v *View) bool { return count(v, Alive) == 3 })
	}
	ctx, cancel := context.WithCancel(t.Context())
	var throttle sync.WaitGroup
	throttle.Go(func() {
		slice := time.NewTicker(10 * time.Millisecond)
		defer slice.Stop()
		for i := 0; ; i++ {
			select {
			case <-ctx.Done():
				return
			case <-slice.C:
			}
			switch i % 10 {
			case 0:
				c.Process.Signal(syscall.SIGCONT)
			case 1:
				c.Process.Signal(syscall.SIGSTOP)
			}
		}
	})
	var all sync.WaitGroup
	for _, n := range []*node{a, b} {
		all.Go(func() {
			if !n.holds(25*time.Second, func(v *View) bool { return len(v.Members) == 3 && count(v, Left) == 0 }) {
				t.Errorf("%s lost somebody: %+v", n.addr, n.View().Members)
			}
		})
	}
	all.Wait()
	cancel()
	throttle.Wait()
}
