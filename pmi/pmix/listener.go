package pmix

import (
	"context"
	"time"

	"github.com/mpiup/mpiup/pmi/pmix/bfrops"
	"github.com/mpiup/mpiup/pmi/pmix/ptl"
)

const (
	defaultHandler = -1 << 31
	maxCodes       = 1024        // that a connection may ask for
	maxPending     = 64          // events of ranks that a client has not read yet; more are dropped
	maxPendingEnds = 2 * maxTold // events of processes' ends beside them
	commandNotify  = 12

	maxRecent  = 32               // events that late listeners are told
	recentTime = 30 * time.Second // and for how long
)

// listener is what a connection wants to be told. Guarded by Server.mu but for more.
type listener struct {
	codes map[int]bool
	all   bool
	queue []Event       // not sent yet
	more  chan struct{} // has one when something was queued
}

func newListener() listener {
	return listener{codes: map[int]bool{}, more: make(chan struct{}, 1)}
}

// wants: handlers for all codes are not told what is marked as not for them.
func (l *listener) wants(e *Event) bool {
	return l.codes[e.Code] || l.all && !isTrue(e.Infos, "pmix.evnondef")
}

// recent is an event that a rank raised, for those who register a handler shortly after: libpmix
// servers keep such, and clients count on it where ranks do not come to the same point together.
type recent struct {
	event Event
	until time.Time
	told  map[*conn]bool
}

// Notify gives an event to this host's ranks that asked for its code. It does not block: a client
// that does not read its events loses them.
func (s *Server) Notify(e Event) { s.notify(e, nil) }

func (s *Server) notify(e Event, from *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	told := map[*conn]bool{from: true}
	for c := range s.conns {
		if c != from && s.deliver(c, e) {
			told[c] = true
		}
	}
	if !e.fleeting && !isTrue(e.Infos, "pmix.evnocache") {
		s.recent = append(s.recent, recent{e, time.Now().Add(recentTime), told})
		s.recent = s.recent[max(0, len(s.recent)-maxRecent):]
	}
}

// deliver queues an event for c if it is meant; mu is held.
func (s *Server) deliver(c *conn, e Event) bool {
	if !c.running || !c.events.wants(&e) || !e.reaches(c.process()) {
		return false
	}
	room := maxPending
	if e.fleeting {
		room += maxPendingEnds
	}
	if len(c.events.queue) >= room {
		s.log.Warn("PMIx event dropped", "id", c.id(), "code", e.Code)
		return true
	}
	c.events.queue = append(c.events.queue, e)
	select {
	case c.events.more <- struct{}{}:
	default:
	}
	return true
}

// register asks for events of codes, or of all; recent ones follow.
func (c *conn) register(_ context.Context, r *bfrops.Reader) (*bfrops.Writer, error) {
	codes := bfrops.Counted[int64](r, bfrops.Status)
	if r.Err() != nil {
		return nil, r.Err()
	}
	s := c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(c.events.codes)+len(codes) > maxCodes {
		return nil, errOutOfResource
	}
	if len(codes) == 0 {
		c.events.all = true
	}
	for _, code := range codes {
		c.events.codes[int(code)] = true
	}
	now := time.Now()
	for _, old := range s.recent {
		if now.Before(old.until) && !old.told[c] && s.deliver(c, old.event) {
			old.told[c] = true
		}
	}
	return nil, success
}

func (c *conn) deregister(_ context.Context, r *bfrops.Reader) (*bfrops.Writer, error) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	for r.More() {
		code := int(bfrops.One[int64](r, bfrops.Status))
		if code == defaultHandler {
			c.events.all = false
		}
		delete(c.events.codes, code)
	}
	return nil, r.Err()
}

// tell sends events until the connection ends.
func (c *conn) tell(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.events.more:
		}
		for ctx.Err() == nil {
			e, ok := c.nextEvent()
			if !ok {
				break
			}
			if err := c.sendEvent(e); err != nil {
				c.s.log.Debug("PMIx event", "id", c.id(), "code", e.Code, "cause", err)
			}
		}
	}
}

func (c *conn) nextEvent() (e Event, ok bool) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if len(c.events.queue) == 0 {
		c.events.queue = nil // what it has grown to
		return Event{}, false
	}
	e, c.events.queue = c.events.queue[0], c.events.queue[1:]
	return e, true
}

func (c *conn) sendEvent(e Event) error {
	w := c.writer()
	w.Group(bfrops.Command, uint64(commandNotify))
	w.Status(e.Code)
	w.Group(bfrops.ProcType, e.Source)
	w.Infos(e.Infos)
	w.Group(bfrops.Range, uint64(e.Range))
	b, err := w.Bytes()
	if err != nil {
		return err
	}
	return c.send(b, ptl.TagEvent)
}
