package link

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/mpiup/mpiup/internal/api/codec"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/awake"
	"github.com/mpiup/mpiup/internal/wire"
	"github.com/mpiup/mpiup/launcher/run/model"
)

// Conn keeps one host's session on a connection.
//
//	stream broke      redial at once, and again until it is resumed; refused, or answered by
//	                  another incarnation: the host is lost
//	stream silent     for NodeTimeout/3: resume on a second connection beside it, since a path may
//	                  hold bytes for ever; for NodeTimeout: the host is lost
//
// Silence is counted by the run's Clock, which stands still while this process does, and ends with what lies unread in our kernel: then
// it is we who are late. A second connection is not given up for a third while the agent's kernel answers on it: an agent that gets little
// CPU would take up each of them after we have left it, and drop the one that carries.
type Conn struct {
	Config
	link  *wire.Link
	tick  chan struct{} // the clock's steps, capacity 1
	over  chan struct{} // closed by Finish: the agent said Closed, the end of the stream is no loss
	ended sync.Once

	begun     time.Duration // Clock time when the stream began
	progress  uint64        // frames received when the stream broke last
	fruitless int           // streams that broke since without bringing one
}

// Config is a host and its opened session. It is not changed while the connection runs.
type Config struct {
	Index   int // of the host in its run
	Name    string
	First   *Session
	Wait    func()        // embedded: until its agent has ended; nil: it is another process
	Attach  Attach        // the way to it again; nil: embedded
	Timeout time.Duration // silence after which it is lost
	Clock   *wire.Clock
	Deliver func(*apiv1.Frame) error // takes what the agent sends, on Run's goroutine
}

// New only builds; Run keeps the session on a connection.
func New(cfg Config) *Conn {
	return &Conn{Config: cfg, link: wire.NewLink(cfg.Clock), tick: make(chan struct{}, 1), over: make(chan struct{})}
}

// Tick passes on that the Clock has moved.
func (h *Conn) Tick() {
	select {
	case h.tick <- struct{}{}:
	default:
	}
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

// Finish says that nothing more is expected of the host.
func (h *Conn) Finish() { h.ended.Do(func() { close(h.over) }) }

// Finished says that Finish was called.
func (h *Conn) Finished() bool {
	select {
	case <-h.over:
		return true
	default:
		return false
	}
}

// Run carries frames until ctx ends (nil), the session is closed (nil), or the host is lost. All it started has ended when it returns.
func (h *Conn) Run(ctx context.Context) *model.Lost {
	lost := h.streams(ctx)
	h.link.Wait()
	if h.Wait != nil {
		h.Wait()
	}
	return lost
}

func (h *Conn) streams(ctx context.Context) (lost *model.Lost) {
	s := h.First
	for {
		next, err := h.carry(ctx, s)
		s.Close()
		if ctx.Err() != nil || h.Finished() {
			if next != nil {
				next.Close()
			}
			return nil
		}
		if next == nil {
			if next, lost = h.resume(ctx, err); next == nil {
				return lost
			}
		}
		s = next
	}
}

// carry runs one stream. It returns the session's next stream if one was made beside it, else
// why this one ended.
func (h *Conn) carry(life context.Context, s *Session) (*Session, error) {
	ctx, cancel := context.WithCancel(life)
	defer cancel()
	h.begun = h.Clock.Now()
	h.link.Heard() // Opened just came; a tick before Run has begun must not see the old silence
	ended := make(chan error, 1)
	go func() {
		ended <- h.link.Run(ctx, s.Stream, s.Opened.Received, func(f *apiv1.Frame) error {
			codec.VetFrame(f) // its text is shown
			return h.Deliver(f)
		})
	}()
	var probe chan probed // the answer of a second connection under way, which is not given up while this one may carry; nil: none is
	var tried time.Duration
	for {
		select {
		case err := <-ended:
			// The agent may have ended this stream because the other has taken over: its answer is on the way. Else the
			// other may hang, and the agent keeps the ranks of a closed stream for a second.
			if probe != nil && !s.Explain(err).Replaced {
				defer awake.After(takeOver, cancel)()
			}
			return await(probe), err
		case <-h.over:
			cancel()
			return await(probe), <-ended
		case p := <-probe:
			probe, tried = nil, h.Clock.Now()
			if p.err == nil || AsCause(p.err).final() {
				cancel()
				<-ended
				return p.s, p.err
			}
		case <-h.tick:
			silent := h.link.Silent()
			switch {
			case h.Attach == nil: // a process does not lose touch with itself
			case silent > h.Timeout:
				if s.Late() && silent < h.Timeout+Lateness {
					continue
				}
				answers := s.peer().Answers(h.Timeout / 2)
				cancel()
				<-ended
				return await(probe), &silence{answers}
			case silent > h.Timeout/3 && probe == nil && h.Clock.Now()-tried > h.Timeout/6:
				made := make(chan probed, 1)
				probe = made
				go func() {
					s, err := h.redialFor(ctx, life, h.Timeout)
					made <- probed{s, err}
				}()
			}
		}
	}
}

// await is the session that a second connection resumed, nil if none did.
func await(probe chan probed) *Session {
	if probe == nil {
		return nil
	}
	return (<-probe).s
}

// Lateness is how long what has come may lie unread, because this process gets no CPU, until the host is lost all the same. Agents give
// launchers as much (agent/session).
const Lateness = 10 * time.Second

// silence is a stream on which nothing came.
type silence struct {
	answered bool // by the kernel of the agent's host
}

func (s *silence) Error() string { return "silent" }

type probed struct {
	s   *Session
	err error
}

// resume redials until the session goes on, or the host must be given up.
func (h *Conn) resume(ctx context.Context, broke error) (*Session, *model.Lost) {
	since := h.Clock.Now()
	if s := (*silence)(nil); errors.As(broke, &s) {
		return nil, &model.Lost{Since: since - h.link.Silent(), Unsure: true, Mute: s.answered,
			Why: fmt.Sprintf("nothing was heard from it for %v (--node-timeout)%s", h.Timeout, s.but())}
	}
	if h.Attach == nil {
		return nil, &model.Lost{Why: h.First.Explain(broke).Error(), Since: since}
	}
	if c := AsCause(broke); c.final() { // a second connection found out
		return nil, h.gone(c, since-h.link.Silent())
	}
	if c := h.First.Explain(broke); c.final() { // the agent said so
		return nil, h.gone(c, since)
	}
	if now := h.link.Received(); now != h.progress || since-h.begun >= fruitful {
		h.progress, h.fruitless = now, 0
	}
	if h.fruitless++; h.fruitless > maxFruitless {
		return nil, &model.Lost{Since: since, Unsure: true,
			Why: fmt.Sprintf("its connection broke %d times without a frame getting through: %v", h.fruitless, h.First.Explain(broke))}
	}
	pause := min(2*time.Millisecond<<min(h.fruitless, 10), maxPause)
	if h.fruitless > 3 { // whatever breaks it needs time
		Sleep(ctx, pause)
	}
	for {
		s, err := h.redial(ctx, ctx)
		if err == nil {
			return s, nil
		}
		c := AsCause(err)
		switch {
		case ctx.Err() != nil:
			return nil, nil
		case c.Refused || c.final():
			return nil, h.gone(c, since)
		case h.link.Silent() > h.Timeout:
			return nil, &model.Lost{Since: since, Unsure: true,
				Why: fmt.Sprintf("its connection broke (%v) and could not be resumed in %v (--node-timeout): %v", h.First.Explain(broke), h.Timeout, c)}
		}
		Sleep(ctx, pause)
		pause = min(2*pause, maxPause)
	}
}

const maxPause = 200 * time.Millisecond

// gone turns the answer to a redial into the reason of a loss.
func (h *Conn) gone(c *Cause, since time.Duration) *model.Lost {
	switch {
	case c.Stage == StageFenced:
		return &model.Lost{Why: c.Error(), Since: since, Fenced: true, Succeeded: c.Succeeded}
	case c.Unfit:
		return &model.Lost{Why: c.Error(), Since: since, Unsure: true}
	case c.Stranger:
		return &model.Lost{Why: "its agent was restarted: " + c.Error(), Since: since}
	}
	return &model.Lost{Why: "its agent is gone: " + c.Error(), Since: since}
}

// leastRedial is how long a redial may take at least.
const leastRedial = 2 * time.Second

// but is what is known of a host that was silent.
func (s *silence) but() string {
	if !s.answered {
		return ""
	}
	return ", though its kernel, or a proxy before it, acknowledges what is sent there: its agent is stopped, or starved of CPU"
}

// redial resumes the session at the same address, as long as the silence may last. Where nothing answers it comes back earlier, to try anew.
func (h *Conn) redial(ctx, life context.Context) (*Session, error) {
	return h.redialFor(ctx, life, max(h.Timeout-h.link.Silent(), leastRedial))
}

// redialFor is redial for that long at most.
func (h *Conn) redialFor(ctx, life context.Context, most time.Duration) (*Session, error) {
	dctx, cancel := awake.Within(ctx, most)
	defer cancel()
	open := proto.CloneOf(h.First.Open)
	open.Resume, open.Received = true, h.link.Received()
	open.Machine, open.MeetingPorts, open.MpiPorts = apiv1.MachineWish_MACHINE_NOT_WANTED, 0, "" // the session has them
	s, err := h.Attach(dctx, life, h.First.Addr, open)
	if err != nil {
		return nil, err
	}
	if s.Opened.Host.Incarnation != h.First.Opened.Host.Incarnation {
		s.Close()
		return nil, &Cause{Stage: StageConnect, Stranger: true,
			Err: fmt.Errorf("%v: another incarnation of the agent answers", h.First.Addr)}
	}
	return s, nil
}

// Send queues a frame for the host. A full queue is a host that takes nothing any more: its
// silence ends it, so that error says nothing new. The one that is returned is wire.ErrTooLarge.
func (h *Conn) Send(f *apiv1.Frame) error {
	if err := h.link.Send(f); errors.Is(err, wire.ErrTooLarge) {
		return fmt.Errorf("a frame %T: %w", f.Body, err)
	}
	return nil
}

// Sleep waits for d, or until ctx ends.
func Sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
