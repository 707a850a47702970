package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	testlab "github.com/mpiup/mpiup/test/lab"
	"github.com/mpiup/mpiup/test/netns"
)

// lab is a cluster with an agent on every worker.
type lab struct {
	b       *bench
	cluster *netns.Cluster
	agents  []*netns.Cmd
	self    string                  // this program, which is the flood
	sshHost func(host string) error // starts its sshd; nil: hosts have none
}

func newLab(ctx context.Context, b *bench, n int) (*lab, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	var names []string
	for i := range n {
		names = append(names, "w"+strconv.Itoa(i))
	}
	share := []string{b.dir, filepath.Dir(b.mpiup), filepath.Dir(self), b.scripts, b.examples}
	if b.horovod != "" {
		share = append(share, filepath.Dir(filepath.Dir(b.horovod)))
	}
	if b.torch != "" {
		share = append(share, filepath.Dir(filepath.Dir(b.torch)))
	}
	for _, program := range []string{b.hello, b.watched} {
		if program != "" {
			share = append(share, filepath.Dir(program))
		}
	}
	c, err := netns.Up(ctx, netns.Config{Hosts: names, Share: share})
	if err != nil {
		return nil, err
	}
	l := &lab{b: b, cluster: c, self: self}
	if err := l.startAgents(ctx); err != nil {
		return nil, errors.Join(err, l.close())
	}
	return l, nil
}

func (l *lab) startAgents(ctx context.Context) error {
	key := filepath.Join(l.b.dir, "key")
	if _, err := os.Stat(key); err != nil {
		if err := testlab.Keygen(l.b.mpiup, key, 0o600); err != nil {
			return err
		}
	}
	for _, name := range l.cluster.Workers() {
		a := l.cluster.Command(ctx, name, l.b.mpiup, "agent", "--key", key)
		if err := a.Start(); err != nil {
			return err
		}
		l.agents = append(l.agents, a)
	}
	// All are there when a job over all of them has run.
	_, _, err := l.timed(ctx, len(l.agents), 1, "true")
	return err
}

func (l *lab) close() error {
	for _, a := range l.agents {
		_ = a.Process.Signal(syscall.SIGTERM)
	}
	for _, a := range l.agents {
		_ = a.Wait() // how an agent ends is not what is measured
	}
	return l.cluster.Close()
}

// job prepares mpiup run over the first hosts, ppn ranks each.
func (l *lab) job(ctx context.Context, hosts, ppn int, argv ...string) *netns.Cmd {
	list := make([]string, hosts)
	for i, name := range l.cluster.Workers()[:hosts] {
		list[i] = name + ":" + strconv.Itoa(ppn)
	}
	return l.jobOn(ctx, strings.Join(list, ","), strconv.Itoa(hosts*ppn), argv...)
}

// jobOn prepares mpiup run over a list of hosts with their slots.
func (l *lab) jobOn(ctx context.Context, hosts, ranks string, argv ...string) *netns.Cmd {
	args := []string{l.b.mpiup, "run", "--key", filepath.Join(l.b.dir, "key"), "-x", "T0", "--host", hosts, "-n", ranks}
	return l.cluster.Command(ctx, netns.Launcher, append(args, argv...)...)
}

// timed runs a job to its end: its wall time in ms, and its output.
func (l *lab) timed(ctx context.Context, hosts, ppn int, argv ...string) (float64, string, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	cmd := l.job(ctx, hosts, ppn, argv...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	start := time.Now()
	cmd.Env = append(environ(start), telemetry(argv)...)
	if err := cmd.Run(); err != nil {
		return 0, "", fmt.Errorf("%dx%d %s: %w: %s", hosts, ppn, argv[0], err, errs.Bytes())
	}
	return ms(time.Since(start)), out.String(), nil
}

func environ(start time.Time) []string {
	return []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root",
		"T0=" + strconv.FormatInt(start.UnixNano(), 10)}
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// untilRanks waits until n processes on the workers run argv, and returns their pids.
func (l *lab) untilRanks(ctx context.Context, n int, argv string) ([]int, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		var pids []int
		for _, name := range l.cluster.Workers() {
			ps, err := l.cluster.Processes(name)
			if err != nil {
				return nil, err
			}
			for _, p := range ps {
				if p.Argv == argv {
					pids = append(pids, p.Pid)
				}
			}
		}
		if len(pids) == n {
			return pids, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("%d of %d ranks run %q after a minute", len(pids), n, argv)
		}
	}
}
