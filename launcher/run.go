// Package launcher is one run of a job, from a list of hosts to an exit code.
//
//	host sources ─▶ reach  ─▶ place ─▶ launch ─▶ wire up ─▶ run ─▶ verdict
//	 (launcher/hosts) (launcher/reach)  │  one session per host (launcher/link), frames both ways
//	                                    ▼
//	 host 0 ◀──────────────── loop: one goroutine owns ────────────────▶ host n
//	           Output ──▶ iof.Sink      states of ranks and jobs, what is sent and said next (launcher/run)
//	           all else ──▶ mailbox     orders carried out: frames, lines, timers, hosts that join
//
// Concurrency: Run and Exec block until all they started has ended. Within a
// run each host has one goroutine that keeps its session on a connection; frames go from there
// to the one loop goroutine, which alone speaks to launcher/run, but for output, which goes straight to
// iof.Sink and never waits.
//
// The package starts no process, signals none, and decides nothing from gossip: a host is lost
// when its own session's stream says so. It does not read flags or the environment; cmd/mpiup
// fills a Config.
package launcher

import (
	"context"
	"fmt"

	"github.com/mpiup/mpiup/launcher/verdict"
)

// Run starts a job, waits for its end, prints the last lines and returns the exit code of
// docs/exit-codes.md. It blocks until all it started has ended. When ctx ends, the ranks are
// stopped as by SIGTERM.
func Run(ctx context.Context, cfg Config) int { return runJob(ctx, cfg, nil) }

// runJob is Run, or Exec where exec is not nil.
func runJob(ctx context.Context, cfg Config, exec *ExecConfig) int {
	cfg.Fill()
	r := newDriver(cfg)
	r.exec = exec
	cfg.Metrics.Run(r.remains.Now)
	err := r.ready()
	if err == nil {
		r, err = attempts(ctx, r)
	}
	if err != nil {
		if exec != nil {
			return exec.failed(End(&r.cfg.Reach, err))
		}
		return r.early(err)
	}
	if line := r.remains.Hours(); line != "" && exec == nil {
		r.say("%s", line)
	}
	var cause verdict.Fault
	bad := false
	if r.run != nil { // else nothing was to be started
		cause, bad = r.run.Verdict().Cause()
	}
	if !bad {
		if _, err := r.remains.Leave(nil, 0); err != nil {
			return r.early(unwritable("after the ranks had ended well", err))
		}
		r.cfg.Metrics.Ended(nil, r.remains)
		return 0
	}
	if exec != nil && cause.Event == verdict.Ended { // the command's own exit code says all
		if cause.Exit.Signal != 0 {
			return exec.failed(cause.Status())
		}
		return cause.Status()
	}
	var tail []string
	if r.sink != nil && (cause.Event == verdict.Ended || cause.Event == verdict.Aborted || cause.Event == verdict.Raised) {
		tail, _ = r.sink.Tail(cause.ID)
	}
	if r.sink != nil && r.sink.MidLine() {
		fmt.Fprintln(r.cfg.Stderr)
	}
	if exec != nil {
		return exec.failed(last(&r.cfg.Reach, r.run.Verdict().Exit(), r.run.Verdict().Explain(), tail))
	}
	return r.final(cause, tail)
}
