package launcher

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/wire"
	"google.golang.org/protobuf/proto"
)

// hostConn keeps one host's session on a connection.
//
//	stream broke      redial at once, and again until it is resumed; refused, or answered by
//	                  another incarnation: the host is lost
//	stream silent     for NodeTimeout/3: resume on a second connection beside it, since a path may
//	                  hold bytes for ever; for NodeTimeout: the host is lost
//
// Silence is counted by the run's Clock, which stands still while this process does.
type hostConn struct {
	index int
	name  string
	first *session
	wait  func() // embedded: until its agent has ended

	attach  attachFunc // nil: embedded
	timeout time.Duration
	open    *apiv1.Open // as first sent; redials send it again with resume
	link    *wire.Link
	clock   *wire.Clock
	tick    chan struct{} // the clock's steps, capacity 1
	deliver func(*apiv1.Frame) error

	over  chan struct{} // closed by finish: the agent said Closed, the end of the stream is no loss
	ended sync.Once

	begun     time.Duration // Clock time when the stream began
	progress  uint64        // frames received when the stream broke last
	fruitless int           // streams that broke since without bringing one
}

// maxFruitless bounds resuming a session that breaks again before it carries anything; a
// stream that lasted fruitful bore fruit, though the ranks had nothing to say.
const (
	maxFruitless = 100
	fruitful     = 2 * time.Second
)

// takeOver is how long a second connection may take to answer once the first has ended. It
// leaves most of the second that an agent waits for us.
const takeOver = 250 * time.Millisecond

// finish says that nothing more is expected of the host.
func (h *hostConn) finish() { h.ended.Do(func() { close(h.over) }) }

func (h *hostConn) finished() bool {
	select {
	case <-h.over:
		return true
	default:
		return false
	}
}

// lostError is why a host was given up.
type lostError struct {
	why    string
	since  time.Duration // Clock time from which nothing was heard of it
	fenced bool
}

func (e *lostError) Error() string { return e.why }

// run carries frames until ctx ends (nil), the session is closed (nil), or the host is lost
// (*lostError). All it started has ended when it returns.
func (h *hostConn) run(ctx context.Context) error {
	err := h.streams(ctx)
	h.link.Wait()
	if h.wait != nil {
		h.wait()
	}
	return err
}

func (h *hostConn) streams(ctx context.Context) error {
	s := h.first
	for {
		next, err := h.carry(ctx, s)
		s.close()
		if ctx.Err() != nil || h.finished() {
			if next != nil {
				next.close()
			}
			return nil
		}
		if next == nil {
			if next, err = h.resume(ctx, err); err != nil {
				if ctx.Err() != nil {
					return nil
				}
				return err
			}
		}
		s = next
	}
}

// carry runs one stream. It returns the session's next stream if one was made beside it, else
// why this one ended.
func (h *hostConn) carry(life context.Context, s *session) (*session, error) {
	ctx, cancel := context.WithCancel(life)
	defer cancel()
	h.begun = h.clock.Now()
	h.link.Heard() // Opened just came; a tick before Run has begun must not see the old silence
	ended := make(chan error, 1)
	go func() { ended <- h.link.Run(ctx, s.stream, s.opened.Received, h.deliver) }()
	var probe chan probed // the answer of a second connection under way; nil: none is
	var tried time.Duration
	for {
		select {
		case err := <-ended:
			// The agent may have ended this stream because the other has taken over. Else the
			// other may hang, and the agent keeps the ranks of a closed stream for a second.
			if probe != nil {
				t := time.AfterFunc(takeOver, cancel)
				defer t.Stop()
			}
			return await(probe), err
		case <-h.over:
			cancel()
			return await(probe), <-ended
		case p := <-probe:
			probe, tried = nil, h.clock.Now()
			if p.err == nil || asCause(p.err).final() {
				cancel()
				<-ended
				return p.s, p.err
			}
		case <-h.tick:
			silent := h.link.Silent()
			switch {
			case h.attach == nil: // a process does not lose touch with itself
			case silent > h.timeout:
				cancel()
				<-ended
				return await(probe), errSilent
			case silent > h.timeout/3 && probe == nil && h.clock.Now()-tried > h.timeout/6:
				probe = make(chan probed, 1)
				go h.beside(ctx, life, probe)
			}
		}
	}
}

// await is the session that a second connection resumed, nil if none did.
func await(probe chan probed) *session {
	if probe == nil {
		return nil
	}
	return (<-probe).s
}

var errSilent = errors.New("silent")

type probed struct {
	s   *session
	err error
}

// beside resumes the session on a second connection; ctx bounds the attempt.
func (h *hostConn) beside(ctx, life context.Context, out chan<- probed) {
	s, err := h.redial(ctx, life)
	out <- probed{s, err}
}

// resume redials until the session goes on, or the host must be given up.
func (h *hostConn) resume(ctx context.Context, broke error) (*session, error) {
	since := h.clock.Now()
	if errors.Is(broke, errSilent) {
		return nil, &lostError{since: since - h.link.Silent(),
			why: fmt.Sprintf("nothing was heard from it for %v (--node-timeout)", h.timeout)}
	}
	if h.attach == nil {
		return nil, &lostError{why: h.first.explain(broke).Error(), since: since}
	}
	if c := asCause(broke); c.final() { // a second connection found out
		return nil, h.gone(c, since-h.link.Silent())
	}
	if now := h.link.Received(); now != h.progress || since-h.begun >= fruitful {
		h.progress, h.fruitless = now, 0
	}
	if h.fruitless++; h.fruitless > maxFruitless {
		return nil, &lostError{since: since,
			why: fmt.Sprintf("its connection broke %d times without a frame getting through: %v", h.fruitless, h.first.explain(broke))}
	}
	pause := min(2*time.Millisecond<<min(h.fruitless, 10), maxPause)
	if h.fruitless > 3 { // whatever breaks it needs time
		sleep(ctx, pause)
	}
	for {
		s, err := h.redial(ctx, ctx)
		if err == nil {
			return s, nil
		}
		c := asCause(err)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case c.refused || c.final():
			return nil, h.gone(c, since)
		case h.link.Silent() > h.timeout:
			return nil, &lostError{since: since,
				why: fmt.Sprintf("its connection broke (%v) and could not be resumed in %v (--node-timeout): %v", h.first.explain(broke), h.timeout, c)}
		}
		sleep(ctx, pause)
		pause = min(2*pause, maxPause)
	}
}

const maxPause = 200 * time.Millisecond

// gone turns the answer to a redial into the reason of a loss.
func (h *hostConn) gone(c *cause, since time.Duration) *lostError {
	switch {
	case c.stage == stageFenced:
		return &lostError{why: c.Error(), since: since, fenced: true}
	case c.stranger:
		return &lostError{why: "its agent was restarted: " + c.Error(), since: since}
	}
	return &lostError{why: "its agent is gone: " + c.Error(), since: since}
}

// redial resumes the session at the same address.
func (h *hostConn) redial(ctx, life context.Context) (*session, error) {
	dctx, cancel := context.WithTimeout(ctx, min(openTimeout, max(h.timeout/3, 2*time.Second)))
	defer cancel()
	open := proto.CloneOf(h.open)
	open.Resume, open.Received = true, h.link.Received()
	open.Machine, open.MeetingPorts, open.MpiPorts = apiv1.MachineWish_MACHINE_NOT_WANTED, 0, "" // the session has them
	s, err := h.attach(dctx, life, h.first.addr, open)
	if err != nil {
		return nil, err
	}
	if s.opened.Host.Incarnation != h.first.opened.Host.Incarnation {
		s.close()
		return nil, &cause{stage: stageConnect, stranger: true,
			err: fmt.Errorf("%v: another incarnation of the agent answers", h.first.addr)}
	}
	return s, nil
}

// send queues a frame for the host. A full queue is a host that takes nothing any more: its
// silence ends it, so that error says nothing new. The one that is returned is wire.ErrTooLarge.
func (h *hostConn) send(f *apiv1.Frame) error {
	if err := h.link.Send(f); errors.Is(err, wire.ErrTooLarge) {
		return fmt.Errorf("a frame %T: %w", f.Body, err)
	}
	return nil
}
