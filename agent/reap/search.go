package reap

import (
	"context"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mpiup/mpiup/agent/reap/proctree"
	"github.com/mpiup/mpiup/internal/awake"
)

// whom selects processes to signal or stop.
type whom struct {
	all     bool
	session string
}

func everything() whom         { return whom{all: true} }
func ofSession(id string) whom { return whom{session: id} }

func (w whom) matches(session string) bool { return w.all || session != "" && w.session == session }

// search looks repeatedly for the processes that w selects. What it has once seen to be one of
// them stays one, and so do its children, when parents have ended and environments are gone.
type search struct {
	s       *Supervisor
	w       whom
	claimed map[int]proctree.Stat
	waits   int // for unsettled processes, so far
}

func (s *Supervisor) search(w whom) *search {
	return &search{s: s, w: w, claimed: map[int]proctree.Stat{}}
}

// look returns the live processes, the table's own included, without this process and its guard;
// sure is false when a process that had no environment just then may be one of them. Nothing is
// found where /proc cannot be used.
func (l *search) look() (found []proctree.Stat, sure bool) {
	if _, err := peek(); l.s.adopts && err == unix.ECHILD || l.s.proc.Verify() != nil {
		return nil, true // orphans come to this process, so that without a child it has no descendant (wait(2))
	}
	all, err := l.s.proc.Snapshot()
	if err != nil {
		return nil, true
	}
	t := l.s.tree(all, l.claimed)
	sure = true
	now := map[int]proctree.Stat{}
	for _, p := range all {
		if !p.Alive() || p.PID == t.Self || t.Exempt[p.PID] || l.s.adopts && !t.Descends(p.PID) {
			continue
		}
		o := t.Owner(p.PID)
		// PID 1 answers for all its descendants; others only for what they know to be theirs.
		if o.Claimed || o.Ours && l.w.matches(o.Session) || l.w.all && t.Self == 1 {
			found = append(found, p)
			now[p.PID] = p
		} else if !o.Ours && l.s.adopts && l.s.proc.Unsettled(p) {
			sure = false
		}
	}
	l.claimed = now
	return found, sure
}

// maxWaits bounds the wait for processes in mid-exec, one of which may hang there.
const maxWaits = 1000

// settle is look, once all is settled or for as long as it may take.
func (l *search) settle(ctx context.Context) []proctree.Stat {
	for {
		found, sure := l.look()
		if sure || len(found) > 0 || l.waits >= maxWaits {
			return found
		}
		l.waits++
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return found
		}
	}
}

// tree is a snapshot, with what is known by now.
func (s *Supervisor) tree(all []proctree.Stat, claimed map[int]proctree.Stat) *proctree.Tree {
	k := proctree.Known{Self: os.Getpid(), Children: map[int]string{}, Leaders: map[int]proctree.Whose{}, Sessions: map[string]bool{},
		Exempt: map[int]bool{}, Claimed: claimed}
	s.mu.Lock()
	defer s.mu.Unlock()
	for pid, p := range s.table {
		if p.guard {
			k.Exempt[pid] = true
			continue
		}
		k.Children[pid] = p.session
	}
	for sid, l := range s.leaders {
		k.Leaders[sid] = l.Whose
	}
	for name := range s.known {
		k.Sessions[name] = true
	}
	k.Seen = s.seen // which is replaced, and not changed
	return proctree.New(all, k, s.proc)
}

// Left tells whether a process of a session lives, started here or not. Once none does, the session
// is forgotten. Where /proc cannot be used nothing is known to live.
func (s *Supervisor) Left(session string) bool {
	if session == "" {
		return false
	}
	ctx, cancel := awake.Within(context.Background(), killWait)
	defer cancel()
	if len(s.search(ofSession(session)).settle(ctx)) > 0 {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropSession(session)
	return false
}

// LeftBehind names the processes that live on in a session whose own ones have ended. Some end by themselves a moment after those that started them, as
// helpers of Python's multiprocessing do: they have patience for that, in which nothing is waited for where nobody is left.
func (s *Supervisor) LeftBehind(session string, patience time.Duration) (names []string) {
	w := ofSession(session)
	if session == "" || s.knowsNobody(w) {
		return nil
	}
	ctx, cancel := awake.Within(context.Background(), patience)
	defer cancel()
	l := s.search(w)
	targets := s.proc.Aim(l.settle(ctx), !s.noPidfd.Load())
	ended := targets.Await(ctx)
	targets.Close()
	if ended {
		return nil
	}
	found, _ := l.look()
	for _, p := range found {
		names = append(names, p.Name)
	}
	return names
}

// glances is the time between two looks at who descends from a session's processes.
const glances = 5 * time.Second

// glance looks now and then, while processes run that could not be marked, who descends from them. Once its parents have ended, a
// descendant that left its process session and has no environment looks like a stranger's.
func (s *Supervisor) glance(stop <-chan struct{}) {
	t := time.NewTicker(glances)
	defer t.Stop()
	for {
		select {
		case <-stop:
			return
		case <-t.C:
		}
		s.mu.Lock()
		run := len(s.known) > 0 && s.unmarked
		s.mu.Unlock()
		if run {
			s.note()
		}
	}
}

// note remembers the descendants of sessions that nothing but their parents tells, and forgets those that have ended.
func (s *Supervisor) note() {
	if s.proc.Verify() != nil {
		return
	}
	all, err := s.proc.Snapshot()
	if err != nil {
		return
	}
	t := s.tree(all, nil)
	seen := map[int]proctree.Whose{}
	for _, p := range all {
		if !p.Alive() || !t.Descends(p.PID) {
			continue
		}
		if o := t.Owner(p.PID); o.Inherited && o.Session != "" {
			seen[p.PID] = proctree.Whose{Session: o.Session, Start: p.Start}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for pid, m := range seen { // of a session that was stopped meanwhile
		if _, known := s.known[m.Session]; !known {
			delete(seen, pid)
		}
	}
	s.seen = seen
}
