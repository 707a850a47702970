package main

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mpiup/mpiup/launcher/aftermath"
	"github.com/mpiup/mpiup/launcher/peers"
	"github.com/mpiup/mpiup/launcher/report"
)

func (p *process) desk() *aftermath.Desk {
	d := &aftermath.Desk{Stdin: p.stdin, Stdout: p.stdout, Stderr: p.stderr, Kept: p.remains("").Kept}
	if info, err := p.stdin.Stat(); err == nil { // of nil it is an error; nobody hands a log over by /dev/null either
		d.Typed = info.Mode()&fs.ModeCharDevice != 0
	}
	d.Said = func() ([]byte, int, error) { return peers.Said(context.Background(), nearbyDir(p.getenv)) }
	return d
}

// asked makes an error the user's, unless output could not be written.
func asked(err error) error {
	var file *fs.PathError
	if err == nil || errors.As(err, &file) && file.Op == "write" {
		return err
	}
	return usage(err)
}

func reportCommand(p *process) *cobra.Command {
	var asJSON, list bool
	var html, log string
	var pick aftermath.Picking
	c := &cobra.Command{
		Use:   "report [FILE]",
		Short: "Show what remains of a run: how it ended, on which hosts it was, what happened when",
		Long: `Show what remains of a run: how it ended, the last lines of the rank that failed, or of those that --rank or --host names, on which hosts it was,
and what happened when. Without FILE it is the newest run of yours here that failed. FILE is the folder that mpiup run --report wrote, or a log, of which it
is what the lines tell, as mpiup why has it; a log comes by standard input, too. Neither the job's pods nor any right in the cluster is needed.`,
		Example: `  mpiup report
  kubectl logs POD | mpiup report
  mpiup report launcher.log
  mpiup report --rank 0,8-15 --since 2026-11-23T04:00:00Z DIR
  mpiup report DIR --json
  mpiup report DIR --html run.html --log launcher.log`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			want, err := pick.Wanted(time.Now())
			if err != nil {
				return usage(err)
			}
			if list {
				return asked(p.desk().List())
			}
			switch {
			case html == "" && log != "":
				return usage(errors.New("--log: its lines stand on a page; name that with --html FILE"))
			case html != "":
				return asked(p.desk().Page(strings.Join(args, ""), log, html))
			}
			v := report.View{Ranks: want.Ranks, Host: want.Host, Stream: want.Stream, Since: want.Since, Until: want.Until}
			if want.Level > 0 {
				f := aftermath.NewFilter(aftermath.Wanted{Level: want.Level})
				v.Line = func(l string) bool {
					f.Begin([]byte(l))
					return f.Kept()
				}
			}
			return asked(p.desk().Report(strings.Join(args, ""), v, asJSON))
		},
	}
	c.Flags().SortFlags = false
	pickFlags(&pick, c.Flags(), "events and last lines")
	c.Flags().BoolVar(&asJSON, "json", false, "print the report's JSON")
	c.Flags().StringVar(&html, "html", "",
		"write one page for a browser to `FILE`: the verdict, what each rank did when, progress, hosts, events and the log; it needs no network")
	c.Flags().StringVar(&log, "log", "", "with --html: the lines of `LOG`, a launcher's, stand on the page too (default: those of FILE, where it is a log)")
	c.Flags().BoolVar(&list, "list", false, "list the reports that runs of yours have left here: when, how they ended, what they were")
	return c
}

// verdictCommand reads logs and says which rank ended the job, and why.
func verdictCommand(p *process) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "verdict [FILE...]",
		Short: "Read logs of a failed job, and say which rank ended it and why",
		Long: "Read logs of a failed job, of any launcher, and say which rank failed for a reason of its own, and what kind of failure it is. Without\n" +
			"FILE, or for -, standard input is read. Each file is the log of a pod or of a whole job. The exit code is 1 where no failure is known.",
		Example: `  kubectl logs job/train-launcher | mpiup verdict
  mpiup verdict worker-*.log
  mpiup verdict --json launcher.log`,
		RunE: func(_ *cobra.Command, args []string) error {
			found, err := p.desk().Verdict(args, asJSON)
			p.code = map[bool]int{false: 1}[found]
			return asked(err)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the verdict as a JSON object (mpiup help record)")
	return c
}

func whyCommand(p *process) *cobra.Command {
	return &cobra.Command{
		Use:   "why [FILE]",
		Short: "Say why a job failed: the verdict, the culprit's last lines, what to type next",
		Long: `Say why a job failed: the verdict, the last lines of the rank whose failure it is, and what to type next. Without FILE it is the newest run of yours here
that failed. FILE is a log of any launcher or pod, or a report; a log comes by standard input, too. The exit code is 1 where no failure is known.`,
		Example: `  mpiup why
  kubectl logs POD | mpiup why
  mpiup why launcher.log`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			found, err := p.desk().Why(strings.Join(args, ""))
			p.code = map[bool]int{false: 1}[found]
			return asked(err)
		},
	}
}

// logsCommand prints the lines of logs that are wanted.
func logsCommand(p *process) *cobra.Command {
	var pick aftermath.Picking
	c := &cobra.Command{
		Use:   "logs [FILE...]",
		Short: "Print the lines of a job's log by rank, host, stream, time and level",
		Long: `Print the lines of a job's log that were written by some ranks or hosts, on one stream, at some time, or that say that
they matter. Without FILE it is what the ranks of your runs on this machine wrote last, while there are some; else, or for -, standard
input is read: the log of a launcher or agent of mpiup, or of another launcher that puts tags before lines. A line without a level of its own counts as info, and what belongs
to a failure (a traceback, a CUDA error) as error. The exit code is 1 where no line is wanted.`,
		Example: `  mpiup logs --rank 1
  kubectl logs POD | mpiup logs --rank 3 --stream stderr
  kubectl logs --timestamps POD | mpiup logs --since 10m --level warn
  mpiup logs --rank 0,8-15 --since 2026-11-23T04:00:00Z --until 2026-11-23T04:05:00Z launcher.log`,
		RunE: func(_ *cobra.Command, args []string) error {
			w, err := pick.Wanted(time.Now())
			if err != nil {
				return usage(err)
			}
			found, err := p.desk().Logs(args, w)
			p.code = map[bool]int{false: 1}[found]
			return asked(err)
		},
	}
	c.Flags().SortFlags = false
	pickFlags(&pick, c.Flags(), "lines")
	return c
}

// pickFlags registers the flags by which lines are picked.
func pickFlags(k *aftermath.Picking, fs *pflag.FlagSet, what string) {
	all := " (default: all " + what + ")"
	fs.StringVar(&k.Ranks, "rank", "", what+" of these `RANKS`, as in 3 or 0,8-15"+all)
	fs.StringVar(&k.Host, "host", "", what+" of ranks on `HOST`"+all)
	fs.StringVar(&k.Stream, "stream", "", "lines on `STREAM`: stdout or stderr (default: both)")
	fs.StringVar(&k.Since, "since", "", what+" from `TIME` on: a moment, 2026-11-23T04:00:00Z, or how long ago, 10m"+all)
	fs.StringVar(&k.Until, "until", "", what+" before `TIME`, written as for --since"+all)
	fs.StringVar(&k.Level, "level", "debug", "lines of `LEVEL` and above: debug, info, warn or error")
}
