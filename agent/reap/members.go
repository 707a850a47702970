package reap

import (
	"context"
	"os"
	"time"
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
	claimed map[int]stat
	waits   int // for unsettled processes, so far
}

func (s *Supervisor) search(w whom) *search {
	return &search{s: s, w: w, claimed: map[int]stat{}}
}

// look returns the live processes, the table's own included, without this process and its guard;
// sure is false when a process that had no environment just then may be one of them. Nothing is
// found where /proc cannot be used.
func (l *search) look() (found []stat, sure bool) {
	if l.s.proc.verify() != nil {
		return nil, true
	}
	all, err := l.s.proc.snapshot()
	if err != nil {
		return nil, true
	}
	f := l.s.family(all)
	f.claimed = l.claimed
	sure = true
	now := map[int]stat{}
	for _, p := range all {
		if !p.alive() || p.pid == f.self || f.exempt[p.pid] || l.s.adopts && !f.descends(p.pid) {
			continue
		}
		o := f.owner(p.pid)
		// PID 1 answers for all its descendants; others only for what they know to be theirs.
		if o.claimed || o.ours && l.w.matches(o.session) || l.w.all && f.self == 1 {
			found = append(found, p)
			now[p.pid] = p
		} else if !o.ours && l.s.adopts && (p.unsettled || l.s.proc.changes(p)) {
			sure = false
		}
	}
	l.claimed = now
	return found, sure
}

// maxWaits bounds the wait for processes in mid-exec, one of which may hang there.
const maxWaits = 1000

// settle is look, once all is settled or for as long as it may take.
func (l *search) settle(ctx context.Context) []stat {
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

// family is one look at all processes, with what the supervisor knew then.
type family struct {
	self    int
	procs   map[int]stat
	table   map[int]string    // own children → session
	leaders map[int]leader    // process session → session
	known   map[string]bool   // sessions that have not been stopped
	exempt  map[int]bool      // the guard
	environ func(int) string  // MPIUP_SESSION of a process
	claimed map[int]stat      // found by an earlier look of the same search
	seen    map[int]member    // found by a glance
	memo    map[int]ownership // answers so far
}

type ownership struct {
	session string
	ours    bool
	claimed bool // by an earlier look, or a descendant of such a one
	// inherited: nothing tells but its parents, now or when they lived.
	inherited bool
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
	f.seen = s.seen // which is replaced, and not changed
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

// owner says to which session a process belongs: by the table, by its process session, by its
// environment, by an earlier look, else by its parent; ours is false for strangers. A nested
// mpiup's ranks carry a session that is not ours and belong where their parent does.
func (f *family) owner(pid int) ownership {
	if o, ok := f.memo[pid]; ok {
		return o
	}
	f.memo[pid] = ownership{} // a loop of parents, in a torn snapshot, ends here
	o := f.ownership(pid)
	f.memo[pid] = o
	return o
}

func (f *family) ownership(pid int) ownership {
	p, ok := f.procs[pid]
	if !ok || pid == f.self || f.exempt[pid] {
		return ownership{}
	}
	if name, ok := f.table[pid]; ok {
		return ownership{session: name, ours: true}
	}
	if l, ok := f.leaderOf(p); ok {
		return ownership{session: l.session, ours: true}
	}
	if name := f.environ(pid); name != "" && f.known[name] {
		return ownership{session: name, ours: true}
	}
	if c, ok := f.claimed[pid]; ok && c.start == p.start {
		return ownership{claimed: true}
	}
	if m, ok := f.seen[pid]; ok && m.start == p.start {
		return ownership{session: m.session, ours: true, inherited: true}
	}
	o := f.owner(p.ppid)
	o.inherited = o.ours
	return o
}

// leaderOf is whose process session or process group p is in. Both keep the number of the process that was started here, which
// leads its group also where it has no session of its own.
func (f *family) leaderOf(p stat) (leader, bool) {
	for _, id := range []int{p.sid, p.pgrp} {
		if l, ok := f.leaders[id]; ok && !f.reused(id, l) {
			return l, true
		}
	}
	return leader{}, false
}

// reused: the number of a process session stays taken while it has members, so a process of that
// number that is not its first leader means that the old session is empty and gone.
func (f *family) reused(sid int, l leader) bool {
	p, ok := f.procs[sid]
	return ok && l.start != 0 && p.start != l.start
}

// Left tells whether a process of a session lives, started here or not. Once none does, the session
// is forgotten. Where /proc cannot be used nothing is known to live.
func (s *Supervisor) Left(session string) bool {
	if session == "" {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), killWait)
	defer cancel()
	if len(s.search(ofSession(session)).settle(ctx)) > 0 {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropSession(session)
	return false
}
