package main

import (
	"github.com/spf13/cobra"
)

// applet is a program that mpiup stands in for when it is called by its name: a link, or a copy
// in the other's place.
type applet struct {
	run            func(p *process, args []string) int // its code is the other's for that case
	short, example string                              // of the subcommand of its name; "": there is none
	help           bool                                // it has no --help of its own
}

// applets by the base name of argv[0].
func applets() map[string]applet {
	mpirun := func(name, short, example string) applet {
		return applet{run: launcherApplet(name, func(p *process, args []string) error { return p.mpirun(name, args) }), short: short, example: example}
	}
	return map[string]applet{
		"ssh": {sshApplet, "Stand in for ssh: a command or shell on one host, through its agent", `  mpiup ssh w0 hostname
  mpiup ssh w0                             a shell there
  ln -s /usr/local/bin/mpiup /usr/bin/ssh  and ssh is mpiup`, true},
		"sshd": {sshdApplet, "Stand in for sshd: the agent", `  mpiup sshd -De                           as a pod's command: sshd's flags, and an agent
  ln -s /usr/local/bin/mpiup /usr/sbin/sshd`, true},
		"ssh-keygen": {sshKeygenApplet, "Stand in for ssh-keygen: make keys, for scripts that set up ssh", `  mpiup ssh-keygen -t ed25519 -N '' -f key
  mpiup ssh-keygen -A                      host keys, which agents have no use for`, true},
		"kubectl-mpiup": {run: kubectlApplet},

		"mpirun": mpirun("mpirun", "Stand in for Open MPI's mpirun and for Hydra's mpiexec: run a job", `  mpiup mpirun -np 4 ./a.out
  mpiup mpirun --help                      lists the options`),
		"mpiexec": mpirun("mpiexec", "Stand in for mpiexec, as mpirun does", `  mpiup mpiexec -n 4 ./a.out
  mpiup mpiexec --help                     lists the options`),
		"mpiexec.hydra":   mpirun("mpiexec.hydra", "", ""),
		"mpiexec.mpich":   mpirun("mpiexec.mpich", "", ""),
		"mpirun.mpich":    mpirun("mpirun.mpich", "", ""),
		"mpirun.openmpi":  mpirun("mpirun.openmpi", "", ""),
		"mpiexec.openmpi": mpirun("mpiexec.openmpi", "", ""),
		"orterun":         mpirun("orterun", "", ""),
		"prterun":         mpirun("prterun", "", ""),
		"horovodrun": {launcherApplet("horovodrun", asHorovodrun), "Stand in for Horovod's launcher: run a job", `  mpiup horovodrun -np 4 -H w0:2,w1:2 python train.py
  mpiup horovodrun --help                  lists the options`, false},
		"torchrun": {launcherApplet("torchrun", asTorchrun), "Stand in for PyTorch's launcher: run a job, or this pod's part of it", `  mpiup torchrun --nnodes 2 --nproc-per-node 4 train.py
  mpiup torchrun --help                    lists the options`, false},
	}
}

// appletCommands are applets as subcommands, "mpiup ssh HOST CMD", for where no link can be made.
func appletCommands(p *process) (list []*cobra.Command) {
	for name, a := range applets() {
		if a.short == "" {
			continue
		}
		list = append(list, &cobra.Command{
			Use: name + " [arguments of " + name + "]", Short: a.short, Example: a.example,
			DisableFlagParsing: true, DisableFlagsInUseLine: true,
			RunE: func(c *cobra.Command, args []string) error {
				if a.help && len(args) == 1 && args[0] == "--help" {
					return c.Help()
				}
				p.code = a.run(p, args)
				return nil
			},
		})
	}
	return list
}
