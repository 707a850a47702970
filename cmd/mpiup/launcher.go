package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/mpiup/mpiup/agent/reap"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/launcher/peers"
	"github.com/mpiup/mpiup/launcher/reach"
)

func launcherCommand(p *process) *cobra.Command {
	var q query
	c := &cobra.Command{
		Use:   "launcher [flags] [--] command [args]",
		Short: "Run a launcher's script, and let the workers succeed when it does",
		Long: `Run a launcher's script, which may start any number of jobs with mpiup run, mpirun or ssh, and
end with its exit code.

When the script ends well, the job's agents end with exit code 0: worker pods succeed and their
GPUs are free, whatever the operator cleans up. When it fails, agents stay for the next attempt,
and what its commands left behind on them is ended. It may be PID 1.`,
		Example: `  mpiup launcher -- ./train.sh
  mpiup launcher -- sh -c 'mpirun ./prepare && mpirun ./train'`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage(errors.New("launcher: which command? write mpiup launcher -- COMMAND"))
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			return q.reach(p, c, func(r reach.Reach) error { return wrap(p, r, args) })
		},
	}
	q.register(c.Flags())
	c.Flags().SetInterspersed(false)
	return c
}

// wrap runs the script to its end, and then tells the agents.
func wrap(p *process, reach reach.Reach, argv []string) error {
	exit, err := script(p, argv, reach.Log)
	if err != nil {
		return err
	}
	p.code = exit.Status()
	if reach.Identity == nil { // no agents but the one that each run was itself
		return nil
	}
	cfg := peers.ShutdownConfig{Reach: reach, Why: fmt.Sprintf("mpiup launcher: its command ended with %v", exit), Rest: p.code != 0}
	if code := peers.Shutdown(context.Background(), cfg); code != 0 && p.code == 0 {
		fmt.Fprintln(p.stderr, "mpiup: the command has succeeded, but not every agent was told; mpiup shutdown tells them again")
	}
	return nil
}

// script runs argv with our streams and signals, and ends what it leaves behind.
func script(p *process, argv []string, log *slog.Logger) (exit job.Exit, err error) {
	super := reap.New(reap.Config{Log: log, Subreaper: true, GuardExe: guardExe()})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if e := super.Run(ctx); e != nil {
			log.Warn("processes", "cause", e)
		}
	})
	defer running.Wait()
	defer cancel()
	signals, stop := passedOn()
	defer stop()
	session := "launcher-" + rand.Text() // by which what it leaves behind is found
	script, err := super.Start(ctx, reap.Command{Argv: argv, Env: append(p.env[:len(p.env):len(p.env)], "MPIUP_SESSION="+session),
		Dir: dirOrRoot(), Files: []*os.File{p.stdin, p.stdout, p.stderr}, Session: session})
	if err != nil {
		return exit, &exitError{job.ExitExec, fmt.Errorf("launcher: %w", err)}
	}
	for {
		select {
		case s := <-signals:
			_ = script.Signal(s.(syscall.Signal)) // one that has ended needs none
		case <-script.Done():
			return script.Exit(), nil
		}
	}
}
