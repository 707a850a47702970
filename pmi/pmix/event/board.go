package event

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/mpiup/mpiup/pmi/pmix/bfrops"
)

const (
	defaultHandler = -1 << 31
	maxCodes       = 1024        // that a listener may ask for
	maxPending     = 64          // events of ranks that a client has not read yet; more are dropped
	maxPendingEnds = 2 * MaxTold // events of processes' ends beside them

	maxRecent  = 32               // events that late listeners are told
	recentTime = 30 * time.Second // and for how long
)

// Board is where a host's ranks are told of events. NewBoard makes one.
type Board struct {
	log *slog.Logger

	mu        sync.Mutex
	listeners map[*Listener]struct{} // guarded by mu
	recent    []recent               // guarded by mu; oldest first
}

// Listener is what one connection of a rank wants to be told. Board.Listen makes one.
type Listener struct {
	board *Board
	who   bfrops.Proc
	more  chan struct{} // has one when something was queued

	codes map[int]bool // guarded by Board.mu
	all   bool         // guarded by Board.mu
	queue []Event      // guarded by Board.mu; not sent yet
	quit  bool         // guarded by Board.mu
}

// recent is an event that a rank raised, for those who register a handler shortly after: libpmix
// servers keep such, and clients count on it where ranks do not come to the same point together.
type recent struct {
	event Event
	until time.Time
	told  map[*Listener]bool
}

// NewBoard returns a board that nobody listens to.
func NewBoard(log *slog.Logger) *Board {
	return &Board{log: log, listeners: map[*Listener]struct{}{}}
}

// Listen lets a process listen, which has asked for nothing yet.
func (b *Board) Listen(who bfrops.Proc) *Listener {
	l := &Listener{board: b, who: who, codes: map[int]bool{}, more: make(chan struct{}, 1)}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.listeners[l] = struct{}{}
	return l
}

// Quit ends it: the listener is told nothing more.
func (l *Listener) Quit() {
	b := l.board
	b.mu.Lock()
	defer b.mu.Unlock()
	l.quit = true
	delete(b.listeners, l)
	for _, r := range b.recent {
		delete(r.told, l)
	}
}

// Notify gives an event to those that asked for its code, but not to the listener whose process raised it (nil:
// none here). It does not block: a listener that does not read its events loses them.
func (b *Board) Notify(e Event, from *Listener) {
	b.mu.Lock()
	defer b.mu.Unlock()
	told := map[*Listener]bool{from: true}
	for l := range b.listeners {
		if l != from && b.deliver(l, e) {
			told[l] = true
		}
	}
	if !e.fleeting && !bfrops.IsTrue(e.Infos, "pmix.evnocache") {
		b.recent = append(b.recent, recent{e, time.Now().Add(recentTime), told})
		b.recent = b.recent[max(0, len(b.recent)-maxRecent):]
	}
}

// deliver queues an event for l if it is meant; mu is held.
func (b *Board) deliver(l *Listener, e Event) bool {
	if l.quit || !l.wants(&e) || !e.reaches(l.who) {
		return false
	}
	room := maxPending
	if e.fleeting {
		room += maxPendingEnds
	}
	if len(l.queue) >= room {
		b.log.Warn("PMIx event dropped", "namespace", l.who.Namespace, "rank", l.who.Rank, "code", e.Code)
		return true
	}
	l.queue = append(l.queue, e)
	select {
	case l.more <- struct{}{}:
	default:
	}
	return true
}

// wants: handlers for all codes are not told what is marked as not for them.
func (l *Listener) wants(e *Event) bool {
	return l.codes[e.Code] || l.all && !bfrops.IsTrue(e.Infos, "pmix.evnondef")
}

// Register asks for events of codes, or of all where none is named; recent ones follow.
func (l *Listener) Register(codes []int64) bfrops.Code {
	b := l.board
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(l.codes)+len(codes) > maxCodes {
		return bfrops.ErrOutOfResource
	}
	if len(codes) == 0 {
		l.all = true
	}
	for _, code := range codes {
		l.codes[int(code)] = true
	}
	now := time.Now()
	for _, old := range b.recent {
		if now.Before(old.until) && !old.told[l] && b.deliver(l, old.event) {
			old.told[l] = true
		}
	}
	return bfrops.Success
}

// Deregister takes Register of one code back.
func (l *Listener) Deregister(code int64) {
	l.board.mu.Lock()
	defer l.board.mu.Unlock()
	if code == defaultHandler {
		l.all = false
	}
	delete(l.codes, int(code))
}

// Next waits for an event; false once ctx has ended.
func (l *Listener) Next(ctx context.Context) (e Event, ok bool) {
	for ctx.Err() == nil {
		if e, ok = l.take(); ok {
			return e, true
		}
		select {
		case <-l.more:
		case <-ctx.Done():
		}
	}
	return Event{}, false
}

func (l *Listener) take() (e Event, ok bool) {
	l.board.mu.Lock()
	defer l.board.mu.Unlock()
	if len(l.queue) == 0 {
		l.queue = nil // what it has grown to
		return Event{}, false
	}
	e, l.queue = l.queue[0], l.queue[1:]
	return e, true
}
