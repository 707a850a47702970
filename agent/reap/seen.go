package reap

import (
	"time"

	"github.com/mpiup/mpiup/agent/reap/proctree"
)

// glances is the time between two looks at who descends from a session's processes.
const glances = 5 * time.Second

// glance looks now and then, while processes run, who descends from them: one that has left its process session and has
// no environment cannot be told from a stranger's once its parents have ended.
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
		run := len(s.known) > 0
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
	seen := map[int]proctree.Inherited{}
	for _, p := range all {
		if !p.Alive() || !t.Descends(p.PID) {
			continue
		}
		if o := t.Owner(p.PID); o.Inherited && o.Session != "" {
			seen[p.PID] = proctree.Inherited{Session: o.Session, Start: p.Start}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for pid, m := range seen { // of a session that was stopped meanwhile
		if s.known[m.Session] == nil {
			delete(seen, pid)
		}
	}
	s.seen = seen
}
