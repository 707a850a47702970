package main

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/mpiup/mpiup/agent/outfit"
	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/launcher/cli"
	"github.com/spf13/cobra"
)

func envCommand(p *process) *cobra.Command {
	var (
		f       cli.RunFlags
		explain int
		here    bool
	)
	c := &cobra.Command{
		Use:   "env [flags of run] [--explain RANK] [--] program [args]",
		Short: "Show the environment that a rank of a job would get, and why",
		Long: `Show the environment that a rank of a job would get: the job is placed and prepared as mpiup run would do it, with
the same flags and the same program, which is not started. Each variable is shown with where it comes from (the
container, the user, mpiup) and why.`,
		Example: `  mpiup env -n 16 -- ./train
  mpiup env --explain 3 -n 16 --fabric rdma -- ./train`,
		RunE: func(c *cobra.Command, args []string) error {
			if here {
				return showEnv(p, p.stdout)
			}
			if explain < 0 {
				return usage(fmt.Errorf("--explain %d: a rank is a number from 0", explain))
			}
			if err := f.Check(); err != nil {
				return usage(err)
			}
			f.Explain = explain + 1
			return runJob(p, &f, c.Flags(), args)
		},
	}
	fs := c.Flags()
	f.Register(fs)
	fs.IntVar(&explain, "explain", 0, "the `RANK` whose environment is shown")
	fs.BoolVar(&here, "here", false, "")
	_ = fs.MarkHidden("here")
	return c
}

// showEnv is what stands in a rank's place: it prints what the agent says of this process's environment.
func showEnv(p *process, w io.Writer) error {
	text := p.getenv(outfit.ExplainVariable)
	if text == "" {
		return nil // another rank
	}
	var list []outfit.Given
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return usage(fmt.Errorf("%s: %w", outfit.ExplainVariable, err))
	}
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	for _, g := range list {
		visible.Fprintf(t, "%s=%s\t%s\t%s\n", g.Name, shown(g.Value), g.From, g.Why)
	}
	return t.Flush()
}

// shown is a value for a table: on one line, and not longer than a line.
func shown(value string) string {
	const most = 60
	value = visible.Line(value)
	if r := []rune(value); len(r) > most {
		return string(r[:most]) + "..."
	}
	return value
}
