package reap

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mpiup/mpiup/agent/reap/guard"
)

// wakeKeeper asks for a guard. The spawner calls it when it has nothing to fork, so that a guard
// is never made before the ranks that wait.
func (s *Supervisor) wakeKeeper() {
	s.mu.Lock()
	wanted := s.ledger != nil && s.keeper == nil && len(s.leaders) > 0 && !s.closed
	s.mu.Unlock()
	if !wanted {
		return
	}
	select {
	case s.pokeHelp <- struct{}{}:
	default:
	}
}

// keepGuard starts a guard when the first process has been started, and another should it die.
// Until it is there parent-death signals alone protect what was started.
func (s *Supervisor) keepGuard() {
	alive, deadEnd, err := os.Pipe() // ends when this process does
	if err != nil {
		s.cfg.Log.Warn("no guard: grandchildren may outlive a killed agent", "err", err)
		return
	}
	defer func() { _, _ = alive.Close(), deadEnd.Close() }()
	for said := false; ; {
		select {
		case <-s.pokeHelp:
		case <-s.ended.Done():
			return
		}
		if err := s.startGuard(alive); err != nil && !said && !errors.Is(err, ErrEnded) {
			said = true // and tried again with the next process
			s.cfg.Log.Warn("no guard: grandchildren may outlive a killed agent", "err", err)
		}
		select { // not more than one guard a second, whoever kills them
		case <-time.After(time.Second):
		case <-s.ended.Done():
			return
		}
	}
}

// startGuard hands the guard the pipe, the ledger and, where there are pidfds, this process.
func (s *Supervisor) startGuard(alive *os.File) error {
	files := []*os.File{nil, nil, nil, alive, s.ledger.File}
	if fd, err := unix.PidfdOpen(os.Getpid(), 0); err == nil {
		self := os.NewFile(uintptr(fd), "pidfd")
		defer func() { _ = self.Close() }()
		files = append(files, self)
	}
	req := &request{guard: true, path: s.cfg.GuardExe, reply: make(chan spawned, 1),
		cmd: Command{Argv: []string{guard.Name}, Env: guard.Env, Files: files}}
	select {
	case s.requests <- req:
	case <-s.ended.Done():
		return nil
	}
	return (<-req.reply).err
}

// endGuard ends the guard once nothing is left to guard.
func (s *Supervisor) endGuard() {
	s.mu.Lock()
	p := s.keeper
	s.mu.Unlock()
	if p != nil {
		_ = p.Signal(unix.SIGKILL)
	}
}
