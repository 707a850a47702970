package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"strings"
	"time"

	"github.com/mpiup/mpiup/agent/reap"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/launcher"
	"github.com/mpiup/mpiup/launcher/cli"
	"github.com/mpiup/mpiup/launcher/cli/ssh"
	"github.com/mpiup/mpiup/launcher/reach"
	"github.com/mpiup/mpiup/launcher/streams"
)

const (
	// sshFailed is ssh's exit code for everything that is not the command's own.
	sshFailed = 255
	// sshWait is about as long as Linux tries a TCP connection to a host that is silent, which is
	// what ssh does without ConnectTimeout; a pod whose name is not there yet is waited for alike.
	sshWait = 2 * time.Minute
	// sshStrange is for a host that the job does not list: there ssh gives up at once when it finds no
	// name, but a host of a list that grows may be a moment early.
	sshStrange = 10 * time.Second
)

// sshApplet is ssh: a command, or a shell, on one host through its agent.
func sshApplet(p *process, args []string) int {
	line, err := ssh.Parse(args)
	if err != nil {
		return sshError(p, err)
	}
	if line.Version { // scripts look for the first word, on standard error as ssh has it
		visible.Fprintf(p.stderr, "OpenSSH_9.2p1 (mpiup %s), TLS 1.3\n", version)
		return 0
	}
	return runSSH(p, line, args)
}

// sshError tells of an error, and is the code to end with.
func sshError(p *process, err error) int {
	tell(p.stderr, "ssh (mpiup):", err)
	return sshFailed
}

func runSSH(p *process, line ssh.Line, args []string) int {
	ready, env := reap.Ready(p.env)
	p.env = env
	if line.Background && ready == nil {
		code, err := reap.Background(append([]string{"ssh"}, args...), p.env)
		if err != nil {
			return sshError(p, err)
		}
		return code
	}
	if line.Verbose > 0 {
		for _, o := range line.Without {
			tell(p.stderr, "ssh (mpiup):", o, "has no effect:", ssh.Why(o))
		}
	}
	hosts, lease := cli.HostFlags{Wait: sshWait}, cli.DefaultLease()
	if line.Timeout > 0 {
		hosts.Wait = line.Timeout
	}
	p.keys = clientKeys(p, line)
	reach, done, err := p.reach(&hosts, &lease, line.Verbose)
	if err != nil {
		return sshError(p, errors.Unwrap(err))
	}
	defer done()
	cfg, end, err := sshConfig(p, line, reach)
	if err != nil {
		return sshError(p, err)
	}
	defer end()
	cfg.Started = ready
	signals, stop := p.passedOn()
	defer stop()
	cfg.Signals = signals
	return launcher.Exec(context.Background(), cfg)
}

// holding runs until its standard input ends, with nothing but what every shell has built in.
const holding = "while read -r _; do :; done"

// sshConfig is the exec that a command line of ssh asks for. end lets go of what it holds.
func sshConfig(p *process, line ssh.Line, to reach.Reach) (cfg launcher.ExecConfig, end func(), err error) {
	end = func() {}
	to.Embedded, to.WaitBy, to.Insist = nil, "-o ConnectTimeout", true
	to.TerminationLog = "" // the launcher that calls ssh says what became of the job
	cfg = launcher.ExecConfig{
		Reach: to, Host: line.Host, Strange: cmp.Or(line.Timeout, sshStrange), Shell: true, Keep: true, Failed: sshFailed, Quiet: line.Quiet,
		App:   job.App{Argv: []string{line.Command}, Env: sent(p, line)},
		Stdin: p.stdin, Term: p.getenv("TERM"),
	}
	terminal := streams.IsTerminal(p.stdin)
	switch {
	case line.Nothing:
		r, w, err := os.Pipe()
		if err != nil {
			return cfg, end, err
		}
		cfg.App.Argv[0], cfg.Stdin = holding, r
		return cfg, func() { w.Close(); r.Close() }, nil
	case line.NoStdin:
		cfg.Stdin = nil
	}
	switch line.TTY {
	case ssh.TTYAuto:
		cfg.TTY = line.Command == "" && terminal && !line.NoStdin
	case ssh.TTYAsked:
		cfg.TTY = terminal && !line.NoStdin
		if !cfg.TTY && !line.Quiet {
			fmt.Fprintln(p.stderr, "Pseudo-terminal will not be allocated because stdin is not a terminal.")
		}
	case ssh.TTYForce:
		cfg.TTY, cfg.Force = true, true
	}
	return cfg, end, nil
}

// sent is the environment that the line gives the command.
func sent(p *process, line ssh.Line) []string {
	env := line.SetEnv
	for _, kv := range p.env {
		name, _, _ := strings.Cut(kv, "=")
		for _, pattern := range line.SendEnv {
			if ok, err := path.Match(pattern, name); ok && err == nil {
				env = append(env, kv)
				break
			}
		}
	}
	return env
}
