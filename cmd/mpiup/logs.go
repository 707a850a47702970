package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/launcher/cli"
	"github.com/mpiup/mpiup/launcher/verdict/logs"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// logsCommand prints the lines of logs that are wanted.
func logsCommand(p *process) *cobra.Command {
	var pick picking
	c := &cobra.Command{
		Use:   "logs [FILE...]",
		Short: "Print the lines of a job's log by rank, host, stream, time and level",
		Long: `Print the lines of a job's log that were written by some ranks or hosts, on one stream, at some time, or that say that
they matter. Without FILE, or for -, standard input is read: the log of a launcher or agent of mpiup, or of
another launcher that puts tags before lines. A line without a level of its own counts as info, and what belongs
to a failure (a traceback, a CUDA error) as error. The exit code is 1 where no line is wanted.`,
		Example: `  kubectl logs POD | mpiup logs --rank 3 --stream stderr
  kubectl logs --timestamps POD | mpiup logs --since 10m --level warn
  mpiup logs --rank 0,8-15 --since 2026-11-23T04:00:00Z --until 2026-11-23T04:05:00Z launcher.log`,
		RunE: func(_ *cobra.Command, args []string) error {
			w, err := pick.wanted(time.Now())
			if err != nil {
				return err
			}
			return printLogs(p, w, args)
		},
	}
	fs := c.Flags()
	fs.SortFlags = false
	pick.flags(fs, "lines")
	return c
}

// picking is the flags by which lines are picked.
type picking struct{ ranks, host, stream, since, until, level string }

func (k *picking) flags(fs *pflag.FlagSet, what string) {
	all := " (default: all " + what + ")"
	fs.StringVar(&k.ranks, "rank", "", what+" of these `RANKS`, as in 3 or 0,8-15"+all)
	fs.StringVar(&k.host, "host", "", what+" of ranks on `HOST`"+all)
	fs.StringVar(&k.stream, "stream", "", "lines on `STREAM`: stdout or stderr (default: both)")
	fs.StringVar(&k.since, "since", "", what+" from `TIME` on: a moment, 2026-11-23T04:00:00Z, or how long ago, 10m"+all)
	fs.StringVar(&k.until, "until", "", what+" before `TIME`, written as for --since"+all)
	fs.StringVar(&k.level, "level", "debug", "lines of `LEVEL` and above: debug, info, warn or error")
}

// wanted is what the flags ask for.
func (k *picking) wanted(now time.Time) (w logs.Wanted, err error) {
	if k.stream != "" && k.stream != "stdout" && k.stream != "stderr" {
		return w, usage(fmt.Errorf("--stream %.80s: use stdout or stderr", k.stream))
	}
	w.Host, w.Stream = k.host, k.stream
	if w.Ranks, err = idset.Parse(k.ranks); err != nil || k.ranks != "" && w.Ranks.Empty() {
		return w, usage(fmt.Errorf("--rank %.80s: write ranks as in 3 or 0,8-15", k.ranks))
	}
	i := slices.Index(logs.Levels, k.level)
	if i < 0 {
		return w, usage(fmt.Errorf("--level %.80s: use %s", k.level, strings.Join(logs.Levels, ", ")))
	}
	w.Level = logs.Level(i)
	if w.Since, err = moment(k.since, now); err != nil {
		return w, usage(fmt.Errorf("--since %w", err))
	}
	if w.Until, err = moment(k.until, now); err != nil {
		return w, usage(fmt.Errorf("--until %w", err))
	}
	return w, nil
}

// moment is a time, or how long before now; the zero time for "".
func moment(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, nil
	}
	ago, err := cli.ParseDuration(text)
	if err != nil {
		return time.Time{}, fmt.Errorf("%.80s: write a moment as in 2026-11-23T04:00:00Z, or how long ago as in 10m", text)
	}
	return now.Add(-ago), nil
}

func printLogs(p *process, w logs.Wanted, names []string) error {
	if len(names) == 0 {
		names = []string{"-"}
	}
	f, out, found := logs.NewFilter(w), bufio.NewWriter(p.stdout), false
	for i, name := range names {
		if i > 0 {
			f.File()
		}
		err := eachLine(p, name, func(line []byte, begins bool) error {
			if begins {
				f.Begin(line)
			}
			if !f.Kept() {
				return nil
			}
			found = true
			_, err := out.Write(line)
			return err
		})
		if err != nil {
			return errors.Join(err, out.Flush())
		}
	}
	if err := out.Flush(); err != nil {
		return &exitError{job.ExitOutput, fmt.Errorf("standard output: %w", err)}
	}
	if !found {
		p.code = 1
	}
	if l := f.Lacking(); l != "" {
		tell(p.stderr, "mpiup: warning:", l)
	}
	return nil
}

// eachLine calls f with a file's lines, and their ends; with a long one in pieces.
func eachLine(p *process, name string, f func(piece []byte, begins bool) error) error {
	in := p.stdin
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return usage(err)
		}
		defer file.Close()
		in = file
	}
	if in == nil {
		return usage(errors.New("there is no standard input"))
	}
	b := bufio.NewReaderSize(in, logs.MaxLine)
	for begins := true; ; {
		piece, err := b.ReadSlice('\n')
		if len(piece) > 0 {
			if err := f(piece, begins); err != nil {
				return &exitError{job.ExitOutput, fmt.Errorf("standard output: %w", err)}
			}
		}
		begins = !errors.Is(err, bufio.ErrBufferFull)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil && begins {
			return usage(fmt.Errorf("%s: %w", name, err))
		}
	}
}
