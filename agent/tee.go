package agent

import (
	"strconv"

	"github.com/mpiup/mpiup/agent/stdio"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/job"
)

// teeFor is where a job's output goes besides the launcher, nil for nowhere: the worker's own log,
// one for all jobs of the session. mu is held.
func (s *session) teeFor(l *apiv1.Launch) *stdio.Tee {
	cfg := &s.agent.cfg
	if !l.Job.WorkerLogs || cfg.Stdout == nil || cfg.Stderr == nil || len(l.Procs) == 0 {
		return nil
	}
	if s.tee == nil {
		tee := stdio.NewTee(cfg.Stdout, cfg.Stderr, s.rankName)
		s.tee = tee
		s.wg.Go(func() {
			if err := tee.Run(s.serving); err != nil {
				cfg.Log.Warn("worker log", "cause", err)
			}
		})
	}
	return s.tee
}

// rankName is a process as the launcher tags its output: its rank, of a spawned job with the job's number
// before it.
func (s *session) rankName(id int) string {
	st := s.jobOf(uint32(id))
	if st == nil {
		return strconv.FormatUint(uint64(uint32(id)), 10)
	}
	return job.Process{Job: int(st.Launch.Job.Number), Rank: id - int(st.Launch.Job.Base)}.Tag()
}
