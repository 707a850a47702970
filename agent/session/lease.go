package session

import (
	"bytes"
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/mpiup/mpiup/agent/member"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/wire"
	"golang.org/x/sys/unix"
)

// Tick is called with every step of the clock. It ends sessions whose launchers are gone, and says that IdleExit has passed
// since the last one of a job.
func (t *Table) Tick() (idle bool) {
	now, all := t.cfg.Clock.Now(), t.all()
	step, gathers := wire.Slow, false
	for _, s := range all {
		s.tick(now)
		waits, quick := s.gathers()
		gathers, step = gathers || waits, min(step, quick)
	}
	idle = t.pace.pass(now, len(all), gathers) && !t.kept.live()
	if len(all) == 0 && !t.pace.asleep() {
		step = wire.Easy
	}
	t.cfg.Clock.Pace(step) // what needs shorter ones from now on says so
	return idle
}

// gathers says that the session's launcher looks for other hosts, and in which steps its time is to be counted.
func (s *session) gathers() (yes bool, step time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	yes = s.state == opened
	long := s.lease >= 20*wire.Slow
	switch calm := s.streams > 0 && s.pendingTil == 0 && s.state <= launched; {
	case calm && yes && long:
		return yes, wire.Slow // its silence alone is timed
	case calm && (yes || long): // and what ranks wait for, which takes seconds
		return yes, wire.Easy
	}
	return yes, wire.Quick
}

// Alone is for how long there has been no session, as of the last Tick.
func (t *Table) Alone() time.Duration { return t.pace.alone(t.cfg.Clock.Now()) }

// tick is called with every step of the agent's clock and decides whether the launcher is gone.
func (s *session) tick(now time.Duration) {
	s.mu.Lock()
	streams, lostAt, st, til, lease := s.streams, s.lostAt, s.state, s.pendingTil, s.lease
	answering, answered := s.answering > 0, s.answered
	s.mu.Unlock()
	if st >= closing || answering {
		return
	}
	if st == launched {
		s.exchange.Look(now)
	}
	if st == held {
		s.tickHeld(now, streams)
		return
	}
	silent := min(s.link.Silent(), now-answered)
	var text string
	switch {
	case streams > 0 && silent > lease:
		text = fmt.Sprintf("launcher %s has been silent for %v", s.by().Host, lease)
	case streams == 0 && now-lostAt > closedLease:
		text = fmt.Sprintf("the connection of launcher %s closed and it did not come back within %v",
			s.by().Host, closedLease)
	default:
		s.mu.Lock()
		s.pendingTil = 0
		s.mu.Unlock()
		return
	}
	// What has arrived must be read before anybody is called dead, but nobody can put the
	// end off for ever by sending bytes that mean nothing.
	if til == 0 {
		s.mu.Lock()
		s.pendingTil = now + pendingBound
		s.mu.Unlock()
		return
	}
	if now < til && s.table.cfg.Unread(streams == 0) {
		return
	}
	level := slog.LevelWarn
	if st < launched { // one that came to look, or to ask for the plan
		level = slog.LevelDebug
	}
	s.log.Log(context.Background(), level, "launcher lost", "cause", text)
	s.mu.Lock()
	by := s.rival
	s.mu.Unlock()
	if by != nil && by.ends(s) {
		s.fence(by)
	}
	if !s.lose(now) {
		s.deserted.Store(true)
		s.end(text)
	}
}

// lose begins to wait for another launcher, if this one is lost and has said what another needs.
func (s *session) lose(now time.Duration) bool {
	silent := s.link.Silent()
	s.mu.Lock()
	defer s.mu.Unlock()
	to, err := s.state.next(evLose)
	if err != nil || s.offer == nil || s.leaving {
		return false
	}
	s.state, s.heldSince, s.pendingTil = to, now, 0
	s.record.Hold(silent) // before anybody can see that it is held, and take it
	s.log.Warn("the ranks wait for another launcher", "for", s.hold)
	return true
}

// tickHeld ends a session for which no other launcher has come. Its own may come back: one that was cut off.
func (s *session) tickHeld(now time.Duration, streams int) {
	silent := s.link.Silent()
	s.noteDepartures()
	s.mu.Lock()
	lost, hold := now-s.heldSince, s.hold
	s.mu.Unlock()
	switch {
	case streams > 0 && silent < lost:
		s.back()
	case lost > hold:
		text := fmt.Sprintf("launcher %s was lost and no other came within %v (--on-launcher-loss hold)", s.by().Host, hold)
		s.log.Warn("no other launcher came", "within", hold)
		s.deserted.Store(true)
		s.end(text)
	}
}

// maxDeparted bounds the agents of which the next launcher is told.
const maxDeparted = 4096

// noteDepartures keeps which agents say goodbye while no launcher is there to hear it: gossip forgets it after a minute.
func (s *session) noteDepartures() {
	g := s.table.cfg.Gossip()
	if g == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range g.View().Members {
		if m.State == member.Left && len(s.gone) < maxDeparted {
			s.gone[m.Incarnation] = true
		}
	}
}

// departed are the incarnations of those agents.
func (s *session) departed() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.gone))
}

// back goes on with the launcher that was taken for lost.
func (s *session) back() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != held {
		return
	}
	s.state, _ = s.state.next(evTake)
	s.lostAt = s.table.cfg.Clock.Now()
	s.log.Info("the launcher is back")
	if err := s.record.Back(); err != nil {
		s.wg.Go(func() { s.end("the launcher takes no frames: " + err.Error()) })
	}
}

// keep notes what another launcher needs to take over, or that none can any more.
func (s *session) keep(h *apiv1.Hold) error {
	if s.record == nil {
		return errors.New("a run is described that nobody is to take over")
	}
	if err := checkHold(h); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch first := s.offer == nil; {
	case h.Withdrawn != "":
		s.offer = nil
		s.log.Info("no other launcher can take over", "cause", h.Withdrawn)
	default:
		if s.offer = h; first {
			s.log.Info("another launcher can take over", "for", s.hold)
		}
	}
	return nil
}

// note keeps what a launcher does that decides whether another can take over: ranks that were told to end are not handed over.
func (s *session) note(f *apiv1.Frame) {
	s.record.Got(f)
	sig := f.GetSignal()
	if f.GetStop() == nil && (sig == nil || len(sig.Ranks) > 0) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leaving = s.leaving || sig == nil || sig.Once
	switch unix.Signal(sig.GetNumber()) {
	case unix.SIGINT, unix.SIGQUIT, unix.SIGTERM:
		s.leaving = true
	case unix.SIGSTOP:
		s.paused = true
	case unix.SIGCONT:
		s.paused = false
	}
}

// Succeeded ends the streams of a launcher whose session is another's now.
type Succeeded struct{ By string }

func (e *Succeeded) Error() string { return "launcher " + e.By + " has taken this run over" }

// takeOver makes the session that of another launcher, which has just asked for it.
func (s *session) takeOver(o *apiv1.Open, by launcherID) error {
	s.mu.Lock()
	if s.state == held {
		s.state, _ = s.state.next(evTake)
	}
	before, paused := s.launcher.Host, s.paused
	s.owned(o, by)
	s.adopted, s.paused, s.missed, s.lostAt, s.pendingTil = true, false, false, s.table.cfg.Clock.Now(), 0
	s.mu.Unlock()
	s.log.Warn("another launcher takes over", "by", o.Launcher, "of", before, "incarnation", short(o.Incarnation))
	if paused {
		s.log.Warn("the launcher before had stopped the ranks, which go on now")
		for _, p := range s.jobs.Processes() {
			p.Signal(unix.SIGCONT)
		}
	}
	return s.record.Adopt(&Succeeded{o.Launcher})
}

// owns says whether a launcher of that name with that secret has the session, and whether it is not the first that does.
func (s *session) owns(name string, secret []byte) (ours, succeeded bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return subtle.ConstantTimeCompare(s.secret, secret) == 1 && s.launcher.identity == name, s.adopted
}

// secondsLeft is for how many seconds more the session waits for another launcher; 0: it has one.
func (s *session) secondsLeft() uint32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != held {
		return 0
	}
	return uint32(max(s.left()/time.Second, 1))
}

// offered is what a launcher that sends o has to know of the session; nil: nothing.
func (s *session) offered(me launcherID, o *apiv1.Open) *apiv1.Held {
	if s.record == nil {
		return nil
	}
	silent := s.link.Silent()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.offer == nil || s.leaving || s.state != held && s.state != launched {
		return nil
	}
	mayTake := o.OnLoss == apiv1.Loss_LOSS_HOLD && me.takes(s.launcher)
	earlier := s.launcher.identity == me.identity && s.launcher.Incarnation != me.Incarnation // whose ranks would end, or be waited for
	h := &apiv1.Held{Session: s.id, Hold: s.offer, Launcher: s.launcher.Host, LeftMs: uint64(max(s.left(), 0) / time.Millisecond)}
	switch {
	case s.state == launched && s.streams > 0 && silent <= unheard:
		if h.Taken = true; !s.adopted || !mayTake || !bytes.Equal(s.offer.Command, o.Command) || me.Succeeds(s.launcher.Life) {
			return nil
		}
	case !mayTake && !earlier:
		return nil
	}
	return h
}

// left is how long a session waits for another launcher, or would. mu is held.
func (s *session) left() time.Duration {
	if s.state == held {
		return s.hold - (s.table.cfg.Clock.Now() - s.heldSince)
	}
	return s.hold
}

// ends says that our launcher's ranks replace those that o holds. Its user said so, or o holds none.
func (s *session) ends(o *session) bool { return o.record == nil || s.fences && s.by().takes(o.by()) }

// leaseOf is how long a silent launcher keeps the session.
func (s *session) leaseOf() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lease
}

// waits says that the session is without launcher, and that another may come.
func (s *session) waits() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state == held
}
