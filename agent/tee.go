package agent

import "github.com/mpiup/mpiup/agent/stdio"

// startTee copies the step's output to the worker's own log if the launcher wants that.
func (st *step) startTee() {
	cfg := &st.s.agent.cfg
	if !st.launch.WorkerLogs || cfg.Stdout == nil || cfg.Stderr == nil {
		return
	}
	st.tee = stdio.NewTee(cfg.Stdout, cfg.Stderr)
	st.wg.Go(func() {
		if err := st.tee.Run(st.ctx); err != nil {
			cfg.Log.Warn("worker log", "cause", err)
		}
	})
}
