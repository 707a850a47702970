package launcher

import (
	"syscall"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/job"
)

// leave begins the end of a run whose pod, or a worker's, is to be gone soon: every rank gets SIGTERM and has the
// whole of Config.TermGrace to save what it has, whoever ends or fails first meanwhile. What is left then is killed: a
// second grace would outlast the pod.
func (r *run) leave(why string, signals ...syscall.Signal) {
	if r.leaving || r.job == jobStopping {
		return
	}
	r.leaving = true
	r.say("%s", why)
	r.forwardSignals(signals)
	r.timers.grace.Reset(r.cfg.TermGrace)
}

// forwardSignals sends signals to all ranks; an agent that is being ended has sent its own SIGTERM.
func (r *run) forwardSignals(signals []syscall.Signal) {
	for _, s := range signals {
		for _, h := range r.places.hosts() {
			at := &r.at[h.Index]
			if (at.running > 0 || r.job == jobLaunching) && (at.ending == "" || s != syscall.SIGTERM) {
				r.send(h.Index, (&apiv1.Signal{Number: int32(s)}).Frame())
			}
		}
	}
}

// timeToGo: the ranks have had their time after our INT, or after a TERM to us or to an agent.
func (r *run) timeToGo() {
	why := "the launcher got " + job.SignalName(int(r.signals.first))
	if r.signals.first == 0 {
		why = r.sentence()
	}
	leaving := r.leaving
	r.leaving = false
	r.stop(why, leaving)
}
