package launcher

import (
	"context"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/launcher/remains/report"
	"github.com/mpiup/mpiup/launcher/verdict"
)

// event is what the loop goroutine is told.
type event struct {
	host  int           // node rank
	frame *apiv1.Frame  // of that host, or
	end   bool          // that host's connection has ended: with err, the host was lost
	err   error         // of end, or of the output
	do    func()        // called on the loop's goroutine
	at    time.Duration // Clock time
}

// mailbox is the loop's queue. Its senders, readers of connections, must not block; what it
// holds is bounded by what ranks do (output, the bulk, does not pass here).
type mailbox struct {
	wake chan struct{} // capacity 1

	mu    sync.Mutex
	items []event // guarded by mu
}

func newMailbox() *mailbox { return &mailbox{wake: make(chan struct{}, 1)} }

func (m *mailbox) put(e event) {
	m.mu.Lock()
	m.items = append(m.items, e)
	m.mu.Unlock()
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

func (m *mailbox) take() []event {
	m.mu.Lock()
	defer m.mu.Unlock()
	items := m.items
	m.items = nil
	return items
}

// loop owns the run's state from launch until every host is done. It returns early only when
// ctx ends.
func (r *run) loop(ctx context.Context) {
	r.timers.quiet = time.NewTimer(time.Hour)
	r.timers.grace = time.NewTimer(time.Hour)
	r.timers.bound = time.NewTimer(time.Hour)
	r.timers.room = time.NewTimer(time.Hour)
	r.timers.answers = time.NewTimer(time.Hour)
	r.timers.missing = time.NewTimer(time.Hour)
	r.timers.lone = time.NewTimer(time.Hour)
	limit := time.NewTimer(time.Hour)
	timers := []*time.Timer{r.timers.quiet, r.timers.grace, r.timers.bound, r.timers.room, r.timers.answers, r.timers.missing, r.timers.lone, limit}
	stopTimers(timers...)
	defer stopTimers(timers...)
	if r.cfg.Timeout > 0 {
		limit.Reset(max(r.cfg.Timeout-time.Since(r.begun), 0))
	}
	done := ctx.Done()
	for r.active > 0 {
		select {
		case <-r.mail.wake:
			for _, e := range r.mail.take() {
				r.handle(e)
			}
			r.tellGone()
			r.judge()
		case s := <-r.cfg.Signals:
			r.signal(s)
		case <-limit.C:
			r.timeUp()
		case <-r.timers.missing.C:
			r.sayMissing()
		case <-r.timers.lone.C:
			r.sayLone()
		case <-r.timers.answers.C:
			r.inquired()
		case <-r.timers.grace.C: // the ranks have had their time after our INT or TERM
			r.timeToGo()
		case <-r.timers.quiet.C:
			r.say("stopping the ranks: %s", r.sentence())
		case <-r.timers.room.C:
			r.spawns.Late()
			r.serveSpawns()
			r.judge()
		case <-r.timers.bound.C:
			r.abandon()
		case <-done:
			done = nil
			r.stop("the launcher ends", false)
		}
	}
}

func stopTimers(ts ...*time.Timer) {
	for _, t := range ts {
		t.Stop()
	}
}

// judge stops the job after the first verdict.Fault.
func (r *run) judge() {
	asking := r.inquiry.last && r.inquiry.open != nil
	if r.job == jobStopping || !r.verdict.Any() || asking || r.leaving && !r.verdict.Urgent() || r.cfg.Linger && r.verdict.OnlyRanks() {
		return
	}
	if f, ok := r.verdict.Cause(); ok {
		r.stop(f.Sentence(), false)
	}
}

func (r *run) fail(f verdict.Fault) {
	f.At = max(f.At, 0)
	if f.At == 0 {
		f.At = r.clock.Now()
	}
	f.Command = r.exec != nil
	if !r.verdict.Any() {
		r.phase = r.job.String()
	}
	r.verdict.Add(f)
	r.cfg.Log.Debug("fault", "what", f.Sentence())
}

// quietStop is how long a stop may take before the user is told of it.
const quietStop = time.Second

// stopBound is what an agent gets, over the grace, to end what it was told to end.
const stopBound = 15 * time.Second

// stop ends all ranks: TERM, the grace, CONT and KILL; with now at once. The second call
// matters only with now.
func (r *run) stop(why string, now bool) {
	if r.job == jobStopping && !now {
		return
	}
	if next, ok := r.job.next(jobFailed); ok {
		r.job = next
	}
	if r.stopped.IsZero() {
		r.stopped = time.Now()
		r.remains.Event(report.Stopping, "", why)
	}
	r.copier.Gone()
	r.timers.grace.Stop()
	r.timers.quiet.Reset(quietStop)
	r.timers.bound.Reset(r.cfg.Grace + stopBound)
	for _, h := range r.places.hosts() {
		r.send(h.Index, (&apiv1.Stop{Why: why, Now: now}).Frame())
		r.idle(h.Index)
	}
}

// abandon gives up hosts that did not do what they were told in time, or ended ranks and do not say why.
func (r *run) abandon() {
	for _, h := range r.places.hosts() {
		late := r.job == jobStopping || r.at[h.Index].bye || r.at[h.Index].dropped
		if late && !h.Finished() {
			r.say("host %s did not end what it runs within %v; it is left to its lease", h.Name, r.cfg.Grace+stopBound)
			h.Finish()
		}
	}
}

// signal does what a signal to the launcher asks for.
func (r *run) signal(s os.Signal) {
	sig, ok := s.(syscall.Signal)
	if !ok {
		return
	}
	if sig == syscall.SIGWINCH && r.exec != nil {
		if r.exec.TTY {
			r.resize()
		}
		return
	}
	r.remains.Event(report.Signal, "", job.SignalName(int(sig)))
	a := r.signals.on(sig, time.Since(r.begun))
	if r.exec != nil && a.grace {
		a.say = ""
	}
	if a.say != "" {
		r.say("%s", a.say)
	}
	if a.grace {
		r.fail(verdict.Fault{Event: verdict.Signalled, ID: -1, Node: -1, Code: int(sig)})
		r.verdict.Holdup = r.missing()
		switch {
		case r.exec == nil && sig == syscall.SIGTERM:
			r.leave(fmt.Sprintf("got SIGTERM and passed it on: the ranks have %v to end", r.cfg.TermGrace), a.forward...)
			return
		case r.exec == nil || sig == syscall.SIGTERM: // a command may have its own use for Ctrl-C
			r.timers.grace.Reset(r.cfg.Grace)
		}
	}
	r.forwardSignals(a.forward)
	if a.kill {
		r.stop("the launcher was told to kill", true)
		r.unblock()
	}
}
