package agent

import (
	"context"
	"slices"
	"sync"

	"github.com/mpiup/mpiup/agent/ranks"
)

// maxKept bounds the sessions of which something was left behind; beyond that the oldest is ended.
const maxKept = 1024

// kept are sessions whose command has ended well and whose processes may live on, as they would
// under sshd: the daemons of a launcher that was given us as its ssh, and what a user's command put
// into the background. They end with the agent, or when another incarnation of the same launcher
// comes: no lease holds them. The zero value is ready for use.
type kept struct {
	mu    sync.Mutex
	order []string              // session ids, oldest first, guarded by mu
	of    map[string]launcherID // guarded by mu
}

// add notes a session, and returns the one that has to go for it, "" mostly.
func (k *kept) add(session string, of launcherID) (over string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.of == nil {
		k.of = map[string]launcherID{}
	}
	k.of[session] = of
	k.order = append(k.order, session)
	if len(k.order) > maxKept {
		over = k.order[0]
		k.order = k.order[1:]
		delete(k.of, over)
	}
	return over
}

// take takes out a launcher's sessions of the incarnations that end.
func (k *kept) take(identity string, ends func(incarnation string) bool) (sessions []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	stay := k.order[:0]
	for _, id := range k.order {
		of := k.of[id]
		if of.identity == identity && ends(of.Incarnation) {
			sessions = append(sessions, id)
			delete(k.of, id)
			continue
		}
		stay = append(stay, id)
	}
	k.order = stay
	return sessions
}

// keep lets what a session left behind live on; nothing is noted where nothing is left.
func (a *Agent) keep(s *session) {
	if !a.super.Left(s.id) {
		return
	}
	s.log.Info("what the command left behind lives on")
	if over := a.kept.add(s.id, s.launcher); over != "" {
		a.cfg.Log.Warn("too many commands left something behind; the oldest's is ended", "session", short(over), "most", maxKept)
		a.super.StopSession(context.Background(), over, a.cfg.Grace)
	}
}

// endKept ends what those incarnations of a launcher left behind here.
func (a *Agent) endKept(identity string, ends func(incarnation string) bool) {
	for _, id := range a.kept.take(identity, ends) {
		a.super.StopSession(context.Background(), id, a.cfg.Grace)
	}
}

// keptLive tells whether anything of the kept sessions lives.
func (a *Agent) keptLive() bool {
	a.kept.mu.Lock()
	ids := slices.Clone(a.kept.order)
	a.kept.mu.Unlock()
	return slices.ContainsFunc(ids, a.super.Left)
}

// keeps says whether what the session's command left behind may stay: it asked for it, its command
// has ended by itself, and its launcher took its leave.
func (s *session) keeps(steps []*ranks.Job) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.done && s.fencedBy == nil && len(steps) == 1 && steps[0].Launch.Exec.GetKeep() && steps[0].Completed()
}
