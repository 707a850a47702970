package main

import (
	"fmt"

	"github.com/mpiup/mpiup/launcher/cli"
	"github.com/mpiup/mpiup/launcher/cli/ssh"
)

// sshKeygenApplet is ssh-keygen as far as scripts that set up MPI use it: it makes keys and shows them. As with OpenSSH's the code is 1
// where something fails.
func sshKeygenApplet(p *process, args []string) int {
	k, err := ssh.ParseKeygen(args)
	switch {
	case err != nil:
	case k.Forget != "" && !k.All:
		tell(p.stderr, "ssh-keygen (mpiup):", fmt.Sprintf("-R %.100s: nothing is changed: mpiup's ssh knows hosts by the "+
			"job's secret and reads no known_hosts", k.Forget))
	default:
		err = cli.MakeKey(k, cli.KeygenIO{Stdin: p.stdin, Stdout: p.stdout, User: p.getenv("USER"), Host: p.host})
	}
	if err != nil {
		tell(p.stderr, "ssh-keygen (mpiup):", err)
		return 1
	}
	return 0
}
