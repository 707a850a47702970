package proctree

// Known is what is known of processes besides what /proc shows. A Tree only reads it.
type Known struct {
	Self     int             // this process, which belongs to nobody
	Children map[int]string  // its own children → session
	Leaders  map[int]Whose   // process session → session, also when its leader has ended
	Sessions map[string]bool // sessions that have not been stopped
	Exempt   map[int]bool    // the guard
	Claimed  map[int]Stat    // found by an earlier look of the same search
	Seen     map[int]Whose   // found by a look, while their parents lived, to descend from a session's
}

// Whose is to which session a process belongs. Start tells it from a later one that got the same number; 0: not known.
type Whose struct {
	Session string
	Start   uint64
}

// Tree is one look at all processes, with what was known then.
type Tree struct {
	Known
	procs map[int]Stat
	proc  Proc
	marks map[uint64]string // Mark of a session that was not stopped → its name
	memo  map[int]Ownership // answers so far
}

// New makes a tree of a snapshot of proc.
func New(all []Stat, known Known, proc Proc) *Tree {
	t := &Tree{Known: known, procs: make(map[int]Stat, len(all)), proc: proc, marks: make(map[uint64]string, len(known.Sessions)), memo: map[int]Ownership{}}
	for name := range known.Sessions {
		t.marks[Mark(name)] = name
	}
	for _, p := range all {
		t.procs[p.PID] = p
	}
	return t
}

// Ownership is whose a process is.
type Ownership struct {
	Session   string
	Ours      bool // false: a stranger's
	Claimed   bool // by an earlier look, or a descendant of such a one
	Inherited bool // nothing tells but its parents, now or when they lived
}

// Descends says whether pid has this process among its ancestors. With a subreaper the chain of
// parents of every descendant leads here.
func (t *Tree) Descends(pid int) bool {
	for range len(t.procs) {
		p, ok := t.procs[pid]
		if !ok || p.PPID == 0 {
			return false
		}
		if p.PPID == t.Self {
			return true
		}
		pid = p.PPID
	}
	return false
}

// Owner says to which session a process belongs: by the table, by its process session, by its
// environment, by its mark, by an earlier look, else by its parent. A nested
// mpiup's ranks carry a session that is not ours and belong where their parent does.
func (t *Tree) Owner(pid int) Ownership {
	if o, ok := t.memo[pid]; ok {
		return o
	}
	t.memo[pid] = Ownership{} // a loop of parents, in a torn snapshot, ends here
	o := t.ownership(pid)
	t.memo[pid] = o
	return o
}

func (t *Tree) ownership(pid int) Ownership {
	p, ok := t.procs[pid]
	if !ok || pid == t.Self || t.Exempt[pid] {
		return Ownership{}
	}
	if name, ok := t.Children[pid]; ok {
		return Ownership{Session: name, Ours: true}
	}
	if l, ok := t.leaderOf(p); ok {
		return Ownership{Session: l.Session, Ours: true}
	}
	if name := t.proc.Session(pid); name != "" && t.Sessions[name] {
		return Ownership{Session: name, Ours: true}
	}
	if name, ok := t.marks[t.proc.Mark(pid)]; ok {
		return Ownership{Session: name, Ours: true}
	}
	if c, ok := t.Claimed[pid]; ok && c.Start == p.Start {
		return Ownership{Claimed: true}
	}
	if m, ok := t.Seen[pid]; ok && m.Start == p.Start {
		return Ownership{Session: m.Session, Ours: true, Inherited: true}
	}
	o := t.Owner(p.PPID)
	o.Inherited = o.Ours
	return o
}

// leaderOf is whose process session or process group p is in. Both keep the number of the process that was started here, which
// leads its group also where it has no session of its own.
func (t *Tree) leaderOf(p Stat) (Whose, bool) {
	for _, id := range []int{p.SID, p.Group} {
		if l, ok := t.Leaders[id]; ok && !t.reused(id, l) {
			return l, true
		}
	}
	return Whose{}, false
}

// reused: the number of a process session stays taken while the session has members. So a process of that number that
// is not its first leader shows that the old session is gone.
func (t *Tree) reused(sid int, l Whose) bool {
	p, ok := t.procs[sid]
	return ok && l.Start != 0 && p.Start != l.Start
}

// Lineage is the session that a process descends from. The first of its ancestors that is in the table, or in a known
// process session, decides. So no process passes for one of another session by what it has in its environment. That
// counts where ancestors have ended: of a process that this one has adopted. "" for all others.
func (t *Tree) Lineage(pid int) string {
	last := 0
	for range len(t.procs) {
		p, ok := t.procs[pid]
		if !ok || t.Exempt[pid] {
			return ""
		}
		if pid == t.Self {
			break
		}
		if name, ok := t.Children[pid]; ok {
			return name
		}
		if l, ok := t.leaderOf(p); ok {
			return l.Session
		}
		last, pid = pid, p.PPID
	}
	if pid != t.Self || last == 0 {
		return ""
	}
	if name := t.proc.Session(last); t.Sessions[name] {
		return name
	}
	return ""
}
