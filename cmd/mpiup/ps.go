package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/mpiup/mpiup/launcher/peers"
	"github.com/mpiup/mpiup/launcher/reach"
)

// psWatch is the time between two looks of mpiup ps --watch.
const psWatch = 2 * time.Second

func psCommand(p *process) *cobra.Command {
	var (
		q           query
		json, watch bool
	)
	c := &cobra.Command{
		Use:   "ps",
		Short: "Show what each rank does: state, CPU, memory, last output, MPI, where it waits",
		Long: `Show what the ranks of all jobs on the hosts do, a line each: host, process, program, state, CPU in percent of one
processor, resident memory, how long ago it last wrote, how far its MPI library has come (never: it has not called MPI_Init;
in a fence: it waits for other ranks in MPI_Init, MPI_Finalize or another exchange), and the system call or kernel function
in which it waits. A rank counts with all processes that descend from it. mpiup help hangs says what to make of it.`,
		Example: `  mpiup ps
  mpiup ps --host w0,w1 --watch
  mpiup ps --json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return q.reach(p, c, func(r reach.Reach) error {
				cfg := peers.PsConfig{Reach: r, JSON: json, Nearby: nearbyDir(p.getenv)}
				if watch {
					cfg.Watch = psWatch
				}
				ctx, cancel := untilSignal()
				defer cancel()
				p.code = peers.Ps(ctx, cfg)
				return nil
			})
		},
	}
	fs := c.Flags()
	q.register(fs)
	fs.BoolVar(&json, "json", false, "print JSON")
	fs.BoolVar(&watch, "watch", false, "look again every two seconds, until it is interrupted; a terminal shows the CPU of the last minute beside each rank")
	return c
}
