package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/mpiup/mpiup/launcher/peers"
	"github.com/mpiup/mpiup/launcher/reach"
)

// psWatch is the time between two looks of mpiup ps --watch.
const psWatch = 2 * time.Second

func psCommand(p *process) *cobra.Command {
	var (
		q           = query{near: true}
		json, watch bool
		long        time.Duration
	)
	c := &cobra.Command{
		Use:   "ps",
		Short: "Show what each rank does: state, CPU, memory, last output, MPI, where it waits",
		Long: `Show what the ranks of all jobs on the hosts do, a line each: host, process, program, state, CPU in percent of one
processor, resident memory, how long ago it last wrote, how far its MPI library has come (never: it has not called MPI_Init;
in a fence: it waits for other ranks in MPI_Init, MPI_Finalize or another exchange), and the system call or kernel function
in which it waits. A rank counts with all processes that descend from it. mpiup help hangs says what to make of it.
With --for, show for whom the others waited in that time, as mpiup top does.`,
		Example: `  mpiup ps
  mpiup ps --for 10s
  mpiup ps --host w0,w1 --watch
  mpiup ps --json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if c.Flags().Changed("for") {
				if watch || long < topLeast || long > topMost {
					return usage(fmt.Errorf("--for %v: say %v to %v, and no --watch (mpiup top looks again and again)", long, topLeast, topMost))
				}
				return top(p, c, &q, peers.TopConfig{JSON: json, Window: long, Every: topEvery, For: long})
			}
			return q.reach(p, c, func(r reach.Reach) error {
				cfg := peers.PsConfig{Reach: r, JSON: json}
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
	fs.BoolVar(&watch, "watch", false,
		"look again every two seconds, until it is interrupted; a terminal shows the CPU of the last minute beside each rank (how far a run is: mpiup run --watch)")
	fs.DurationVar(&long, "for", 0, "look for so long (10s), and show for whom the others waited meanwhile")
	return c
}

// Bounds of the time that is looked at, and the time between two looks.
const (
	topLeast = 2 * time.Second
	topMost  = time.Hour
	topEvery = 2 * time.Second
)

func topCommand(p *process) *cobra.Command {
	var (
		q    = query{near: true}
		json bool
		long time.Duration
	)
	c := &cobra.Command{
		Use:   "top",
		Short: "Show for whom the other ranks wait, and why, until it is interrupted",
		Long: `Show the ranks of all jobs on the hosts, those that the others wait for first: for what share of the last seconds (OTHERS WAITED), why
as far as it shows (CAUSE), how long the rank itself waited in MPI (WAITED), its host, state and CPU, the CPU time that it has used in all,
its resident memory and the most that it had. Ranks of MPI are measured where the run has --watch-ranks,
torch over NCCL by its flight recorder, torch over Gloo not. mpiup help slow says how, and what is not measured.`,
		Example: `  mpiup top
  mpiup top --host w0,w1 --window 1m
  mpiup ps --for 10s                      once, for scripts`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if long < topLeast || long > topMost {
				return usage(fmt.Errorf("--window %v: say %v to %v", long, topLeast, topMost))
			}
			return top(p, c, &q, peers.TopConfig{JSON: json, Window: long, Every: topEvery})
		},
	}
	fs := c.Flags()
	q.register(fs)
	fs.BoolVar(&json, "json", false, "print JSON")
	fs.DurationVar(&long, "window", 10*time.Second, "how much of the time before each look counts")
	return c
}

func top(p *process, c *cobra.Command, q *query, cfg peers.TopConfig) error {
	return q.reach(p, c, func(r reach.Reach) error {
		cfg.Reach = r
		ctx, cancel := untilSignal()
		defer cancel()
		p.code = peers.Top(ctx, cfg)
		return nil
	})
}
