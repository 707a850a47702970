package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/mpiup/mpiup/launcher/peers"
	"github.com/mpiup/mpiup/launcher/reach"
)

func shutdownCommand(p *process) *cobra.Command {
	var q query
	c := &cobra.Command{
		Use:   "shutdown",
		Short: "End the job's agents with exit code 0",
		Long: `End the job's agents with exit code 0, so that worker pods succeed and their GPUs are free.
Ranks that still run are stopped first.`,
		Example: `  mpiup shutdown
  mpiup shutdown --host w0,w1 --key key`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return q.reach(p, c, func(r reach.Reach) error {
				p.code = peers.Shutdown(context.Background(), peers.ShutdownConfig{Reach: r})
				return nil
			})
		},
	}
	q.register(c.Flags())
	return c
}
