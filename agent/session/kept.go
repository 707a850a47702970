package session

import (
	"context"
	"slices"
	"sync"
)

// maxKept bounds the sessions of which something was left behind; beyond that the oldest is ended.
const maxKept = 1024

// kept are sessions whose command has ended well and whose processes may live on, as they would
// under sshd: the daemons of a launcher that was given us as its ssh, and what a user's command put
// into the background. They end with the agent, or when another incarnation of the same launcher
// comes: no lease holds them. The zero value is ready for use.
type kept struct {
	mu   sync.Mutex
	list []leftover // oldest first, guarded by mu
}

type leftover struct {
	session string
	of      launcherID
}

// add notes a session, and returns the one that has to go for it, "" mostly.
func (k *kept) add(session string, of launcherID) (over string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.list = append(k.list, leftover{session, of})
	if len(k.list) > maxKept {
		over = k.list[0].session
		k.list = k.list[1:]
	}
	return over
}

// take takes out a launcher's sessions of the incarnations that end.
func (k *kept) take(identity string, ends func(incarnation string) bool) (sessions []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.list = slices.DeleteFunc(k.list, func(l leftover) bool {
		if l.of.identity != identity || !ends(l.of.Incarnation) {
			return false
		}
		sessions = append(sessions, l.session)
		return true
	})
	return sessions
}

// keep lets what a session left behind live on; nothing is noted where nothing is left.
func (t *Table) keep(s *session) {
	if !t.cfg.Super.Left(s.id) {
		return
	}
	s.log.Info("what the command left behind lives on")
	if over := t.kept.add(s.id, s.launcher); over != "" {
		t.cfg.Log.Warn("too many commands left something behind; the oldest's is ended", "session", short(over), "most", maxKept)
		t.cfg.Super.StopSession(context.Background(), over, t.cfg.Grace)
	}
}

// EndKept ends what those incarnations of a launcher left behind here on purpose.
func (t *Table) EndKept(identity string, ends func(incarnation string) bool) {
	for _, id := range t.kept.take(identity, ends) {
		t.cfg.Super.StopSession(context.Background(), id, t.cfg.Grace)
	}
}

// keptLive tells whether anything of the kept sessions lives.
func (t *Table) keptLive() bool {
	t.kept.mu.Lock()
	list := slices.Clone(t.kept.list)
	t.kept.mu.Unlock()
	return slices.ContainsFunc(list, func(l leftover) bool { return t.cfg.Super.Left(l.session) })
}
