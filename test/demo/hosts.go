package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/mpiup/mpiup/test/netns"
)

// hosts are some hosts with an agent each: network namespaces when we are root, else
// loopback addresses of this machine.
type hosts struct {
	cluster *netns.Cluster // nil: loopback
	count   int
	agents  []*command
	logs    []*bytes.Buffer
}

// command is an exec.Cmd that may start in another place.
type command struct {
	*exec.Cmd
	Run, Start, Wait func() error
}

func newHosts(ctx context.Context, d *demo, names ...string) (*hosts, error) {
	h := &hosts{count: len(names)}
	if os.Geteuid() == 0 {
		var err error
		h.cluster, err = netns.Up(ctx, netns.Config{Hosts: names, Share: []string{d.dir, filepath.Dir(d.mpiup)}})
		if err != nil {
			return nil, err
		}
		fmt.Println("(hosts are network namespaces of this machine, each with a name, an address and processes of its own)")
	} else {
		fmt.Println("(not root: hosts are loopback addresses of this machine)")
	}
	for _, name := range h.names() {
		argv := []string{d.mpiup, "agent", "--key", d.key, "--http", "off"}
		if h.cluster == nil {
			argv = append(argv, "--name", name, "--listen", name)
			show("", "mpiup agent --key key --listen "+name)
		} else {
			show(name, "mpiup agent --key key        # at "+h.cluster.Addr(name).String())
		}
		log := new(bytes.Buffer)
		agent := h.on(ctx, name, argv...)
		agent.Stdout, agent.Stderr, agent.Env = log, log, d.env
		agent.Cancel = func() error { return agent.Process.Signal(syscall.SIGTERM) }
		if err := agent.Start(); err != nil {
			return nil, errors.Join(fmt.Errorf("agent on %s: %w", name, err), h.close())
		}
		h.agents, h.logs = append(h.agents, agent), append(h.logs, log)
	}
	return h, nil
}

// on prepares a command on a host.
func (h *hosts) on(ctx context.Context, name string, argv ...string) *command {
	if h.cluster == nil {
		c := exec.CommandContext(ctx, argv[0], argv[1:]...)
		return &command{Cmd: c, Run: c.Run, Start: c.Start, Wait: c.Wait}
	}
	c := h.cluster.Command(ctx, name, argv...)
	return &command{Cmd: c.Cmd, Run: c.Run, Start: c.Start, Wait: c.Wait}
}

func (h *hosts) onLauncher(ctx context.Context, argv ...string) *command {
	return h.on(ctx, netns.Launcher, argv...)
}

func (h *hosts) names() []string {
	if h.cluster == nil {
		var list []string
		for i := range h.count {
			list = append(list, fmt.Sprint("127.0.0.", 2+i))
		}
		return list
	}
	return h.cluster.Workers()
}

// launcher is the prompt of the host that jobs start from.
func (h *hosts) launcher() string {
	if h.cluster == nil {
		return ""
	}
	return netns.Launcher
}

// explain adds what the agents said, which ends them.
func (h *hosts) explain(err error) error {
	h.stopAgents()
	for i, log := range h.logs {
		err = fmt.Errorf("%w\n-- the agent on %s said:\n%s", err, h.names()[i], log)
	}
	return err
}

func (h *hosts) stopAgents() {
	for _, a := range h.agents {
		_ = a.Process.Signal(syscall.SIGTERM)
	}
	for _, a := range h.agents {
		_ = a.Wait() // an agent's end is no part of the demo
	}
	h.agents = nil
}

func (h *hosts) close() error {
	h.stopAgents()
	if h.cluster == nil {
		return nil
	}
	return h.cluster.Close()
}
