package reap

import "time"

// glances is the time between two looks at who descends from a session's processes.
const glances = 5 * time.Second

// member is a process that was seen to descend from a session's.
type member struct {
	session string
	start   uint64
}

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
	if s.proc.verify() != nil {
		return
	}
	all, err := s.proc.snapshot()
	if err != nil {
		return
	}
	f := s.family(all)
	seen := map[int]member{}
	for _, p := range all {
		if !p.alive() || !f.descends(p.pid) {
			continue
		}
		if o := f.owner(p.pid); o.inherited && o.session != "" {
			seen[p.pid] = member{o.session, p.start}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for pid, m := range seen { // of a session that was stopped meanwhile
		if s.known[m.session] == nil {
			delete(seen, pid)
		}
	}
	s.seen = seen
}
