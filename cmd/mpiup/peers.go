package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/mpiup/mpiup/launcher/cli"
	"github.com/mpiup/mpiup/launcher/peers"
)

func peersCommand(p *process) *cobra.Command {
	var (
		hosts   cli.HostFlags
		json    bool
		verbose int
	)
	c := &cobra.Command{
		Use:   "peers",
		Short: "Show who is there and what runs: hosts, addresses, slots, versions, round-trip times",
		Long: `Show who is there: every host that is named, and every agent that the first of them to
answer knows by gossip, what launchers run there since when, how many slots that takes, with the scope and key by which all are known to each other.`,
		Example: `  mpiup peers
  mpiup peers --host w0,w1 --key key --json`,
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
			p.code = peers.Peers(context.Background(), peers.Config{Reach: reach, JSON: json})
			return nil
		},
	}
	fs := c.Flags()
	hosts.Register(fs)
	fs.BoolVar(&json, "json", false, "print JSON")
	fs.CountVarP(&verbose, "verbose", "v", "say more of what mpiup does; twice for debugging")
	return c
}
