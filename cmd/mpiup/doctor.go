package main

import (
	"context"
	"fmt"

	"github.com/mpiup/mpiup/launcher"
	"github.com/mpiup/mpiup/launcher/cli"
	"github.com/spf13/cobra"
)

func doctorCommand(p *process) *cobra.Command {
	var (
		hosts                 cli.HostFlags
		measure, strict, json bool
		perHost, verbose      int
		iface, ports          string
	)
	c := &cobra.Command{
		Use:   "doctor [flags] [-- program [args]]",
		Short: "Look at all hosts before a job: memory, limits, devices, and whether each reaches each",
		Long: `Look at all hosts before a job: shared and locked memory, limits, slots against CPUs, RDMA and GPUs, clocks,
and whether MPI, mpiup, drivers and devices are the same everywhere. Then each host connects to each other on a port
that MPI may use, with small packets and large ones. With --net it measures every way, one pair of a host at a time.

Each line is ok, a warning (ranks will be slow, or fail in some uses) or a failure (they will not work), with what to
do. The exit code is 1 when something failed, else 0, or that of a host that could not be reached. With a program its
MPI library is looked for, else the image's.`,
		Example: `  mpiup doctor
  mpiup doctor --net --mpi-ports 18000-18999
  mpiup doctor --host w0,w1 --key key --json -- ./train`,
		RunE: func(c *cobra.Command, args []string) error {
			if !c.Flags().Changed("wait") {
				hosts.Wait = execWait
			}
			cfg := launcher.DoctorConfig{Argv: args, Ranks: perHost, Measure: measure, Strict: strict, JSON: json}
			var err error
			if cfg.Net, cfg.MPIPorts, err = p.network(iface, ports); err != nil {
				return usage(err)
			}
			if perHost < 0 {
				return usage(fmt.Errorf("-N %d: ranks on every host are a number from 1", perHost))
			}
			reach, done, err := p.reach(&hosts, &cli.LeaseFlags{}, verbose)
			if err != nil {
				return err
			}
			defer done()
			cfg.Reach = reach
			p.code = launcher.Doctor(context.Background(), cfg)
			return nil
		},
	}
	fs := c.Flags()
	fs.SetInterspersed(false)
	hosts.Register(fs)
	fs.IntVarP(&perHost, "ppn", "N", 0, "as many ranks as are to run on every host (default: its slots)")
	fs.BoolVar(&measure, "net", false, "measure round trip and bandwidth of every way between two hosts")
	fs.StringVar(&iface, "interface", "", "`IFACE` or network for MPI's traffic, as mpiup run --net (default: $MPIUP_NET)")
	fs.StringVar(&ports, "mpi-ports", "", "`A-B`, the TCP ports that MPI may listen on (default: $MPIUP_MPI_PORTS, else any)")
	fs.BoolVar(&strict, "strict", false, "exit with 1 after a warning, too")
	fs.BoolVar(&json, "json", false, "print JSON")
	fs.CountVarP(&verbose, "verbose", "v", "say more of what mpiup does; twice for debugging")
	return c
}
