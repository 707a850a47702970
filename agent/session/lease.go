package session

import (
	"context"
	"fmt"
	"log/slog"
	"time"
)

// Tick is called with every step of the clock. It ends sessions whose launchers are gone, and says that IdleExit has passed
// since the last one of a job.
func (t *Table) Tick() (idle bool) {
	now, all := t.cfg.Clock.Now(), t.all()
	for _, s := range all {
		s.tick(now)
	}
	return t.pace.pass(now, len(all)) && !t.kept.live()
}

// Alone is for how long there has been no session, as of the last Tick.
func (t *Table) Alone() time.Duration { return t.pace.alone(t.cfg.Clock.Now()) }

// tick is called with every step of the agent's clock and decides whether the launcher is gone.
func (s *session) tick(now time.Duration) {
	s.mu.Lock()
	streams, lostAt, st, til := s.streams, s.lostAt, s.state, s.pendingTil
	s.mu.Unlock()
	if st >= closing {
		return
	}
	if st == launched {
		s.exchange.Look(now)
	}
	silent := s.link.Silent()
	var text string
	switch {
	case streams > 0 && silent > s.lease:
		text = fmt.Sprintf("launcher %s has been silent for %v", s.launcher.Host, s.lease)
	case streams == 0 && now-lostAt > closedLease:
		text = fmt.Sprintf("the connection of launcher %s closed and it did not come back within %v",
			s.launcher.Host, closedLease)
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
	if by != nil {
		s.fence(by)
	}
	s.deserted.Store(true)
	s.end(text)
}
