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
	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/launcher/cli"
	"github.com/mpiup/mpiup/launcher/examine"
	"github.com/spf13/pflag"
)

// trialCommand is what mpiup doctor starts on the hosts; nobody else has a use for it. It prints one line of JSON.
func trialCommand(p *process) *cobra.Command {
	return &cobra.Command{
		Use: "trial shared PHASE DIR TOKEN HOST HOSTS SIZE PATIENCE", Hidden: true, DisableFlagParsing: true,
		Short: "Try a directory, for mpiup doctor",
		RunE: func(_ *cobra.Command, args []string) error {
			found, err := tried(args)
			if err != nil {
				return usage(err)
			}
			found.Error, found.Fix = visible.UTF8(found.Error), visible.UTF8(found.Fix) // they name files
			return json.NewEncoder(p.stdout).Encode(found)
		},
	}
}

func tried(args []string) (job.DirTrial, error) {
	if len(args) != 8 || args[0] != "shared" {
		return job.DirTrial{}, errors.New("trial: mpiup doctor starts it, with words of its own")
	}
	ctx, stop := untilSignal()
	defer stop()
	host, err1 := strconv.Atoi(args[4])
	hosts, err2 := strconv.Atoi(args[5])
	size, err3 := strconv.ParseInt(args[6], 10, 64)
	patience, err4 := time.ParseDuration(args[7])
	s := checkup.Shared{Dir: args[2], Token: args[3], Host: host, Hosts: hosts, Size: size, Patience: patience}
	return s.Phase(ctx, args[1]), errors.Join(err1, err2, err3, err4)
}

// trialFlags are doctor's flags for what is tried on every host.
type trialFlags struct {
	shared string
	size   int // MiB
	checks []string
	limit  time.Duration
}

func (t *trialFlags) register(fs *pflag.FlagSet) {
	fs.StringVar(&t.shared, "shared", "", "try whether all hosts share `DIR`: the same files, locks, and how fast; what is written is removed")
	fs.IntVar(&t.size, "shared-size", 256, "write `MIB` from each host, all at once, with --shared")
	fs.StringArrayVar(&t.checks, "check", nil, "run `COMMAND` by sh on every host; a code other than 0 is a failure; may be given several times")
	cli.DurationVar(fs, &t.limit, "check-time", 5*time.Minute, true, "end a command of --check after `TIME`")
}

// config checks the flags; given says which were written.
func (t *trialFlags) config(given *pflag.FlagSet) (examine.TrialConfig, error) {
	c := examine.TrialConfig{Shared: t.shared, Size: int64(t.size) << 20, Checks: t.checks, Limit: t.limit}
	const most = 32
	switch {
	case given.Changed("shared") && (t.shared == "" || t.shared[0] != '/'):
		return c, fmt.Errorf("--shared %s: name a directory of the hosts from / on", t.shared)
	case given.Changed("shared-size") && t.shared == "", given.Changed("check-time") && t.checks == nil:
		return c, errors.New("--shared-size goes with --shared, --check-time with --check")
	case t.size < job.MinTrialSize>>20 || t.size > job.MaxTrialSize>>20:
		return c, fmt.Errorf("--shared-size: %d is out of range; use %d to %d MiB", t.size, job.MinTrialSize>>20, job.MaxTrialSize>>20)
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
