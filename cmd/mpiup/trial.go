package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/mpiup/mpiup/agent/checkup"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/launcher/cli"
	"github.com/mpiup/mpiup/launcher/examine"
	"github.com/spf13/pflag"
)

// trialCommand is what mpiup doctor starts on the hosts; nobody else has a use for it. It prints one line of JSON.
func trialCommand(p *process) *cobra.Command {
	return &cobra.Command{
		Use: "trial (shared PHASE DIR TOKEN HOST HOSTS SIZE PATIENCE | compute TIME)", Hidden: true, DisableFlagParsing: true,
		Short: "Try a directory or the processors, for mpiup doctor",
		RunE: func(_ *cobra.Command, args []string) error {
			found, err := tried(args)
			if err != nil {
				return usage(err)
			}
			return json.NewEncoder(p.stdout).Encode(found)
		},
	}
}

func tried(args []string) (any, error) {
	ctx, stop := untilSignal()
	defer stop()
	switch {
	case len(args) == 2 && args[0] == "compute":
		d, err := time.ParseDuration(args[1])
		if err != nil {
			return nil, fmt.Errorf("trial: %w", err)
		}
		return checkup.Compute(ctx, d), nil
	case len(args) == 8 && args[0] == "shared":
		host, err1 := strconv.Atoi(args[4])
		hosts, err2 := strconv.Atoi(args[5])
		size, err3 := strconv.ParseInt(args[6], 10, 64)
		patience, err4 := time.ParseDuration(args[7])
		s := checkup.Shared{Dir: args[2], Token: args[3], Host: host, Hosts: hosts, Size: size, Patience: patience}
		return s.Phase(ctx, args[1]), errors.Join(err1, err2, err3, err4)
	}
	return nil, errors.New("trial: mpiup doctor starts it, with words of its own")
}

// trialFlags are doctor's flags for what is tried on every host.
type trialFlags struct {
	shared  string
	size    int // MiB
	compute bool
	time    time.Duration
	checks  []string
	limit   time.Duration
}

func (t *trialFlags) register(fs *pflag.FlagSet) {
	fs.StringVar(&t.shared, "shared", "", "try whether all hosts share `DIR`: the same files, locks, and how fast; what is written is removed")
	fs.IntVar(&t.size, "shared-size", 256, "write `MIB` from each host, all at once, with --shared")
	fs.BoolVar(&t.compute, "compute", false, "let every CPU compute what is known, and name those that are wrong")
	cli.DurationVar(fs, &t.time, "compute-time", 10*time.Second, true, "compute for `TIME`, with --compute")
	fs.StringArrayVar(&t.checks, "check", nil, "run `COMMAND` by sh on every host; a code other than 0 is a failure; may be given several times")
	cli.DurationVar(fs, &t.limit, "check-time", 5*time.Minute, true, "end a command of --check after `TIME`")
}

// config checks the flags; given says which were written.
func (t *trialFlags) config(given *pflag.FlagSet) (examine.TrialConfig, error) {
	c := examine.TrialConfig{Shared: t.shared, Size: int64(t.size) << 20, Checks: t.checks, Limit: t.limit}
	if t.compute {
		c.Compute = t.time
	}
	const most = 32
	switch {
	case given.Changed("shared") && (t.shared == "" || t.shared[0] != '/'):
		return c, fmt.Errorf("--shared %s: name a directory of the hosts from / on", t.shared)
	case given.Changed("shared-size") && t.shared == "", given.Changed("compute-time") && !t.compute, given.Changed("check-time") && t.checks == nil:
		return c, errors.New("--shared-size goes with --shared, --compute-time with --compute, --check-time with --check")
	case t.size < job.MinTrialSize>>20 || t.size > job.MaxTrialSize>>20:
		return c, fmt.Errorf("--shared-size: %d is out of range; use %d to %d MiB", t.size, job.MinTrialSize>>20, job.MaxTrialSize>>20)
	case t.time <= 0 || t.time > checkup.MaxTime:
		return c, fmt.Errorf("--compute-time: %v is out of range; use up to %v", t.time, checkup.MaxTime)
	case t.limit <= 0:
		return c, errors.New("--check-time: a command needs some time")
	case len(t.checks) > most:
		return c, fmt.Errorf("--check: %d commands, and %d are the most", len(t.checks), most)
	}
	for _, command := range t.checks {
		if command == "" {
			return c, errors.New("--check: which command?")
		}
	}
	return c, nil
}
