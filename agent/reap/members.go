package reap

import "os"

// whom selects processes to signal or stop.
type whom struct {
	all     bool
	session string
}

func everything() whom         { return whom{all: true} }
func ofSession(id string) whom { return whom{session: id} }

func (w whom) matches(session string) bool { return w.all || session != "" && w.session == session }

// members are the live processes that w selects, the table's own included, without this process
// and its guard. Empty when /proc cannot be used.
func (s *Supervisor) members(w whom) []stat {
	if s.proc.verify() != nil {
		return nil
	}
	all, err := s.proc.snapshot()
	if err != nil {
		return nil
	}
	f := s.family(all)
	var out []stat
	for _, p := range all {
		if !p.alive() || p.pid == f.self || f.exempt[p.pid] || s.adopts && !f.descends(p.pid) {
			continue
		}
		session, ours := f.sessionOf(p.pid)
		// PID 1 answers for all its descendants; others only for what they know to be theirs.
		if ours && w.matches(session) || w.all && f.self == 1 {
			out = append(out, p)
		}
	}
	return out
}

// family is one look at all processes, with what the supervisor knew then.
type family struct {
	self    int
	procs   map[int]stat
	table   map[int]string    // own children → session
	leaders map[int]leader    // process session → session
	known   map[string]bool   // sessions that have not been stopped
	exempt  map[int]bool      // the guard
	environ func(int) string  // MPIUP_SESSION of a process
	memo    map[int]ownership // answers so far
}

type ownership struct {
	session string
	ours    bool
}

func (s *Supervisor) family(all []stat) *family {
	f := &family{self: os.Getpid(), procs: make(map[int]stat, len(all)), table: map[int]string{}, leaders: map[int]leader{},
		known: map[string]bool{}, exempt: map[int]bool{}, environ: s.proc.session, memo: map[int]ownership{}}
	for _, p := range all {
		f.procs[p.pid] = p
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for pid, p := range s.table {
		if p.guard {
			f.exempt[pid] = true
			continue
		}
		f.table[pid] = p.session
	}
	for sid, l := range s.leaders {
		f.leaders[sid] = l
	}
	for name := range s.known {
		f.known[name] = true
	}
	return f
}

// descends says whether pid has this process among its ancestors. With a subreaper the chain of
// parents of every descendant leads here.
func (f *family) descends(pid int) bool {
	for range len(f.procs) {
		p, ok := f.procs[pid]
		if !ok || p.ppid == 0 {
			return false
		}
		if p.ppid == f.self {
			return true
		}
		pid = p.ppid
	}
	return false
}

// sessionOf says to which session a process belongs, by the table, by its process session, by
// its environment, else by its parent; ours is false for strangers. A nested mpiup's ranks carry
// a session that is not ours and belong where their parent does.
func (f *family) sessionOf(pid int) (string, bool) {
	if o, ok := f.memo[pid]; ok {
		return o.session, o.ours
	}
	f.memo[pid] = ownership{} // a loop of parents, in a torn snapshot, ends here
	o := f.ownership(pid)
	f.memo[pid] = o
	return o.session, o.ours
}

func (f *family) ownership(pid int) ownership {
	p, ok := f.procs[pid]
	if !ok || pid == f.self || f.exempt[pid] {
		return ownership{}
	}
	if name, ok := f.table[pid]; ok {
		return ownership{name, true}
	}
	if l, ok := f.leaders[p.sid]; ok && !f.reused(p.sid, l) {
		return ownership{l.session, true}
	}
	if name := f.environ(pid); name != "" && f.known[name] {
		return ownership{name, true}
	}
	session, ours := f.sessionOf(p.ppid)
	return ownership{session, ours}
}

// reused: the number of a process session stays taken while it has members, so a process of that
// number that is not its first leader means that the old session is empty and gone.
func (f *family) reused(sid int, l leader) bool {
	p, ok := f.procs[sid]
	return ok && l.start != 0 && p.start != l.start
}
