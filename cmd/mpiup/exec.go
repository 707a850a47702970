package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/mpiup/mpiup/launcher"
	"github.com/mpiup/mpiup/launcher/cli"
	"github.com/mpiup/mpiup/launcher/reach"
	"github.com/spf13/cobra"
)

func execCommand(p *process) *cobra.Command {
	var (
		q       query
		lease   cli.LeaseFlags
		program cli.AppFlags
		timeout time.Duration
		tty     bool
	)
	c := &cobra.Command{
		Use:   "exec [flags] HOST [--] command [args]",
		Short: "Run one command on one worker",
		Long: `Run one command on one worker, with this terminal's standard streams and signals, and end
with its exit code (128+signal if one killed it).`,
		Example: `  mpiup exec w0 -- nvidia-smi
  mpiup exec -it w0 -- bash
  tar c data | mpiup exec w1 -- tar x -C /tmp`,
		Args: func(c *cobra.Command, args []string) error {
			switch {
			case len(args) == 1 && c.Flags().Changed("host"):
				return usage(fmt.Errorf("exec: the host stands alone, without --host: write mpiup exec %s -- %s", q.hosts.Hosts[0], args[0]))
			case len(args) == 0:
				return usage(errors.New("exec: which host? write mpiup exec HOST -- COMMAND"))
			case strings.HasPrefix(args[0], "-"):
				return usage(fmt.Errorf("exec: %s stands where the host should: write mpiup exec HOST -- COMMAND", args[0]))
			case len(args) > 1 && args[1] != "--" && strings.HasPrefix(args[1], "-"):
				return usage(fmt.Errorf("exec: %s stands after the host: flags of exec go before it (mpiup exec %s ... %s), and a "+
					"command that begins with a hyphen after --",
					args[1], args[1], args[0]))
			case len(words(args)) == 0:
				return usage(fmt.Errorf("exec: what is to run on %s? write mpiup exec %s -- COMMAND", args[0], args[0]))
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if err := lease.Check(); err != nil {
				return usage(err)
			}
			run := cli.RunFlags{Program: program}
			// Without a directory: a command that is not told where runs where the container starts.
			apps, warnings, err := run.ParseApps([]string{args[0]}, p.outside(""))
			if err != nil {
				return usage(err)
			}
			apps[0].Argv = words(args)
			for _, w := range warnings {
				tell(p.stderr, "mpiup: warning:", w)
			}
			unsent := handOver(p.env, apps)
			return q.reachFor(p, c, &lease, func(r reach.Reach) error {
				r.Embedded, r.Unsent = nil, unsent
				signals, stop := p.passedOn(syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGCONT)
				defer stop()
				p.code = launcher.Exec(context.Background(), launcher.ExecConfig{Reach: r, Host: args[0],
					App: apps[0], Timeout: timeout, Stdin: p.stdin, TTY: tty, Term: p.getenv("TERM"), Signals: signals})
				return nil
			})
		},
	}
	fs := c.Flags()
	q.register(fs)
	lease.Register(fs)
	cli.ExportVar(fs, &program.Env, "give the command `VAR[=V]`; without =V this command's own value; may be repeated")
	fs.StringVar(&program.Wdir, "wdir", "", "working `DIR` of the command (default: the container's own)")
	cli.DurationVar(fs, &timeout, "timeout", 0, true, "end the command after `TIME`, with exit code 110; 0 is never (default 0)")
	fs.BoolVarP(&tty, "tty", "t", false, "give the command a terminal")
	fs.BoolP("stdin", "i", false, "connect standard input, which it is anyway (as kubectl exec -it)")
	fs.SetInterspersed(false)
	return c
}

// words is the command after HOST: pflag leaves a "--" that follows a word where it is.
func words(args []string) []string {
	args = args[1:]
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	return args
}
