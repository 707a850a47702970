package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	testlab "github.com/mpiup/mpiup/test/lab"
)

// crowd is many agents on loopback addresses, each PID 1 of a process namespace. An agent takes some 9 MB, a network
// namespace each would take minutes.
type crowd struct {
	b      *bench
	key    string
	net    int // the second number of the agents' addresses
	agents []*testlab.Process
}

// crowded measures how long jobs over many hosts take, by mpiup and by what it is compared with, in turn. 1,000 hosts may take
// at most 2.6 times the time of 500.
func (b *bench) crowded(ctx context.Context) (err error) {
	c := &crowd{b: b, key: filepath.Join(b.dir, "key"), net: 2 + rand.IntN(60)} // test/lab has those from 64 on
	if err := testlab.Keygen(b.mpiup, c.key, 0o600); err != nil {
		return err
	}
	defer func() {
		for _, a := range c.agents {
			_ = a.Cmd.Process.Kill() // the namespace goes with it
		}
		for _, a := range c.agents {
			<-a.Done
		}
	}()
	launchers := []string{b.mpiup}
	if b.against != "" {
		launchers = append(launchers, b.against)
	}
	medians := map[int]float64{}
	for _, n := range b.crowds {
		if err := c.grow(ctx, n); err != nil {
			return err
		}
		walls := make([][]float64, len(launchers))
		for round := range b.rounds + 1 {
			for i, bin := range launchers {
				ms, err := c.timed(ctx, bin, n)
				if err != nil {
					fmt.Printf("FAILED: %v\n", err)
					b.missed += 1 - i
				} else if round > 0 {
					walls[i] = append(walls[i], ms)
				}
			}
		}
		what := fmt.Sprintf("%dx1 true, wall", n)
		if len(launchers) > 1 && len(walls[0]) > 0 && len(walls[1]) > 0 {
			b.compare(what, "ms", walls[0], "before", walls[1], 0)
		} else {
			b.report(what, "ms", walls[0], 0)
		}
		if len(walls[0]) > 0 {
			medians[n] = median(walls[0])
		}
	}
	if medians[500] > 0 && medians[1000] > 0 {
		b.report("1000 hosts by 500", "", []float64{medians[1000] / medians[500]}, 2.6)
	}
	return nil
}

// address is where agent i listens.
func (c *crowd) address(i int) string { return fmt.Sprintf("127.%d.%d.%d", c.net, i/200, i%200+1) }

// grow starts agents until there are n.
func (c *crowd) grow(ctx context.Context, n int) error {
	const atOnce = 8
	for len(c.agents) < n {
		var batch []*testlab.Process
		for range min(atOnce, n-len(c.agents)) {
			cmd := exec.CommandContext(ctx, "sh", "-c", `mount -t proc proc /proc && exec "$@"`, "sh", c.b.mpiup, "agent", "--key", c.key,
				"--listen", c.address(len(c.agents)), "--name", "h"+strconv.Itoa(len(c.agents)), "--no-gossip", "--http", "off")
			cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=/nonexistent"}
			cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID, Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
			a, err := testlab.StartHere(cmd)
			if err != nil {
				return err
			}
			c.agents, batch = append(c.agents, a), append(batch, a)
		}
		for _, a := range batch {
			if err := a.Until(a.Stderr, "agent is ready"); err != nil {
				return err
			}
		}
	}
	return nil
}

// timed runs true on the first n hosts: its wall time in ms.
func (c *crowd) timed(ctx context.Context, bin string, n int) (float64, error) {
	list := make([]string, n)
	for i := range list {
		list[i] = c.address(i) + ":1"
	}
	file := filepath.Join(c.b.dir, "hosts")
	if err := os.WriteFile(file, []byte(strings.Join(list, "\n")+"\n"), 0o644); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	argv := []string{bin, "run", "--key", c.key, "--hostfile", file, "-n", strconv.Itoa(n), "/bin/true"}
	if c.b.within != "" { // a cgroup
		argv = append([]string{"sh", "-c", `echo $$ > "$0/cgroup.procs" && exec "$@"`, c.b.within}, argv...)
	}
	// Agents give back memory 2 s after a session, which takes some 20 ms each; and nothing else is to be in the way.
	select {
	case <-time.After(3*time.Second + time.Duration(n)*20*time.Millisecond):
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	var errs bytes.Buffer
	cmd.Env, cmd.Stdout, cmd.Stderr = environ(time.Now()), io.Discard, &errs
	start := time.Now()
	err := cmd.Run()
	took := ms(time.Since(start))
	fmt.Fprintf(os.Stderr, "%d hosts, %s: %.0f ms, launcher %v user %v system; %v\n", n, filepath.Base(bin), took, cmd.ProcessState.UserTime(), cmd.ProcessState.SystemTime(), err)
	if err != nil {
		return 0, fmt.Errorf("%d hosts, %s, after %.0f ms: %w: %.2000s", n, bin, took, err, errs.Bytes())
	}
	return took, nil
}
