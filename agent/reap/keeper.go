package reap

import (
	"context"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mpiup/mpiup/agent/reap/guard"
	"github.com/mpiup/mpiup/internal/awake"
)

// guardKeeper starts the guard of a supervisor.
type guardKeeper struct {
	s    *Supervisor
	poke chan struct{} // capacity 1
}

// wake asks for a guard. The spawner calls it when it has nothing to fork, so that a guard
// is never made before the ranks that wait.
func (k *guardKeeper) wake() {
	s := k.s
	s.mu.Lock()
	wanted := s.ledger != nil && s.guard == nil && len(s.leaders) > 0 && !s.closed
	s.mu.Unlock()
	if wanted {
		poke(k.poke)
	}
}

// run starts a guard when one is expected or the first process has been started, and another should it die, not more than one a second.
// Until it is there parent-death signals alone protect what was started.
func (k *guardKeeper) run() {
	s := k.s
	alive, deadEnd, err := os.Pipe() // ends when this process does
	if err != nil {
		s.cfg.Log.Warn("no guard: grandchildren may outlive a killed agent", "err", err)
		return
	}
	defer func() { _, _ = alive.Close(), deadEnd.Close() }()
	for said, first := false, s.cfg.GuardAfter > 0; ; {
		select {
		case <-k.poke:
		case <-s.ended.Done():
			return
		}
		s.mu.Lock()
		there := s.guard != nil
		s.mu.Unlock()
		if there {
			continue
		}
		if first {
			first = false
			short, cancel := awake.Within(s.ended, s.cfg.GuardAfter)
			<-short.Done()
			if cancel(); s.ended.Err() != nil {
				return
			}
		}
		if err := k.start(alive); err != nil && !said && !errors.Is(err, ErrEnded) {
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

// start hands the guard the pipe, the ledger and, where there are pidfds, this process.
func (k *guardKeeper) start(alive *os.File) error {
	s := k.s
	files := []*os.File{nil, nil, nil, alive, s.ledger.File}
	if fd, err := unix.PidfdOpen(os.Getpid(), 0); err == nil {
		self := os.NewFile(uintptr(fd), "pidfd")
		defer func() { _ = self.Close() }()
		files = append(files, self)
	}
	_, err := s.submit(context.Background(), &request{guard: true, path: s.cfg.GuardExe, reply: make(chan spawned, 1),
		cmd: Command{Argv: []string{guard.Name}, Env: guard.Env, Files: files}}, s.cfg.SpawnDeadline)
	return err
}

// end ends the guard once nothing is left to guard.
func (k *guardKeeper) end() {
	k.s.mu.Lock()
	p := k.s.guard
	k.s.mu.Unlock()
	if p != nil {
		_ = p.Signal(unix.SIGKILL)
	}
}
