package main

import (
	"errors"
	"fmt"
	"path"

	"github.com/spf13/cobra"

	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/launcher/cli"
	"github.com/mpiup/mpiup/launcher/examine"
	"github.com/mpiup/mpiup/launcher/placement"
	"github.com/mpiup/mpiup/launcher/reach"
)

func doctorCommand(p *process) *cobra.Command {
	var (
		q                     query
		measure, strict, json bool
		local                 bool
		plan                  cli.PlanFlags
		iface, ports, picture string
		fabric                examine.FabricConfig
		trials                trialFlags
	)
	c := &cobra.Command{
		Use:   "doctor [flags] [-- program [args]]",
		Short: "Look at all hosts before a job: memory, limits, devices, and whether each reaches each",
		Long: `Look at all hosts before a job: shared and locked memory, limits, slots against CPUs, RDMA and GPUs, clocks,
and whether MPI, mpiup, drivers and devices are the same everywhere. Then each host connects to each other on a port
that MPI may use, with small packets and large ones. With --bandwidth it measures every way, one pair of a host at a time. With --fabric it runs
the benchmarks that the image has (ib_write_bw, osu_latency, osu_bw, osu_allreduce, all_reduce_perf) between each two
hosts and on all, and names what is 10 % worse than the median, or than a run that --baseline has kept.

Two trials start something on every host, as ranks are: --shared DIR tries whether all hosts see the same files there, whether locks hold, and
how fast it is; --check COMMAND runs a test of your own.

Each line is a failure (ranks will not work), a warning (they will be slow, or fail in some uses), unknown (??: it could not be read) or ok, with what to do;
what passed is counted, and -v lists it. The exit code is 1 when something failed, else 0, or that of a host that could not
be reached. Judged are the ranks that mpiup run would put on each host with the same hosts, -n and -N; mpiup run
--preflight --dry-run judges any other command line. With a program its MPI library is looked for, else the image's.`,
		Example: `  mpiup doctor
  mpiup doctor --hostfile hosts -n 16 -- ./train
  mpiup doctor --bandwidth --svg ways.svg
  mpiup doctor --bandwidth --mpi-ports 18000-18999
  mpiup doctor --fabric --baseline /shared/fabric.json
  mpiup doctor --shared /data --check 'nvidia-smi -L | grep -c H100'
  mpiup doctor --host w0,w1 --key key --json -- ./train`,
		RunE: func(c *cobra.Command, args []string) error {
			if local && (len(q.hosts.Hosts) > 0 || q.hosts.Hostfile != "" || q.hosts.Size > 0) {
				return usage(errors.New("--local is for this host alone; leave it out, or --host, --hostfile and --size"))
			}
			if len(args) > 0 && c.ArgsLenAtDash() < 0 {
				if _, err := lookPath(p, dirOrRoot())(args[0]); err != nil {
					return usage(fmt.Errorf("doctor: %w; hosts stand behind --host, as in --host w0,w1, and a program of theirs behind --", err))
				}
			}
			cfg := examine.Config{Argv: args, Ranks: plan.N, GPUsPerRank: plan.GPUsPerRank,
				Policy:  placement.Policy{PerNode: plan.PerNode, MapBy: placement.MapBy(plan.MapBy), Oversubscribe: plan.Oversubscribe},
				Measure: measure, Strict: strict, JSON: json, Picture: picture}
			var err error
			if cfg.Net, err = job.ParseNetwork(iface); err != nil {
				return usage(err)
			}
			if cfg.MPIPorts, err = job.ParsePorts(ports); err != nil {
				return usage(err)
			}
			if err := benchmarks(fabric); err != nil {
				return usage(err)
			}
			cfg.Fabric = fabric
			if err := p.read(ofNetwork(&cfg.Net, &cfg.MPIPorts, &cfg.Fabric.Use)...); err != nil {
				return usage(err)
			}
			if cfg.Trials, err = trials.config(c.Flags()); err != nil {
				return usage(err)
			}
			cfg.Env = going(sinceBegan(p.env))
			return q.reach(p, c, func(r reach.Reach) error {
				ctx, stop := untilTold()
				defer stop()
				cfg.Reach, cfg.Asks = r, false
				cfg.Local = local
				p.code = examine.Doctor(ctx, cfg)
				return nil
			})
		},
	}
	fs := c.Flags()
	fs.SetInterspersed(false)
	q.register(fs)
	plan.Register(fs)
	trials.register(fs)
	fs.BoolVar(&local, "local", false, "look at this host alone, whatever hosts the pod is told of")
	fs.BoolVar(&measure, "bandwidth", false, "measure round trip and bandwidth of every way between two hosts")
	fs.BoolVar(&measure, "net", false, "--bandwidth by its former name")
	cobra.CheckErr(fs.MarkHidden("net"))
	fs.StringVar(&iface, "interface", "", "`IFACE` or network for MPI's traffic, as mpiup run --net (default: $MPIUP_NET)")
	fs.StringVar(&ports, "mpi-ports", "", "`A-B`, the TCP ports that MPI may listen on (default: $MPIUP_MPI_PORTS, else any)")
	fs.BoolVar(&fabric.Run, "fabric", false, "run the image's benchmarks of the network, a pair of hosts at a time and all together")
	fs.StringArrayVar(&fabric.Dirs, "fabric-path", nil, "look for benchmarks in and below `DIR` of the hosts first; may be given several times")
	fs.StringVar(&fabric.Baseline, "baseline", "", "compare with what `FILE` has of an earlier --fabric; it is written if it is not there")
	fs.BoolVar(&fabric.Write, "write-baseline", false, "write the file of --baseline in any case")
	fs.BoolVar(&strict, "strict", false, "exit with 1 after a warning, too")
	fs.BoolVar(&json, "json", false, "print JSON")
	cli.PictureVar(fs, &picture, "draw the ways between hosts as a heat map in `FILE` (- for standard output), of what --bandwidth and --fabric measured")
	return c
}

// benchmarks checks the flags of --fabric, which runs use transports as jobs do.
func benchmarks(f examine.FabricConfig) error {
	const most = 32
	switch {
	case !f.Run && (f.Baseline != "" || f.Write || f.Dirs != nil):
		return errors.New("--baseline, --write-baseline and --fabric-path go with --fabric")
	case f.Write && f.Baseline == "":
		return errors.New("--write-baseline needs a file: --baseline FILE")
	case len(f.Dirs) > most:
		return fmt.Errorf("--fabric-path: %d directories, and %d are the most", len(f.Dirs), most)
	}
	for _, dir := range f.Dirs {
		if !path.IsAbs(dir) {
			return fmt.Errorf("--fabric-path %s: name a directory of the hosts from / on", dir)
		}
	}
	return nil
}
