package session

import (
	"log/slog"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/mpiup/mpiup/agent/reap"
)

// maxKept bounds the sessions of which something was left behind; beyond that the oldest is ended.
const maxKept = 1024

// kept are sessions whose command has ended well and whose processes may live on, as they would
// under sshd: the daemons of a launcher that was given us as its ssh, and what a user's command put
// into the background. They end with the agent, or when another incarnation of the same launcher
// comes: no lease holds them.
type kept struct {
	super *reap.Supervisor
	log   *slog.Logger
	grace time.Duration // between TERM and KILL

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
func (k *kept) keep(session string, of launcherID) {
	if !k.super.Left(session) {
		return
	}
	k.log.Info("what the command left behind lives on", "session", short(session), "launcher", of.Host)
	if over := k.add(session, of); over != "" {
		k.log.Warn("too many commands left something behind; the oldest's is ended", "session", short(over), "most", maxKept)
		k.super.StopSession(over, syscall.SIGTERM, k.grace)
	}
}

// end ends what those incarnations of a launcher left behind.
func (k *kept) end(identity string, ends func(incarnation string) bool) {
	for _, id := range k.take(identity, ends) {
		k.super.StopSession(id, syscall.SIGTERM, k.grace)
	}
}

// live tells whether anything that was left behind lives.
func (k *kept) live() bool {
	k.mu.Lock()
	list := slices.Clone(k.list)
	k.mu.Unlock()
	return slices.ContainsFunc(list, func(l leftover) bool { return k.super.Left(l.session) })
}
