package launcher

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/wire"
)

// session is an opened stream of a session: what the agent answered to Open, and the way to
// close it.
type session struct {
	stream  wire.Stream
	opened  *apiv1.Opened
	addr    netip.AddrPort // zero: embedded
	id      string
	secret  []byte
	close   func() // ends stream and connection
	explain func(error) *cause
}

// attachFunc opens a session, or resumes one, at an address (dialer.attach, but in tests). ctx
// bounds the opening, life the stream after it. Errors are *causes.
type attachFunc func(ctx, life context.Context, addr netip.AddrPort, open *apiv1.Open) (*session, error)

// opener makes the Open frames of one run. Each session has an id of its own, though all
// begin alike: descendants are found by it, and two agents may see one /proc.
type opener struct {
	reach *Reach
	run   string // 16 hex digits
	wish  apiv1.MachineWish
	meet  meetingWish
}

func newOpener(r *Reach) *opener { return &opener{reach: r, run: randomHex(8)} }

func randomHex(n int) string { return hex.EncodeToString(randomBytes(n)) }

func randomBytes(n int) []byte {
	b := make([]byte, n)
	rand.Read(b) // never fails (crypto/rand)
	return b
}

// open is the first frame of a new session.
func (o *opener) open() *apiv1.Open {
	return &apiv1.Open{
		Protocol: apiv1.Protocol, Version: o.reach.Version,
		Session: o.run + randomHex(8), Secret: randomBytes(16),
		Incarnation: o.reach.Incarnation, LeaseMs: uint64(o.reach.Lease.Milliseconds()),
		Namespace: o.reach.Namespace, Pod: o.reach.Pod, Launcher: o.reach.Hostname, Sandbox: o.reach.Sandbox,
		Machine: o.wish, MeetingPorts: o.meet.ports, MpiPorts: o.meet.within,
	}
}

// attach is an attachFunc over the network.
func (d *dialer) attach(ctx, life context.Context, addr netip.AddrPort, open *apiv1.Open) (*session, error) {
	conn, err := d.connect(ctx, addr)
	if err != nil {
		return nil, err
	}
	sctx, cancel := context.WithCancel(life)
	stop := context.AfterFunc(ctx, cancel)
	s := &session{addr: addr, id: open.Session, secret: open.Secret, explain: conn.explain,
		close: func() { cancel(); conn.close() }}
	stream, err := conn.client.Attach(sctx)
	if err == nil {
		s.stream = stream
		s.opened, err = exchangeOpen(stream, open)
	}
	if !stop() || err != nil {
		s.close()
		if ctx.Err() != nil {
			return nil, causef(stageConnect, "%v: the agent did not answer in time", addr)
		}
		var c *cause
		if errors.As(err, &c) {
			c.err = fmt.Errorf("%v: %w", addr, c.err)
			return nil, c
		}
		return nil, conn.explain(err)
	}
	return s, nil
}

// exchangeOpen sends Open and judges the answer.
func exchangeOpen(s wire.Stream, open *apiv1.Open) (*apiv1.Opened, error) {
	if err := s.Send(open.Frame()); err != nil {
		// The reason why is with the receiving side.
		if _, rerr := s.Recv(); rerr != nil {
			return nil, rerr
		}
		return nil, err
	}
	f, err := s.Recv()
	if err != nil {
		return nil, err
	}
	opened := f.GetOpened()
	if opened == nil {
		return nil, causef(stageConnect, "its first frame is no Opened: not an agent of this version")
	}
	if err := refusal(opened); err != nil {
		return nil, err
	}
	if opened.Host.GetIncarnation() == "" {
		return nil, causef(stageConnect, "the agent does not state its incarnation")
	}
	if err := checkHost(opened.Host); err != nil {
		return nil, causef(stageConnect, "%w", err)
	}
	return opened, nil
}

// refusal is an agent's no as a cause; nil when it said yes.
func refusal(o *apiv1.Opened) error {
	switch o.Refusal {
	case apiv1.Refusal_REFUSAL_NONE:
		return nil
	case apiv1.Refusal_REFUSAL_PROTOCOL:
		return causef(stageVersion, "it speaks protocol %d (mpiup %s), this mpiup protocol %d: use one version everywhere",
			o.Protocol, orUnknown(o.Version), apiv1.Protocol)
	case apiv1.Refusal_REFUSAL_FENCED:
		return causef(stageFenced, "a newer launcher of this job has taken over%s", colon(o.Text))
	case apiv1.Refusal_REFUSAL_UNKNOWN_SESSION, apiv1.Refusal_REFUSAL_SECRET:
		return &cause{stage: stageConnect, stranger: true, err: errors.New("the agent there does not know this session" + colon(o.Text))}
	case apiv1.Refusal_REFUSAL_ENDING:
		return causef(stageConnect, "its agent is shutting down%s", colon(o.Text))
	}
	return causef(stageConnect, "the agent refused%s", colon(o.Text))
}

func orUnknown(version string) string {
	if version == "" {
		return "unknown"
	}
	return version
}

// embed opens a session with the agent in this process. The returned wait blocks until that
// agent has ended.
func embed(life context.Context, serve func(context.Context, wire.Stream) error, open *apiv1.Open) (s *session, wait func(), err error) {
	ctx, cancel := context.WithCancel(life)
	mine, theirs, endMine, endTheirs := wire.Pipe(ctx)
	done := make(chan struct{})
	var served error
	go func() {
		defer endTheirs() // after done: whoever reads the end asks for the reason
		defer close(done)
		served = serve(ctx, theirs)
	}()
	why := func(err error) *cause {
		select {
		case <-done:
			if served != nil {
				err = served
			}
		default:
		}
		return causef(stageConnect, "the embedded agent: %w", err)
	}
	s = &session{stream: mine, id: open.Session, secret: open.Secret, close: endMine, explain: why}
	if s.opened, err = exchangeOpen(mine, open); err != nil {
		endMine()
		cancel()
		<-done
		return nil, nil, why(err)
	}
	// endMine lets the agent see the end of the stream and finish; cancel is the last resort.
	return s, func() { <-done; cancel() }, nil
}
