package reap

import (
	"context"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mpiup/mpiup/internal/awake"
)

// StopSession ends every process of a session. It sends sig and SIGCONT to the groups started here (Process.Ask), then to other
// descendants (setsid, double fork). After grace it kills all; grace 0 kills at once. It returns once none is left, with nil,
// or after a bound, with the pids that even SIGKILL did not end. While it works no process of the session can be started.
func (s *Supervisor) StopSession(session string, sig unix.Signal, grace time.Duration) (left []int) {
	if session == "" {
		return nil
	}
	s.mu.Lock()
	s.stopping[session]++
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.stopping[session]--; s.stopping[session] == 0 {
			delete(s.stopping, session)
		}
		if len(left) == 0 {
			s.dropSession(session)
		}
	}()
	s.awaitFork(context.Background(), session) // whose child cannot be found yet, and starts others when it is left alone
	return s.stop(ofSession(session), sig, grace)
}

// dropSession forgets a session that has no process any more. mu is held.
func (s *Supervisor) dropSession(session string) {
	for sid, l := range s.leaders {
		if l.Session == session && s.table[sid] == nil {
			s.ledger.Remove(l.slot)
			delete(s.leaders, sid)
		}
	}
	delete(s.empty, session)
	if slot, known := s.known[session]; known {
		s.ledger.Remove(slot)
		delete(s.known, session)
	}
}

// knowsNobody says that a look through all processes would find none that w selects. PID 1 looks for all of them all the same,
// since it answers for whoever descends from it.
func (s *Supervisor) knowsNobody(w whom) bool {
	if w.all && os.Getpid() == 1 || len(s.own(w)) > 0 {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range s.known {
		if w.matches(name) && !s.empty[name] {
			return false
		}
	}
	for _, l := range s.leaders {
		if w.matches(l.Session) && !s.empty[l.Session] {
			return false
		}
	}
	for _, m := range s.seen {
		if w.matches(m.Session) {
			return false
		}
	}
	return true
}

// own are the unreaped children that w selects, the guard excepted.
func (s *Supervisor) own(w whom) []*Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []*Process
	for _, p := range s.table {
		if !p.guard && w.matches(p.session) {
			out = append(out, p)
		}
	}
	return out
}

func (s *Supervisor) stop(w whom, sig unix.Signal, grace time.Duration) []int {
	if s.knowsNobody(w) {
		return nil
	}
	l := s.search(w)
	if grace > 0 {
		polite, cancel := awake.Within(context.Background(), grace)
		defer cancel()
		if l.terminate(polite, sig) {
			return nil
		}
	}
	hard, cancel := awake.Within(context.Background(), killWait)
	defer cancel()
	return l.kill(hard)
}

// terminate asks all to end, by sig, and says whether all did before ctx. Leaders come first, as they may
// want to end their children in order; each process is asked once.
func (l *search) terminate(ctx context.Context, sig unix.Signal) bool {
	found, sure := l.look() // while parentage still tells
	own := l.s.own(l.w)
	if len(found)+len(own) == 0 && sure { // the usual end: all went by themselves
		return ctx.Err() == nil
	}
	for _, p := range own {
		_ = p.Ask(sig)
		if p.terminal {
			_ = p.Signal(unix.SIGHUP) // an interactive shell ignores SIGTERM
		}
		_ = p.Signal(unix.SIGCONT) // a stopped process does not see the others
	}
	if !awaitAll(ctx, own) {
		return false
	}
	asked := map[int]uint64{} // pid → starttime
	for clean := 0; clean < 2; {
		rest := l.settle(ctx)
		if len(rest) == 0 {
			if clean++; len(asked) == 0 {
				break
			}
			continue
		}
		clean = 0
		targets := l.s.proc.Aim(rest, !l.s.noPidfd.Load())
		for _, t := range targets {
			if start, ok := asked[t.PID]; !ok || start != t.Start {
				asked[t.PID] = t.Start
				if !l.s.askedOther(t, sig) {
					t.Signal(sig)
				}
				t.Signal(unix.SIGCONT)
			}
		}
		ended := targets.Await(ctx)
		targets.Close()
		if !ended {
			return false
		}
	}
	return ctx.Err() == nil && len(l.s.own(l.w)) == 0
}

// kill ends all. A process that forks while it is being looked for is found by the next look;
// once anything was killed, two looks in a row have to find nothing.
func (l *search) kill(ctx context.Context) []int {
	for again := false; ; {
		targets := l.s.proc.Aim(l.settle(ctx), !l.s.noPidfd.Load()) // first, while parentage still tells
		own := l.s.own(l.w)
		for _, p := range own {
			_ = p.Signal(unix.SIGKILL)
			_ = p.Signal(unix.SIGCONT)
		}
		targets.Signal(unix.SIGKILL)
		ended := awaitAll(ctx, own) && targets.Await(ctx)
		targets.Close()
		none := len(own) == 0 && len(targets) == 0
		switch {
		case none && !again:
			return nil
		case !ended || ctx.Err() != nil:
			return l.leftOver()
		}
		again = !none
	}
}

func (l *search) leftOver() []int {
	var pids []int
	for _, p := range l.s.own(l.w) {
		pids = append(pids, p.pid)
	}
	found, _ := l.look()
	for _, m := range found {
		pids = append(pids, m.PID)
	}
	slices.Sort(pids)
	return slices.Compact(pids)
}

func awaitAll(ctx context.Context, own []*Process) bool {
	for _, p := range own {
		select {
		case <-p.done:
		case <-ctx.Done():
			return false
		}
	}
	return true
}
