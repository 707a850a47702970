package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/mpiup/mpiup/agent/reap"
	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/launcher/cli/ssh"
)

// sshdLine is what a command line of sshd said, as far as it means something here.
type sshdLine struct {
	foreground bool // -D or -d
	test       bool // -t, -T, -C: look at the configuration and end
	version    bool // -V

	config string     // -f
	server ssh.Server // -p, -h and -o
}

// parseSSHD reads sshd's words (sshd(8) of OpenSSH 9.x). Of its configuration ports are of use to an agent, and the
// keys of AuthorizedKeysFile where the pod mounts none; other files and settings are read past.
func parseSSHD(args []string) (l sshdLine, err error) {
	const plain, valued = "46DdeGiqrTtV", "CEbcfghkopRu"
	rest, err := ssh.Letters(args, valued, func(c byte, value string) error {
		switch {
		case strings.IndexByte(valued, c) >= 0:
			l.value(c, value)
		case c == 'i':
			return errors.New("-i serves one connection for inetd, which agents do not do: start sshd -D in its place")
		case strings.IndexByte(plain, c) < 0:
			return fmt.Errorf("unknown flag -%c", c)
		}
		l.foreground = l.foreground || c == 'D' || c == 'd'
		l.test = l.test || c == 't' || c == 'T' || c == 'G'
		l.version = l.version || c == 'V'
		return nil
	})
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("%q is not a flag of sshd", rest[0])
	}
	return l, err
}

// value takes a flag's value. What is no port is sshd's to complain about.
func (l *sshdLine) value(flag byte, value string) {
	switch flag {
	case 'f':
		l.config = value
	case 'o':
		l.server.Read(value)
	case 'h':
		l.server.HostKeys = append(l.server.HostKeys, value)
	case 'p':
		l.server.Read("Port " + value)
	}
}

// sshdApplet is sshd: the agent. Like sshd it goes to the background unless told otherwise, and
// returns when it can be reached.
func sshdApplet(p *process, args []string) int {
	l, err := parseSSHD(args)
	switch {
	case err != nil:
		tell(p.stderr, "sshd (mpiup):", err)
		return 1
	case l.version:
		visible.Fprintf(p.stderr, "OpenSSH_9.2p1 (mpiup %s), TLS 1.3\n", version)
		return 0
	case l.test:
		return 0
	}
	ready, env := reap.Ready(p.env)
	p.env = env
	p.keys = serverKeys(p, l)
	if l.foreground || ready != nil {
		var at *doors
		p.ready = func() {
			ports, asked := sshPorts(l, "")
			if at, err = openDoors(ports); err != nil && asked {
				tell(p.stderr, "sshd (mpiup):", err)
			}
			if ready == nil {
				return
			}
			if err := reap.Detach(); err != nil {
				tell(p.stderr, "sshd (mpiup): its output stays where it was:", err)
			}
			ready()
		}
		code := p.command("agent")
		at.close()
		return code
	}
	code, err := reap.Background(append([]string{"sshd"}, args...), p.env)
	if err != nil {
		tell(p.stderr, "sshd (mpiup):", err)
		return 1
	}
	return code
}
