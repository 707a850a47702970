package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/mpiup/mpiup/launcher/peers"
	"github.com/mpiup/mpiup/launcher/reach"
)

func peersCommand(p *process) *cobra.Command {
	var (
		q              = query{near: true}
		json, discover bool
	)
	c := &cobra.Command{
		Use:   "peers",
		Short: "Show who is there and what runs: hosts, addresses, slots, versions, round-trip times",
		Long: `Show who is there: every host that is named, and every agent that the first of them to
answer knows by gossip, what launchers run there since when, how many slots that takes, with the scope and key by which all are known to each other.`,
		Example: `  mpiup peers
  mpiup peers --host w0,w1 --key key --json
  mpiup peers --discover                  for the elastic driver of Horovod's own horovodrun`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return q.reach(p, c, func(r reach.Reach) error {
				p.code = peers.Peers(context.Background(), peers.Config{Reach: r, JSON: json, Discover: discover})
				return nil
			})
		},
	}
	q.register(c.Flags())
	c.Flags().BoolVar(&json, "json", false, "print JSON")
	c.Flags().BoolVar(&discover, "discover", false, "print HOST:SLOTS of each host that is there, and nothing else, as a host discovery script does")
	return c
}
