package main

import (
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
)

// applet is a program that mpiup stands in for when it is called by its name: a link, or a copy
// in the other's place. The code it ends with is the other's for that case.
type applet func(p *process, args []string) int

// applets by the base name of argv[0].
func applets() map[string]applet {
	return map[string]applet{
		"ssh":        sshApplet,
		"sshd":       sshdApplet,
		"kubexec.sh": kubexecApplet,

		"mpirun":        mpirunApplet("mpirun"),
		"mpiexec":       mpirunApplet("mpiexec"),
		"mpiexec.hydra": mpirunApplet("mpiexec.hydra"),
		"orterun":       mpirunApplet("orterun"),
		"prterun":       mpirunApplet("prterun"),
	}
}

// appletCommands are the applets as subcommands, "mpiup ssh HOST CMD", for where no link can be made.
func appletCommands(p *process) (list []*cobra.Command) {
	for _, a := range []struct {
		name, short string
		applet
	}{
		{"ssh", "Stand in for ssh: a command or shell on one host, through its agent", sshApplet},
		{"sshd", "Stand in for sshd: the agent", sshdApplet},
		{"mpirun", "Stand in for Open MPI's mpirun and for Hydra's mpiexec: run a job", mpirunApplet("mpirun")},
		{"mpiexec", "The same", mpirunApplet("mpiexec")},
	} {
		list = append(list, &cobra.Command{
			Use: a.name + " [arguments of " + a.name + "]", Short: a.short,
			DisableFlagParsing: true,
			RunE: func(_ *cobra.Command, args []string) error {
				p.code = a.applet(p, args)
				return nil
			},
		})
	}
	return list
}

// appletOf finds the applet that argv[0] names. A login shell's leading hyphen does not count.
func appletOf(argv0 string) (applet, bool) {
	a, ok := applets()[strings.TrimPrefix(filepath.Base(argv0), "-")]
	return a, ok
}
