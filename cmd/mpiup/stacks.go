package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/launcher/cli"
	"github.com/mpiup/mpiup/launcher/peers"
	"github.com/mpiup/mpiup/launcher/reach"
)

// dumpSignals are those that mpiup stacks sends.
var dumpSignals = map[string]int{"": 0, "USR1": int(unix.SIGUSR1), "USR2": int(unix.SIGUSR2), "SIGUSR1": int(unix.SIGUSR1), "SIGUSR2": int(unix.SIGUSR2)}

func stacksCommand(p *process) *cobra.Command {
	var (
		q             = query{near: true}
		ranks, signal string
		picture       string
		json          bool
	)
	c := &cobra.Command{
		Use:   "stacks",
		Short: "Show where each rank is, grouped by stack, the odd one out first",
		Long: `Show where the ranks of all jobs on the hosts are: the stack of the main thread of the process that does the work. Ranks with the
same stack stand together, the smallest group first. By the best means that the hosts have, which stands with each group: eu-stack
or gdb, beside them py-spy for Python's lines; where none is there or may look into processes, where the kernel has the rank
wait. They stop each process for a moment. With --signal, programs that handle it are sent it and asked by that: Python after
faulthandler.register(signal.SIGUSR1). Programs that do not handle it are not sent it. mpiup help hangs has more.`,
		Example: `  mpiup stacks
  mpiup stacks --host w0,w1 --ranks 0-3,7
  mpiup stacks --signal USR1
  mpiup stacks --svg stacks.svg`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			number, known := dumpSignals[signal]
			if !known || c.Flags().Changed("signal") && signal == "" {
				return usage(fmt.Errorf("--signal: %q is neither USR1 nor USR2", signal))
			}
			if _, err := idset.Parse(ranks); err != nil || c.Flags().Changed("ranks") && ranks == "" {
				return usage(fmt.Errorf("--ranks: %q is no list of ranks; write for example 0-3,7", ranks))
			}
			return q.reach(p, c, func(r reach.Reach) error {
				p.code = peers.Stacks(context.Background(), peers.StacksConfig{Reach: r, Ranks: ranks, Signal: number, JSON: json, SVG: picture})
				return nil
			})
		},
	}
	fs := c.Flags()
	q.register(fs)
	fs.StringVar(&ranks, "ranks", "", "of each job only the ranks of `LIST` (0-3,7)")
	fs.StringVar(&signal, "signal", "", "send `USR1` or USR2 to programs that handle it by writing where they are")
	fs.BoolVar(&json, "json", false, "print JSON")
	cli.PictureVar(fs, &picture, "draw the stacks of all ranks as one flame graph in `FILE` (- for standard output)")
	return c
}
