package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/mpiup/mpiup/agent/reap"
)

// sshdLine is what a command line of sshd said, as far as it means something here.
type sshdLine struct {
	foreground bool // -D or -d
	test       bool // -t, -T, -C: look at the configuration and end
	version    bool // -V
}

// parseSSHD reads sshd's words (sshd(8) of OpenSSH 9.x). Its configuration is of no use to an
// agent, so files, ports and settings are read past.
func parseSSHD(args []string) (l sshdLine, err error) {
	const plain, valued = "46DdeGiqrTtV", "CEbcfghkopRu"
	for len(args) > 0 {
		word := args[0]
		args = args[1:]
		if len(word) < 2 || word[0] != '-' {
			return l, fmt.Errorf("%q is not a flag of sshd", word)
		}
		for i := 1; i < len(word); i++ {
			switch c := word[i]; {
			case strings.IndexByte(valued, c) >= 0:
				if i == len(word)-1 {
					if len(args) == 0 {
						return l, fmt.Errorf("-%c needs a value", c)
					}
					args = args[1:]
				}
				i = len(word)
			case c == 'i':
				return l, errors.New("-i serves one connection for inetd, which agents do not do: start sshd -D in its place")
			case strings.IndexByte(plain, c) < 0:
				return l, fmt.Errorf("unknown flag -%c", c)
			default:
				l.foreground = l.foreground || c == 'D' || c == 'd'
				l.test = l.test || c == 't' || c == 'T' || c == 'G'
				l.version = l.version || c == 'V'
			}
		}
	}
	return l, nil
}

// sshdApplet is sshd: the agent. Like sshd it goes to the background unless told otherwise, and
// returns when it can be reached.
func sshdApplet(p *process, args []string) int {
	l, err := parseSSHD(args)
	switch {
	case err != nil:
		fmt.Fprintf(p.stderr, "sshd (mpiup): %v\n", err)
		return 1
	case l.version:
		fmt.Fprintf(p.stderr, "OpenSSH_9.2p1 (mpiup %s), TLS 1.3\n", version)
		return 0
	case l.test:
		return 0
	}
	ready, env := reap.Ready(p.env)
	p.env = env
	if l.foreground || ready != nil {
		if ready != nil {
			p.ready = func() {
				if err := reap.Detach(); err != nil {
					fmt.Fprintln(p.stderr, "sshd (mpiup): its output stays where it was:", err)
				}
				ready()
			}
		}
		return p.command("agent")
	}
	code, err := reap.Background(append([]string{"sshd"}, args...), p.env)
	if err != nil {
		fmt.Fprintln(p.stderr, "sshd (mpiup):", err)
		return 1
	}
	return code
}
