// Package link keeps one host's session on a connection, and says why a host is not reached.
//
//	Attach: Open ─▶ Opened ─▶ Session ─▶ Conn.Run ─┬─ Closed, Finish ─────────▶ nil
//	(or Embed)                 ▲  stream broke or  │
//	                           │  silent: redialled┘─ refused, another incarnation, NodeTimeout ─▶ *Lost
//	                           └─ resumed
//
// A Cause is why an attempt failed, by how far it got (Stage); of several, Telling picks the one that says most.
//
// Concurrency: Run blocks until all it started has ended, and hands frames to Deliver one at a time. Send, Finish and Tick may
// be called by any goroutine and never block.
//
// The package does not look for hosts and knows no job: launcher/reach finds an agent, the launcher says what is sent to it.
package link

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/mpiup/mpiup/internal/api/codec"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/hostlist"
	"github.com/mpiup/mpiup/internal/layout"
	"github.com/mpiup/mpiup/internal/socket"
	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/internal/wire"
)

// OpenTimeout is for TLS and the first answer of an agent that may be short of CPU. Where a session is resumed it begins again for as long as
// the kernel of the agent's host acknowledges what is sent: a new connection would only have the agent begin anew.
const OpenTimeout = 10 * time.Second

// Session is an opened stream of a session: what the agent answered to Open, and the way to
// close it.
type Session struct {
	Stream  wire.Stream
	Opened  *apiv1.Opened
	Since   time.Time          // the agent has answered; zero: it has not
	Addr    netip.AddrPort     // zero: embedded
	Open    *apiv1.Open        // as it was sent
	Close   func()             // ends stream and connection
	Peer    func() socket.Peer // what our kernel knows of its; nil: embedded
	Explain func(error) *Cause
}

// Attach opens a session, or resumes one, at an address (dialer.attach, but in tests). ctx
// bounds the opening, life the stream after it. Errors are *causes.
type Attach func(ctx, life context.Context, addr netip.AddrPort, open *apiv1.Open) (*Session, error)

// peer is what our kernel knows of the other one; of an embedded agent nothing.
func (s *Session) peer() (p socket.Peer) {
	if s.Peer != nil {
		p = s.Peer()
	}
	return p
}

// Late says that something has come over the session's connection that nobody has read: it is we who are late.
func (s *Session) Late() bool { return s.peer().Unread > 0 }

// Greet opens the session on a stream: it sends Open and judges the answer.
func (s *Session) Greet(on wire.Stream) error {
	if err := on.Send(s.Open.Frame()); err != nil {
		if errors.As(err, new(*codec.Unfit)) {
			return err
		}
		// The reason why is with the receiving side.
		if _, rerr := on.Recv(); rerr != nil {
			return rerr
		}
		return err
	}
	f, err := on.Recv()
	if err != nil {
		return err
	}
	codec.VetFrame(f)
	opened := f.GetOpened()
	if opened == nil {
		return Causef(StageConnect, "its first frame is no Opened: not an agent of this version")
	}
	if err := refusal(opened); err != nil {
		return err
	}
	if opened.Host.GetIncarnation() == "" {
		return Causef(StageConnect, "the agent does not state its incarnation")
	}
	if err := CheckHost(opened.Host); err != nil {
		return Causef(StageConnect, "%w", err)
	}
	s.Stream, s.Opened, s.Since = on, opened, time.Now()
	return nil
}

// refusal is an agent's no as a cause; nil when it said yes.
func refusal(o *apiv1.Opened) error {
	switch o.Refusal {
	case apiv1.Refusal_REFUSAL_NONE:
		return nil
	case apiv1.Refusal_REFUSAL_PROTOCOL:
		return Causef(StageVersion, "it speaks protocol %d (mpiup %s), this mpiup protocol %d: use one version everywhere",
			o.Protocol, cmp.Or(o.Version, "unknown"), apiv1.Protocol)
	case apiv1.Refusal_REFUSAL_FENCED:
		return Causef(StageFenced, "a newer launcher of this job has taken over%s", visible.Colon(o.Text))
	case apiv1.Refusal_REFUSAL_SUCCEEDED:
		return &Cause{Stage: StageFenced, Succeeded: true, Err: fmt.Errorf("another launcher has taken this run over%s", visible.Colon(o.Text))}
	case apiv1.Refusal_REFUSAL_ALIVE:
		return &Cause{Stage: StageConnect, Alive: true, Err: errors.New(o.Text)}
	case apiv1.Refusal_REFUSAL_TOLD:
		return &Cause{Stage: StageConnect, Stranger: true, Told: true, Err: errors.New(o.Text)}
	case apiv1.Refusal_REFUSAL_UNKNOWN_SESSION, apiv1.Refusal_REFUSAL_SECRET:
		return &Cause{Stage: StageConnect, Stranger: true, Err: errors.New("the agent there does not know this session" + visible.Colon(o.Text))}
	case apiv1.Refusal_REFUSAL_ENDING:
		return &Cause{Stage: StageConnect, Ending: true, Err: fmt.Errorf("its agent is shutting down%s", visible.Colon(o.Text))}
	}
	return Causef(StageConnect, "the agent refused%s", visible.Colon(o.Text))
}

// Embed opens a session with the agent in this process. The returned wait blocks until that
// agent has ended.
func Embed(life context.Context, serve func(context.Context, wire.Stream) error, open *apiv1.Open) (s *Session, wait func(), err error) {
	ctx, cancel := context.WithCancel(life)
	mine, theirs, endMine, endTheirs := wire.Pipe(ctx)
	done := make(chan struct{})
	var served error
	go func() {
		defer endTheirs() // after done: whoever reads the end asks for the reason
		defer close(done)
		served = serve(ctx, theirs)
	}()
	why := func(err error) *Cause {
		select {
		case <-done:
			if served != nil && !errors.Is(served, context.Canceled) { // else it ended because of err
				err = served
			}
		default:
		}
		return Causef(StageConnect, "the embedded agent: %w", err)
	}
	s = &Session{Open: open, Close: endMine, Explain: why}
	if err = s.Greet(mine); err != nil {
		endMine()
		cancel()
		<-done
		return nil, nil, why(err)
	}
	// endMine lets the agent see the end of the stream and finish; cancel is the last resort.
	return s, func() { <-done; cancel() }, nil
}

// CheckHost checks what an agent says of itself: its name becomes tags, tables, names of files and the ranks' own list of hosts, and with its
// node it stands in commands that people copy.
func CheckHost(h *apiv1.HelloReply) error {
	if h.GetName() != "" { // else it goes by the name that it was found by
		if err := hostlist.CheckName(h.Name); err != nil {
			return fmt.Errorf("its agent states a name that is none: %w", err)
		}
	}
	if h.GetNode() != "" {
		if err := hostlist.CheckName(h.Node); err != nil {
			return fmt.Errorf("its agent states a node that is none: %w", err)
		}
	}
	return nil
}

// Slots is how many ranks an agent says that its host takes, as far as a host can have them: what is placed there costs the launcher memory.
func Slots(h *apiv1.HelloReply) int { return int(min(max(h.GetSlots(), 1), apiv1.MaxProcs)) }

// CPUs is how many an agent says that its host has, as far as a host can have them.
func CPUs(h *apiv1.HelloReply) int { return int(min(max(h.GetCpus(), 0), layout.MaxThreads)) }
