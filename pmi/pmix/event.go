package pmix

import (
	"context"

	"github.com/mpiup/mpiup/pmi/pmix/bfrops"
	"github.com/mpiup/mpiup/pmi/pmix/ptl"
)

// Codes of events that an agent has to tell (pmix_common.h).
const (
	EventAborted        = -7   // a process ended with an error
	EventRequested      = -8   // MPI_Abort
	EventLeft           = -200 // a process ended without finalizing
	EventEnded          = -201 // a process ended
	EventHostDown       = -231
	EventKilledBy       = -402 // a process ended by a signal
	defaultHandler      = -1 << 31
	rangeLocal          = 2
	rangeProcLocal      = 7
	maxCodes            = 1024 // that a connection may ask for
	maxPending          = 64   // events that a client has not read yet; more are dropped
	commandNotify       = 12
	rangeSession   byte = 4
)

// Event is something that ranks may have asked to be told.
type Event struct {
	Code   int
	Source bfrops.Proc
	Infos  []bfrops.Info
	Range  byte // pmix_data_range_t
}

// RankEvent is an event about one of the run's processes; false if no job that was added has it.
func (s *Server) RankEvent(code, id int) (Event, bool) {
	p, ok := s.proc(id)
	return Event{Code: code, Source: p, Range: rangeSession, Infos: []bfrops.Info{info("pmix.evproc", bfrops.ProcType, p)}}, ok
}

// Notify gives an event to this host's ranks that asked for its code. It does not block: a client
// that does not read its events loses them.
func (s *Server) Notify(e Event) { s.notify(e, nil) }

func (s *Server) notify(e Event, from *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		if c == from || !c.running || !c.events.wants(e.Code) {
			continue
		}
		select {
		case c.events.queue <- e:
		default:
			s.log.Warn("PMIx event dropped", "id", c.id(), "code", e.Code)
		}
	}
}

// listener is what a connection wants to be told. Guarded by Server.mu but for queue.
type listener struct {
	codes map[int]bool
	all   bool
	queue chan Event
}

func newListener() listener {
	return listener{codes: map[int]bool{}, queue: make(chan Event, maxPending)}
}

func (l *listener) wants(code int) bool { return l.all || l.codes[code] }

func (c *conn) register(_ context.Context, r *bfrops.Reader) (*bfrops.Writer, error) {
	codes := bfrops.Counted[int64](r, bfrops.Status)
	if r.Err() != nil {
		return nil, r.Err()
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if len(c.events.codes)+len(codes) > maxCodes {
		return nil, errOutOfResource
	}
	if len(codes) == 0 {
		c.events.all = true
	}
	for _, code := range codes {
		c.events.codes[int(code)] = true
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

// notify is an event that a rank raises. Itself it has told already.
func (c *conn) notify(_ context.Context, r *bfrops.Reader) (*bfrops.Writer, error) {
	e := Event{
		Code:   int(bfrops.One[int64](r, bfrops.Status)),
		Range:  byte(bfrops.One[uint64](r, bfrops.Range)),
		Infos:  r.Infos(),
		Source: bfrops.Proc{Namespace: c.ns.Namespace, Rank: uint32(c.rank)},
	}
	if r.Err() != nil {
		return nil, r.Err()
	}
	if e.Range == rangeProcLocal {
		return nil, success
	}
	c.s.notify(e, c)
	if f := c.s.cfg.Hooks.OnEvent; f != nil && e.Range != rangeLocal {
		f(e)
	}
	return nil, success
}

// tell sends events until the connection ends.
func (c *conn) tell(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-c.events.queue:
			w := c.writer()
			w.Group(bfrops.Command, uint64(commandNotify))
			w.Status(e.Code)
			w.Group(bfrops.ProcType, e.Source)
			w.Infos(e.Infos)
			w.Group(bfrops.Range, uint64(e.Range))
			b, err := w.Bytes()
			if err == nil {
				err = c.send(b, ptl.TagEvent)
			}
			if err != nil {
				c.s.log.Debug("PMIx event", "id", c.id(), "code", e.Code, "cause", err)
			}
		}
	}
}
