package member

import (
	"bytes"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

// maxMembers bounds the table; more are refused with a line in the log.
const maxMembers = 4096

// entry is what is known of one agent process.
type entry struct {
	id string // its memberlist name: incarnation, ".", random
	meta

	alive       uint32 // highest memberlist incarnation it was heard of alive with
	suspectedIn uint32 // memberlist incarnation it is suspected in
	accusation  []byte // the suspect message as it travels
	suspect     bool
	left        bool
	dropped     bool          // suspected for too long, though memberlist may still wait
	told        bool          // another member calls it dead, or memberlist does, and it was not asked yet
	answered    bool          // it answered after others called it dead, which memberlist may believe yet
	unlisted    bool          // memberlist does not know it any more
	replaced    bool          // a newer life of its name answers and it does not
	age         time.Duration // of the suspicion or since it left, in our running time
}

// table gathers what memberlist tells (joins, leaves, changes of metadata) and what passes
// through the transport (suspicions, refutations), and publishes a view when it looks different.
//
//	         suspect message               15 s of our own running time, and asked in vain
//	alive ───────────────────▶ suspect ─────────────────────────────────▶ gone
//	  │  ◀───────────────────     ▲ alive message of a higher number
//	  │ dead message of its own   └───────────────────────────────────── (dropped only)
//	  └──────────────────────▶ left ──── 1 min, or a new life ──────────▶ gone
//
// memberlist's own timers, and others', go on while a process is stopped. So a death that they tell of takes nobody out: the member is
// asked first (told).
type table struct {
	self    string
	show    func([]Member) // called with mu held, so in order
	doubted func()         // one is to be asked whether it lives, or a member joined whose name another one has
	accused func()         // somebody suspects us

	mu   sync.Mutex
	byID map[string]*entry // guarded by mu
	last []Member          // guarded by mu; what was shown
}

// publish shows the members if they differ from what was shown.
func (t *table) publish() {
	if now := visible(maps.Values(t.byID)); !slices.Equal(now, t.last) {
		t.last = now
		t.show(now)
	}
}

// NotifyJoin, NotifyUpdate and NotifyLeave are memberlist's events; it holds its lock.
func (t *table) NotifyJoin(n *memberlist.Node) {
	m, err := describe(n)
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil || len(t.byID) >= maxMembers {
		return
	}
	twin := false
	for _, o := range t.byID {
		twin = twin || o.Name == m.Name && o.id != n.Name && !o.left
	}
	now := &entry{id: n.Name, meta: m}
	if old := t.byID[n.Name]; old != nil {
		now.alive = old.alive
	}
	t.byID[n.Name] = now
	t.publish()
	if twin {
		t.doubted()
	}
}

func (t *table) NotifyUpdate(n *memberlist.Node) {
	m, err := describe(n)
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.byID[n.Name]; e != nil && err == nil {
		e.meta = m
		t.publish()
	}
}

// NotifyLeave does not say whether the member left or died; one that was not suspected most
// likely left. Its dead message, which passes on soon, tells for sure (dead). One that was called dead may have been
// asked, and have answered, before memberlist came to that message: it is asked again.
func (t *table) NotifyLeave(n *memberlist.Node) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.byID[n.Name]
	switch {
	case e == nil || e.id == t.self:
		return
	case e.dropped:
		delete(t.byID, n.Name)
	case e.suspect || e.answered:
		e.suspect, e.told, e.unlisted, e.answered = true, true, true, false
		t.doubted()
	default:
		e.left, e.age = true, 0
	}
	t.publish()
}

// suspected, refuted and dead are what the transport saw pass.
func (t *table) suspected(a accusation, raw []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.byID[a.Node]
	if e == nil || e.id == t.self || e.left || a.Incarnation < e.alive {
		return
	}
	if e.suspect && a.Incarnation <= e.suspectedIn {
		return
	}
	if !e.suspect {
		e.age = 0
	}
	e.suspect, e.suspectedIn, e.accusation = true, a.Incarnation, bytes.Clone(raw)
	t.publish()
}

func (t *table) refuted(a accusation) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.byID[a.Node]
	if e == nil {
		return
	}
	e.alive = max(e.alive, a.Incarnation)
	e.answered = e.answered && a.Incarnation <= e.suspectedIn
	if e.suspect && a.Incarnation > e.suspectedIn {
		e.suspect, e.told, e.dropped, e.replaced, e.age, e.accusation = false, false, false, false, 0, nil
		t.publish()
	}
}

func (t *table) dead(a accusation) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.byID[a.Node]
	if e == nil || e.id == t.self || e.told || e.dropped || a.From == a.Node || a.Incarnation < e.alive {
		return
	}
	e.unlisted = e.unlisted || e.left
	e.left, e.suspect, e.told, e.suspectedIn, e.age = false, true, true, max(e.suspectedIn, a.Incarnation), 0
	t.publish()
	t.doubted()
}

// advance lets d of our running time pass and ends what has run out. due: a suspicion has.
func (t *table) advance(d time.Duration) (due bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, e := range t.byID {
		if !e.suspect && !e.left {
			continue
		}
		e.age += d
		switch {
		case e.left && e.age >= leftTime:
			delete(t.byID, id)
		case e.suspect && e.age >= suspicion && !e.dropped:
			due = true
		}
	}
	t.publish()
	return due
}

// suspects gives the accusations of those under suspicion, by the accused's address.
func (t *table) suspects() map[netip.AddrPort][]byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := map[netip.AddrPort][]byte{}
	for _, e := range t.byID {
		if e.suspect && !e.left {
			out[e.Addr] = e.accusation
		}
	}
	return out
}

// size counts the members that have not left, ourselves included.
func (t *table) size() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := 0
	for _, e := range t.byID {
		if !e.left && !e.dropped {
			n++
		}
	}
	return n
}

// addresses are those of the members that have not left nor been dropped.
func (t *table) addresses() map[netip.AddrPort]bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := map[netip.AddrPort]bool{}
	for _, e := range t.byID {
		if !e.left && !e.dropped && !e.replaced {
			out[e.Addr] = true
		}
	}
	return out
}
