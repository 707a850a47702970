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
	"time"

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
and what its commands left behind on them is ended. When SIGTERM ends the script, the jobs that it
started have their time to save (mpiup help preemption), and the code is 249. It may be PID 1.`,
		Example: `  mpiup launcher -- ./train.sh
  mpiup launcher -- sh -c 'mpirun ./prepare && mpirun ./train'`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage(errors.New("launcher: which command? write mpiup launcher -- COMMAND"))
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			return q.reach(p, c, func(r reach.Reach) error {
				if named := len(q.hosts.Hosts) > 0 || q.hosts.Hostfile != "" || q.hosts.Size > 0; named && r.Identity == nil {
					return identityError(r.NoIdentity) // whoever names workers wants them told
				}
				return wrap(p, r, args)
			})
		},
	}
	q.register(c.Flags())
	c.Flags().SetInterspersed(false)
	return c
}

// wrap runs the script to its end, and then tells the agents.
func wrap(p *process, reach reach.Reach, argv []string) error {
	exit, taken, err := script(p, argv, reach.TermGrace, reach.Log)
	if err != nil {
		return err
	}
	p.code = exit.Status()
	if taken {
		p.code = job.ExitPreempted
	}
	if reach.Identity == nil { // no agents but the one that each run was itself
		return nil
	}
	cfg := peers.ShutdownConfig{Reach: reach, Why: fmt.Sprintf("mpiup launcher: its command ended with %v", exit), Rest: p.code != 0}
	if code := peers.Shutdown(context.Background(), cfg); code != 0 && p.code == 0 {
		fmt.Fprintln(p.stderr, "mpiup: the command has succeeded, but not every agent was told; mpiup shutdown tells them again")
	}
	return nil
}

// script runs argv with our streams and signals, and ends what it leaves behind. taken says that SIGTERM ended it, for want of a
// handler: its jobs go on for a while, to save what they have.
func script(p *process, argv []string, grace time.Duration, log *slog.Logger) (exit job.Exit, taken bool, err error) {
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
	signals, stop := p.passedOn(syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGCONT)
	defer stop()
	session := "launcher-" + rand.Text() // by which what it leaves behind is found
	script, err := super.Start(ctx, reap.Command{Argv: argv, Env: append(p.env[:len(p.env):len(p.env)], "MPIUP_SESSION="+session),
		Dir: dirOrRoot(), Files: []*os.File{p.stdin, p.stdout, p.stderr}, Session: session})
	if err != nil {
		return exit, false, &exitError{job.ExitExec, fmt.Errorf("launcher: %w", err)}
	}
	for told := false; ; {
		select {
		case s := <-signals:
			told = told || s == syscall.SIGTERM
			_ = script.Signal(s.(syscall.Signal)) // one that has ended needs none
		case <-script.Done():
			exit = script.Exit()
			if taken = told && exit.Signal == job.SIGTERM; taken {
				const rest = 2 * time.Second // for a run to say how it ended
				super.StopSession(session, syscall.SIGTERM, grace+rest)
			}
			return exit, taken, nil
		}
	}
}
