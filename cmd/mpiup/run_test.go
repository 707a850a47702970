package main

import (
	"strings"
	"testing"

	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/launcher"
)

// A flag comes before its variable, and our own count of restarts before the platform's.
func TestPreempt(t *testing.T) {
	for _, c := range []struct {
		name, env string
		signal    int
		dir       string
		want      job.Preempt
		wrong     string
	}{
		{name: "nothing said"},
		{name: "flags", env: "MPIUP_PREEMPT_SIGNAL=USR2 MPIUP_CHECKPOINT_DIR=/b", signal: job.SIGUSR1, dir: "/a", want: job.Preempt{Signal: job.SIGUSR1, CheckpointDir: "/a"}},
		{name: "variables", env: "MPIUP_PREEMPT_SIGNAL=12 MPIUP_CHECKPOINT_DIR=/b MPIUP_RESTART_COUNT=3 JOBSET_RESTART_ATTEMPT=5",
			want: job.Preempt{Signal: job.SIGUSR2, CheckpointDir: "/b", Restarts: 3}},
		{name: "JobSet", env: "JOBSET_RESTART_ATTEMPT=5 SLURM_RESTART_COUNT=6", want: job.Preempt{Restarts: 5}},
		{name: "JobSet that counts suspensions", env: "JOBSET_EXECUTION_ATTEMPT=7 JOBSET_RESTART_ATTEMPT=5", want: job.Preempt{Restarts: 7}},
		{name: "JobSet without", env: "JOBSET_EXECUTION_ATTEMPT= JOBSET_RESTART_ATTEMPT=5", want: job.Preempt{Restarts: 5}},
		{name: "Slurm", env: "SLURM_RESTART_COUNT=6", want: job.Preempt{Restarts: 6}},
		{name: "a signal that none can handle", env: "MPIUP_PREEMPT_SIGNAL=KILL", wrong: "MPIUP_PREEMPT_SIGNAL"},
		{name: "a relative directory", env: "MPIUP_CHECKPOINT_DIR=saved", wrong: "MPIUP_CHECKPOINT_DIR: \"saved\" is no absolute path"},
		{name: "no number", env: "JOBSET_RESTART_ATTEMPT=-1", wrong: "JOBSET_RESTART_ATTEMPT"},
		{name: "too large", env: "MPIUP_RESTART_COUNT=4294967296", wrong: "MPIUP_RESTART_COUNT"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := &launcher.Config{Wishes: launcher.Wishes{Preempt: job.Preempt{Signal: c.signal, CheckpointDir: c.dir}}}
			err := (&process{env: strings.Fields(c.env)}).settle(cfg, func(string) bool { return false })
			if err != nil {
				cfg.Preempt = job.Preempt{}
			}
			if got := cfg.Preempt; got != c.want || (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
				t.Errorf("%+v, %v; want %+v, %q", cfg.Preempt, err, c.want, c.wrong)
			}
		})
	}
}
