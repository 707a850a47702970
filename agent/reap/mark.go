package reap

import (
	"golang.org/x/sys/unix"

	"github.com/mpiup/mpiup/agent/reap/proctree"
)

// mark gives this process, and so its next child, the session's mark; back undoes it. Nothing in the kernel looks at that limit, so
// that this process has it for a moment changes nothing. A sandbox may refuse it, and somebody may have bounded it.
func (s *Supervisor) mark(session string) (back func()) {
	if session == "" {
		return func() {}
	}
	var before unix.Rlimit
	err := unix.Getrlimit(unix.RLIMIT_LOCKS, &before)
	if err == nil {
		err = unix.Setrlimit(unix.RLIMIT_LOCKS, &unix.Rlimit{Cur: proctree.Mark(session), Max: before.Max})
	}
	if err == nil {
		return func() { _ = unix.Setrlimit(unix.RLIMIT_LOCKS, &before) }
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.unmarked {
		s.unmarked = true
		s.cfg.Log.Info("processes cannot be marked: one that clears its environment and leaves its process session may be lost", "err", err)
	}
	return func() {}
}
