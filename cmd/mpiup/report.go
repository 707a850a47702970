package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/mpiup/mpiup/internal/bounded"
	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/launcher/report"
	"github.com/mpiup/mpiup/launcher/verdict/logs"
	"github.com/spf13/cobra"
)

func reportCommand(p *process) *cobra.Command {
	var asJSON bool
	var pick picking
	c := &cobra.Command{
		Use:   "report [FILE]",
		Short: "Show what remains of a run: how it ended, on which hosts it was, what happened when",
		Long: `Show what remains of a run: how it ended, on which hosts it was, what happened when, and the last
lines of the ranks that failed, or of those that --rank or --host names. It is read from the folder that mpiup run --report wrote, or from the launcher's log,
whose last lines hold it with mpiup run --seal. Neither the job's pods nor any right in the cluster is needed.`,
		Example: `  kubectl logs POD | mpiup report
  mpiup report launcher.log
  mpiup report --rank 0,8-15 --since 2026-11-23T04:00:00Z DIR
  mpiup report DIR --json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			want, err := pick.wanted(time.Now())
			if err != nil {
				return err
			}
			name := "-"
			if len(args) > 0 {
				name = args[0]
			}
			r, doubts, err := readReport(p, name)
			if err != nil {
				return usage(fmt.Errorf("report: %w", err))
			}
			for _, d := range doubts {
				tell(p.stderr, "mpiup: "+name+":", d)
			}
			if !asJSON {
				v := report.View{Ranks: want.Ranks, Host: want.Host, Stream: want.Stream, Since: want.Since, Until: want.Until}
				if want.Level > 0 {
					f := logs.NewFilter(logs.Wanted{Level: want.Level})
					v.Line = func(l string) bool {
						f.Begin([]byte(l))
						return f.Kept()
					}
				}
				return report.Timeline(p.stdout, r, v)
			}
			return visible.JSON(p.stdout, r)
		},
	}
	c.Flags().SortFlags = false
	pick.flags(c.Flags(), "events and last lines")
	c.Flags().BoolVar(&asJSON, "json", false, "print the report's JSON")
	return c
}

// readReport reads a folder, a report's JSON or a log; "-": standard input.
func readReport(p *process, name string) (*report.Report, []string, error) {
	in := io.Reader(p.stdin)
	if name != "-" {
		open := os.Open
		if info, err := os.Stat(name); err == nil && info.IsDir() { // what is in it somebody else may have put there
			name, open = filepath.Join(name, report.FileName), bounded.Open
		}
		f, err := open(name)
		if err != nil {
			return nil, nil, err
		}
		defer f.Close()
		in = f
	} else {
		name = "standard input"
	}
	r, doubts, err := report.Read(bufio.NewReader(in), logs.OfRank)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	return r, doubts, nil
}
