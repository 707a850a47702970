package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	testlab "github.com/mpiup/mpiup/test/lab"
	"github.com/mpiup/mpiup/test/netns"
)

//go:embed enter.sh
var enter string

// lab is two hosts with an agent each and the host that runs start from, all in the stack's
// tree of files.
type lab struct {
	m       *matrix
	stack   stack
	tree    string // root of the stack's files, "" for this machine's
	cluster *netns.Cluster
	agents  []*agent
}

// agent is an agent that was started, and what it said.
type agent struct {
	host string
	cmd  *netns.Cmd
	log  *testlab.Text
}

var workers = []string{"w0", "w1"}

func newLab(ctx context.Context, m *matrix, s stack) (*lab, error) {
	l := &lab{m: m, stack: s}
	share := []string{m.dir, m.wheels()}
	if s.tree != "" {
		l.tree = filepath.Join(m.cache, s.tree)
		share = append(share, l.tree)
	}
	var err error
	if l.cluster, err = netns.Up(ctx, netns.Config{Hosts: workers, Share: share}); err != nil {
		return nil, err
	}
	if err := l.start(ctx); err != nil {
		return nil, errors.Join(err, l.close())
	}
	return l, nil
}

func (l *lab) start(ctx context.Context) error {
	if l.tree != "" { // once for all commands on the launcher's host
		if out, err := l.cluster.Command(ctx, netns.Launcher, l.into()...).CombinedOutput(); err != nil {
			return fmt.Errorf("enter %s: %w: %s", l.tree, err, out)
		}
	}
	for _, host := range workers {
		argv := []string{l.m.bin, "agent", "--key", l.m.key, "--http", "off"}
		if l.tree != "" {
			argv = append(l.into(), argv...)
		}
		a := &agent{host: host, cmd: l.cluster.RunInit(ctx, host, argv...), log: new(testlab.Text)}
		a.cmd.Stdout, a.cmd.Stderr = a.log, a.log
		if err := a.cmd.Start(); err != nil {
			return fmt.Errorf("agent on %s: %w", host, err)
		}
		l.agents = append(l.agents, a)
	}
	return nil
}

// into is the command that makes the tree a host's; more arguments are then run in it.
func (l *lab) into() []string {
	return []string{"/bin/sh", "-c", enter, "enter.sh", l.tree, l.m.dir, l.m.wheels()}
}

// wheels is where prepare.sh has put what PyPI has.
func (m *matrix) wheels() string { return filepath.Join(m.cache, "matrix") }

// mpi4py returns an error when the hosts' Python has another mpi4py than the stack is said to have. A tree's own may
// be built for another library, and programs would run with that too.
func (l *lab) mpi4py(ctx context.Context) error {
	python := l.stack.interpreter(l.m.cache)
	if python == "" {
		return nil
	}
	cmd := l.command(ctx, python, "-c", "import mpi4py; print(mpi4py.__version__)")
	cmd.Env = append([]string{"PATH=/usr/bin:/bin"}, l.stack.environ(l.m)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", cmd, err, out)
	}
	if got, want := strings.TrimSpace(string(out)), l.stack.suiteVersion(); got != want {
		return fmt.Errorf("%s has mpi4py %s, not %s", python, got, want)
	}
	return nil
}

// command prepares argv in the stack's files on the host that runs start from.
func (l *lab) command(ctx context.Context, argv ...string) *netns.Cmd {
	if l.tree != "" {
		argv = append([]string{"chroot", l.tree}, argv...)
	}
	return l.cluster.Command(ctx, netns.Launcher, argv...)
}

// left are processes on the hosts that a run left behind although it has ended, given a few
// seconds to go.
func (l *lab) left(ctx context.Context) []string {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(10 * time.Second); ; {
		var found []string
		for _, host := range append([]string{netns.Launcher}, workers...) {
			ps, err := l.cluster.Processes(host)
			if err != nil {
				return []string{err.Error()}
			}
			for _, p := range ps {
				found = append(found, host+": "+p.Argv)
			}
		}
		if len(found) == 0 || time.Now().After(end) {
			return found
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// said is what the agents wrote so far.
func (l *lab) said() string {
	var text string
	for _, a := range l.agents {
		text += "-- the agent on " + a.host + ":\n" + a.log.String()
	}
	return text
}

// close ends the agents and removes the hosts.
func (l *lab) close() error {
	for _, a := range l.agents {
		_ = a.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	}
	for _, a := range l.agents {
		kill := time.AfterFunc(20*time.Second, func() { _ = a.cmd.Process.Kill() })
		_ = a.cmd.Wait() // how an agent ends is not what the cell is about
		kill.Stop()
	}
	return l.cluster.Close()
}

// renew replaces the hosts and agents by new ones.
func (l *lab) renew(ctx context.Context) error {
	l.warn(l.close)
	next, err := newLab(ctx, l.m, l.stack)
	if err != nil {
		return err
	}
	*l = *next
	return nil
}

// warn tells of what went wrong where it says nothing about a cell.
func (l *lab) warn(f func() error) {
	if err := f(); err != nil {
		fmt.Fprintf(l.m.out, "%s: %v\n", l.stack.name, err)
	}
}

// makeKey makes the secret of all runs, once.
func (m *matrix) makeKey() error {
	if _, err := os.Stat(m.key); err == nil {
		return nil
	}
	return testlab.Keygen(m.bin, m.key, 0o600)
}
