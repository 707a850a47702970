package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/mpiup/mpiup/launcher/cli"
	"github.com/mpiup/mpiup/launcher/peers"
)

func shutdownCommand(p *process) *cobra.Command {
	var (
		hosts   cli.HostFlags
		verbose int
	)
	c := &cobra.Command{
		Use:   "shutdown",
		Short: "End the job's agents with exit code 0",
		Long: `End the job's agents with exit code 0, so that worker pods succeed and their GPUs are free.
Ranks that still run are stopped first.`,
		Example: `  mpiup shutdown
  mpiup shutdown --host w0,w1 --key key`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if !c.Flags().Changed("wait") {
				hosts.Wait = execWait
			}
			reach, done, err := p.reach(&hosts, &cli.LeaseFlags{}, verbose)
			if err != nil {
				return err
			}
			defer done()
			p.code = peers.Shutdown(context.Background(), peers.ShutdownConfig{Reach: reach})
			return nil
		},
	}
	fs := c.Flags()
	hosts.Register(fs)
	fs.CountVarP(&verbose, "verbose", "v", "say more of what mpiup does; twice for debugging")
	return c
}
