package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/mpiup/mpiup/agent/exchange"
	"github.com/mpiup/mpiup/agent/handover"
	"github.com/mpiup/mpiup/agent/host"
	"github.com/mpiup/mpiup/agent/look"
	"github.com/mpiup/mpiup/agent/ranks"
	"github.com/mpiup/mpiup/agent/reap/proctree"
	"github.com/mpiup/mpiup/agent/stdio"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/awake"
	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/internal/wire"
)

// session is one launcher process's use of this agent, from its first Open until nothing it
// started is left.
type session struct {
	table    *Table
	id       string        // hex, also MPIUP_SESSION of all it starts
	born     time.Duration // Clock time of its first Open
	log      *slog.Logger
	link     *wire.Link
	record   *handover.Record // for the next launcher; nil: there is to be none
	exchange *exchange.Exchange
	fences   bool       // what is held for another launcher ends when this one starts ranks
	jobs     ranks.Jobs // none is added once a stop has begun
	hints    host.Hints
	trail    trail
	deserted atomic.Bool    // the lease has run out: no launcher takes anything
	wg       sync.WaitGroup // goroutines that start and stop things
	carriers sync.WaitGroup // of streams; none is added once the state is closed

	life    context.Context // ends when the session is closed
	finish  context.CancelFunc
	serving context.Context // of what serves all jobs; ends when their processes have
	unserve context.CancelFunc
	ending  chan struct{} // closed when the session is to end
	empty   chan struct{} // closed when, after that, nothing it started is left

	mu         sync.Mutex
	launcher   launcherID      // guarded by mu; by reads it
	secret     []byte          // guarded by mu
	lease      time.Duration   // guarded by mu
	hold       time.Duration   // how long ranks live on without launcher, guarded by mu
	heldSince  time.Duration   // Clock time, guarded by mu
	offer      *apiv1.Hold     // what the next launcher needs; nil: nobody can take over, guarded by mu
	leaving    bool            // the ranks were told to end, guarded by mu
	paused     bool            // the ranks were stopped by a signal, guarded by mu
	gone       map[string]bool // incarnations of agents that left while no launcher was there, guarded by mu
	adopted    bool            // a launcher has taken it over from another, guarded by mu
	state      state           // guarded by mu
	streams    int             // streams that were admitted and live, guarded by mu
	answering  int             // of these, that have no answer to their Open yet, guarded by mu
	answered   time.Duration   // Clock time of the last such answer: before it a launcher has nothing to say, guarded by mu
	missed     bool            // the log says that the connection was lost, guarded by mu
	lostAt     time.Duration   // Clock time when streams became 0, guarded by mu
	pendingTil time.Duration   // Clock time until which unread bytes put expiry off, guarded by mu
	endText    string          // why it ends, guarded by mu
	done       bool            // the launcher said Bye, guarded by mu
	undrain    func()          // ends drain, guarded by mu
	fenced     bool            // a newer incarnation has taken over, guarded by mu
	rival      *session        // another incarnation's, which waits for a word of our launcher, guarded by mu
	tee        *stdio.Tee      // nil: output goes to the launcher only, guarded by mu
	sealed     bool            // nothing of jobs is left, and nothing may be added to wg any more, guarded by mu
}

func newSession(t *Table, o *apiv1.Open, by launcherID) *session {
	now := t.cfg.Clock.Now()
	s := &session{
		table:  t,
		id:     o.Session,
		born:   now,
		log:    t.cfg.Log.With("session", short(o.Session), "launcher", o.Launcher),
		link:   wire.NewLink(t.cfg.Clock),
		trail:  trail{log: t.cfg.Log, session: short(o.Session)},
		ending: make(chan struct{}),
		empty:  make(chan struct{}),
		gone:   map[string]bool{},
	}
	s.owned(o, by)
	s.fences = o.OnLoss == apiv1.Loss_LOSS_FENCE
	var way exchange.Link = s.link
	if o.OnLoss == apiv1.Loss_LOSS_HOLD {
		begun := time.Now() // a launcher compares ages of several hosts, for which the steps of wire.Clock are too coarse
		s.record = handover.New(s.link, func() time.Duration { return time.Since(begun) }, func(id, n uint32) {
			if p := s.jobs.Process(id); p != nil {
				p.Grant(n)
			}
		})
		way = s.record
	}
	s.serving, s.unserve = context.WithCancel(context.Background())
	s.life, s.finish = context.WithCancel(context.Background())
	s.exchange = exchange.New(exchange.Config{Link: way, Clock: t.cfg.Clock, Serving: s.serving, Go: s.while, End: s.end,
		MayLook: func() error { return s.trail.mayLook(t.cfg.Policy) },
		Shared:  &ranks.Shared{Config: t.cfg.Config, ID: s.id, Log: s.log, Jobs: &s.jobs, Hints: &s.hints, Audit: s.trail.begins}})
	return s
}

// owned makes a session that of the launcher which sent o. mu is held, or nobody knows the session yet.
func (s *session) owned(o *apiv1.Open, by launcherID) {
	s.launcher, s.secret = by, o.Secret
	s.lease, s.hold = cmp.Or(milliseconds(o.LeaseMs, maxLease), defaultLease), milliseconds(o.HoldMs, maxLease)
}

// milliseconds are a time of the launcher's, which may be any, up to a bound.
func milliseconds(n uint64, most time.Duration) time.Duration {
	return time.Duration(min(n, uint64(most/time.Millisecond))) * time.Millisecond
}

// by is whose session it is now.
func (s *session) by() launcherID {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.launcher
}

// while runs f on a goroutine that the session waits for; at its very end it does not.
func (s *session) while(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.sealed {
		s.wg.Go(f)
	}
}

// stop ends the session's processes; the session itself goes on, to tell how they ended.
func (s *session) stop(why string, now bool) {
	s.mu.Lock()
	to, err := s.state.next(evStop)
	if err == nil {
		s.state = to
	}
	s.mu.Unlock()
	if err != nil {
		return
	}
	steps := s.jobs.All()
	grace := graceOf(steps)
	if now {
		grace = 0
	}
	s.while(func() { s.stopSteps(steps, why, syscall.SIGTERM, grace) })
}

// stopSteps ends the processes of all jobs: sig, grace, CONT and KILL, then whatever of theirs is
// left. It returns when nothing is, or after a bound that only a process in uninterruptible sleep
// reaches.
func (s *session) stopSteps(steps []*ranks.Job, why string, sig syscall.Signal, grace time.Duration) {
	if len(steps) == 0 {
		return
	}
	grace = min(grace, maxGrace)
	for _, st := range steps {
		st.MarkStopped(time.Now().Add(grace), why)
	}
	left := s.table.cfg.Super.StopSession(s.id, sig, grace)
	if len(left) > 0 {
		s.exchange.Notice(true, "processes %v do not end (stopped for: %s); they wait for a device or file system%s", left, why, stuck(left))
	}
}

// untilLeft is how long processes may live on after the last one of their job, as helpers do, before they count as left behind.
const untilLeft = 100 * time.Millisecond

// tellLeftBehind says what a job that went well has left behind here, before it is ended: with the launchers that mpiup stands in for it may have lived
// on. Where output was cut off it was said already that something is there.
func (s *session) tellLeftBehind(steps []*ranks.Job) {
	s.mu.Lock()
	leave := s.done && !s.fenced
	s.mu.Unlock()
	what := "ranks"
	for _, st := range steps {
		if !leave || !st.Completed() || st.Cut() {
			return
		}
		if st.Launch.Exec != nil {
			what = "the command"
		}
	}
	names := s.table.cfg.Super.LeftBehind(s.id, untilLeft)
	if len(names) == 0 {
		return
	}
	slices.Sort(names)
	names = slices.Compact(names)
	for i := range names {
		names[i] = visible.Line(names[i])
	}
	const most = 4
	s.exchange.Notice(true, "%s left processes behind, which end with the job: %s", what, visible.Few(names, most, ", "))
}

// stuck is what the first few of processes that do not end wait for.
func stuck(left []int) (where string) {
	const most = 4
	for _, pid := range left[:min(len(left), most)] {
		if w := look.Stuck(proctree.Proc{Root: "/proc"}, pid); w != "" {
			where += fmt.Sprintf("; process %d in %s", pid, w)
		}
	}
	return where
}

// graceOf is the time between TERM and KILL that the launcher asked for.
func graceOf(steps []*ranks.Job) (grace time.Duration) {
	for _, st := range steps {
		grace = max(grace, milliseconds(st.Launch.Job.GraceMs, maxGrace))
	}
	return grace
}

// preemptSignal is by what ranks want to be told that their host is taken away: all jobs of a run want the same.
func preemptSignal(steps []*ranks.Job) syscall.Signal {
	if len(steps) == 0 || steps[0].Launch.Job.PreemptSignal == 0 {
		return syscall.SIGTERM
	}
	return syscall.Signal(steps[0].Launch.Job.PreemptSignal)
}

// end begins the end of the session; run does the rest. The first reason counts.
func (s *session) end(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	to, err := s.state.next(evEnd)
	if err != nil {
		return
	}
	if s.state != closing {
		s.endText = text
		close(s.ending)
	}
	s.state = to
}

// over says that the session has been told to end.
func (s *session) over() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state >= closing
}

// refuse ends a session that a newer incarnation of its launcher has overtaken.
func (s *session) refuse(text string) {
	s.mu.Lock()
	s.fenced = true
	s.mu.Unlock()
	s.end(text)
}

// run waits for the end of the session and then leaves nothing of it behind.
func (s *session) run() {
	select {
	case <-s.ending:
	case <-s.table.cfg.Ending.Done():
		why := context.Cause(s.table.cfg.Ending)
		s.link.Send((&apiv1.Ending{Why: why.Error(), Shutdown: errors.Is(why, ErrShutdown)}).Frame())
		s.end(why.Error())
	}
	s.mu.Lock()
	text, fenced := s.endText, s.fenced
	s.mu.Unlock()
	s.log.Debug("session ends", "why", text)
	steps := s.jobs.All()
	sig, grace := syscall.SIGTERM, graceOf(steps)
	if s.table.cfg.Ending.Err() != nil {
		sig, grace = preemptSignal(steps), s.table.cfg.Grace // the pod's, of which the launcher's job knows nothing
	}
	if s.keeps(steps) {
		s.table.kept.keep(s.id, s.by())
	} else {
		s.tellLeftBehind(steps)
		s.stopSteps(steps, text, sig, grace)
	}
	for _, st := range steps {
		if s.deserted.Load() { // nobody takes what the ranks wrote: waiting for that would never end
			st.Abandon()
		}
		st.Wait()
	}
	s.unserve()
	s.mu.Lock()
	s.sealed = true
	s.mu.Unlock()
	s.wg.Wait()
	s.hints.Close()
	for _, st := range steps {
		st.RemoveFiles()
	}
	if len(steps) > 0 {
		s.table.cfg.Host.RemoveSegments()
	}
	close(s.empty)
	c := &apiv1.Closed{Text: text}
	if fenced {
		c.Refusal = apiv1.Refusal_REFUSAL_FENCED
	}
	s.link.Send(c.Frame())
	s.drain()
	s.mu.Lock()
	s.state, _ = s.state.next(evGone)
	s.mu.Unlock()
	s.finish()
	s.carriers.Wait()
	s.link.Wait()
	s.table.forget(s.id)
}

// drain waits until the launcher has all that was sent, for as long as there is a launcher: one
// that has read Closed hangs up without a word.
func (s *session) drain() {
	ctx, cancel := awake.Within(s.life, drainBound)
	defer cancel()
	s.mu.Lock()
	connected := s.streams > 0
	s.undrain = cancel
	s.mu.Unlock()
	if connected {
		s.link.Ease(ctx, 0) // the error is the bound, after which the launcher is left behind
	}
}

// bye is the launcher's leave: it has heard all it wants.
func (s *session) bye() {
	s.mu.Lock()
	s.done = true
	s.mu.Unlock()
	s.end("the launcher is done")
}

// busy says that the session has jobs whose processes, or what serves them, have not all ended.
func (s *session) busy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.sealed && len(s.jobs.All()) > 0
}

// keeps says whether what the session's command left behind may stay: it asked for it, its command
// has ended by itself, and its launcher took its leave.
func (s *session) keeps(steps []*ranks.Job) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.done && !s.fenced && len(steps) == 1 && steps[0].Launch.Exec.GetKeep() && steps[0].Completed()
}
