package reach

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/experimental"
	"google.golang.org/grpc/status"

	"github.com/mpiup/mpiup/internal/api/codec"
	"github.com/mpiup/mpiup/internal/api/rpc"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/awake"
	"github.com/mpiup/mpiup/internal/identity"
	"github.com/mpiup/mpiup/internal/socket"
	"github.com/mpiup/mpiup/launcher/link"
)

const (
	connectTimeout = 2 * time.Second // for TCP, on each candidate
	headStart      = time.Second     // of a default port at which something answers, over the others
	maxReply       = 64 << 20        // bytes of an answer to a question
)

// readBuffer is gRPC's for received bytes: smaller than a DATA frame, most of which then goes
// from TLS to where it belongs without passing through it.
const readBuffer = 4 << 10

// Dialer makes connections to agents. It may be used by any number of goroutines.
type Dialer struct {
	id     *identity.Identity
	tls    *tls.Config // for sessions
	asking *tls.Config // for questions
	window int32       // HTTP/2 flow control window, bytes
	buffer int         // write buffer of a connection, bytes
	pages  codec.Pool
	turns  *turns // of sessions
}

// NewDialer sizes buffers for so many hosts: output must flow fast from few, many must start
// fast (a buffer costs its allocation), and 64 must fit into the launcher's memory.
func NewDialer(id *identity.Identity, hosts int) *Dialer {
	d := &Dialer{id: id, window: 4 << 20, buffer: 32 << 10, turns: newTurns()} // a TLS record has 16 KiB
	switch {
	case hosts > 16:
		d.window, d.buffer = 256<<10, 16<<10
	case hosts > 4:
		d.window = 1 << 20
	}
	if id != nil {
		d.tls = id.ClientConfig("h2")
		d.asking = id.ClientConfig(apiv1.AskProtocol, "h2")
	}
	return d
}

// Conn is one TLS connection to an agent, with gRPC over it.
type Conn struct {
	addr   netip.AddrPort
	hello  *apiv1.HelloReply // who is there; nil: it was not asked
	Client rpc.AgentClient
	tcp    net.Conn
	Close  func() // ends it; a visitor may leave that to the end of this process
}

// explain is the cause of a failed call.
func (a *Conn) explain(err error) *link.Cause {
	text := errors.New(said(err))
	if errors.As(err, new(*codec.Unfit)) {
		return &link.Cause{Stage: link.StageConnect, Unfit: true, Err: fmt.Errorf("%v: %w", a.addr, text)}
	}
	switch status.Code(err) {
	case codes.PermissionDenied, codes.Unauthenticated: // the role in our certificate
		return &link.Cause{Stage: link.StageTLS, Role: true, Err: fmt.Errorf("%v: it refused us: %w", a.addr, text)}
	case codes.FailedPrecondition: // of a session that was ours
		return &link.Cause{Stage: link.StageFenced, Succeeded: true, Err: fmt.Errorf("%v: %w", a.addr, text)}
	case codes.DataLoss: // it could not read a frame of ours, or write one of its own, and could not the next time
		return &link.Cause{Stage: link.StageConnect, Unfit: true, Err: fmt.Errorf("%v: %w", a.addr, text)}
	case codes.AlreadyExists:
		return &link.Cause{Stage: link.StageConnect, Replaced: true, Err: fmt.Errorf("%v: %w", a.addr, text)}
	case codes.Unimplemented:
		return link.Causef(link.StageVersion, "%v: another version of mpiup: %w", a.addr, text)
	}
	return link.Causef(link.StageConnect, "%v: %w", a.addr, text)
}

// connect makes a connection for a session to one address.
func (d *Dialer) connect(ctx context.Context, addr netip.AddrPort) (*Conn, error) {
	return d.connectAs(ctx, addr, d.tls, apiv1.MaxFrame, false)
}

// Question makes a connection for calls that are no session's.
func (d *Dialer) Question(ctx context.Context, addr netip.AddrPort) (*Conn, error) {
	return d.connectAs(ctx, addr, d.asking, maxReply, false)
}

// answered is ctx for as long as an answer over tcp may take: link.OpenTimeout. With patience that begins again as long as the other kernel
// acknowledges what is sent, until ctx ends.
func answered(ctx context.Context, tcp net.Conn, patient bool) (context.Context, context.CancelFunc) {
	if !patient {
		return awake.Within(ctx, link.OpenTimeout)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	var mu sync.Mutex
	var stop func() // of the time under way
	over := false
	var due func()
	due = func() {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case over:
		case socket.Ask(tcp).All:
			stop = awake.After(link.OpenTimeout, due)
		default:
			cancel(context.DeadlineExceeded)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	stop = awake.After(link.OpenTimeout, due)
	return ctx, func() {
		mu.Lock()
		over = true
		last := stop
		mu.Unlock()
		last() // not under mu, for which due may be waiting
		cancel(nil)
	}
}

// connectAs makes a connection whose messages have at most so many bytes. The TLS handshake is done here, so that its
// errors are told apart and gRPC never dials by itself. See answered for patience.
func (d *Dialer) connectAs(ctx context.Context, addr netip.AddrPort, as *tls.Config, most int, patient bool) (*Conn, error) {
	tctx, cancel := awake.Within(ctx, connectTimeout)
	defer cancel()
	tcp, err := (&net.Dialer{KeepAlive: -1}).DialContext(tctx, "tcp", addr.String())
	if err != nil {
		switch {
		case ctx.Err() != nil: // too early to say
			return nil, link.Causef(link.StageConnect, "%v: there was no connection yet", addr)
		case tctx.Err() != nil:
			return nil, d.silentAt(addr)
		}
		return nil, d.connCause(addr, err)
	}
	noteAnswer(ctx)
	ready := make(chan net.Conn, 1)
	defer close(ready)
	// gRPC gets this connection and no other: when it breaks, the session redials in its own way (launcher/link).
	cc, err := identity.OverGRPC(addr.String(), ready,
		grpc.WithInitialWindowSize(d.window), grpc.WithInitialConnWindowSize(d.window),
		grpc.WithReadBufferSize(readBuffer), grpc.WithWriteBufferSize(d.buffer), experimental.WithBufferPool(&d.pages),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(codec.Codec{Vet: true}), grpc.MaxCallRecvMsgSize(most), grpc.MaxCallSendMsgSize(most)))
	if err != nil {
		tcp.Close()
		return nil, fmt.Errorf("%v: %w", addr, err)
	}
	cc.Connect() // what gRPC makes for itself it makes beside the handshake
	hctx, cancel := answered(ctx, tcp, patient)
	defer cancel()
	conn, err := d.id.Connect(hctx, tcp, as)
	if err != nil {
		cc.Close()
		if hctx.Err() != nil {
			return nil, mute(addr, "it accepts connections and says nothing")
		}
		return nil, d.mayTurn(d.connCause(addr, err))
	}
	ready <- conn
	return &Conn{addr: addr, Client: rpc.NewAgentClient(cc), tcp: tcp, Close: func() { _, _ = cc.Close(), conn.Close() }}, nil
}

// mute is of who has taken the connection, and does not go on.
func mute(addr netip.AddrPort, text string) *link.Cause {
	return &link.Cause{Stage: link.StageConnect, Mute: true, Port: addr.Port(), Err: fmt.Errorf("%v: %s", addr, text)}
}

// said is what an agent says of a call that failed, short and visible.
func said(err error) string {
	const most = 1 << 10 // bytes
	return codec.VetText(status.Convert(err).Message(), most)
}

// silentAt is the cause of an address from which nothing comes back.
func (d *Dialer) silentAt(addr netip.AddrPort) *link.Cause {
	drops := "a firewall"
	if d.id.Pods() {
		drops = "a NetworkPolicy or firewall"
	}
	return &link.Cause{Stage: link.StageConnect, Silent: true, Port: addr.Port(), Err: fmt.Errorf(
		"%v: no answer: %s may drop what is sent to port %d, or the host is down", addr, drops, addr.Port())}
}

// connCause tells a TLS refusal from a connection that was not made or broke.
func (d *Dialer) connCause(addr netip.AddrPort, err error) *link.Cause {
	var r *identity.Refusal
	var timeout net.Error
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return &link.Cause{Stage: link.StageConnect, Refused: true, Port: addr.Port(), Err: fmt.Errorf("%v: connection refused", addr)}
	case errors.As(err, &r):
		return link.Causef(link.StageTLS, "%v: %w", addr, err)
	case errors.Is(err, syscall.EHOSTUNREACH):
		// Nobody answered ARP or neighbour discovery for 3 s: attempts by turns end so and by their time.
		return &link.Cause{Stage: link.StageConnect, Silent: true, Port: addr.Port(), Err: fmt.Errorf("%v: no answer, the "+
			"host is down or not there (%w)", addr, plainErr(err))}
	case errors.Is(err, syscall.ENETUNREACH):
		return &link.Cause{Stage: link.StageConnect, Silent: true, Err: fmt.Errorf("%v: it cannot be reached (%w)", addr, plainErr(err))}
	case errors.As(err, &timeout) && timeout.Timeout():
		return d.silentAt(addr)
	}
	return link.Causef(link.StageConnect, "%v: %w", addr, plainErr(err))
}

// mayTurn notes of a cause that the key may be changing: that ours lies on a volume, to which a changed one comes by itself.
func (d *Dialer) mayTurn(c *link.Cause) *link.Cause {
	var r *identity.Refusal
	c.Turns = errors.As(c.Err, &r) && r.OtherKey() && d.id.Mounted()
	return c
}

// plainErr is a failure of the network without what Go writes around it.
func plainErr(err error) error {
	var errno syscall.Errno
	switch {
	case errors.As(err, &errno):
		return errno
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed):
		return errors.New("the host closed the connection")
	}
	var op *net.OpError
	if errors.As(err, &op) && op.Err != nil {
		return op.Err
	}
	return err
}

// Attach is a link.Attach over the network. Of many that come at once, most wait for a turn.
func (d *Dialer) Attach(ctx, life context.Context, addr netip.AddrPort, open *apiv1.Open) (*link.Session, error) {
	done, ok := d.turns.take(ctx)
	if !ok {
		return nil, link.Causef(link.StageConnect, "%v: %w", addr, itsTurn)
	}
	s, err := d.attach(ctx, life, addr, open)
	done(err == nil)
	return s, err
}

// attach is an Attach of who has a turn.
func (d *Dialer) attach(ctx, life context.Context, addr netip.AddrPort, open *apiv1.Open) (*link.Session, error) {
	conn, err := d.connectAs(ctx, addr, d.tls, apiv1.MaxFrame, open.Resume)
	if err != nil {
		return nil, err
	}
	octx, done := answered(ctx, conn.tcp, open.Resume)
	defer done()
	sctx, cancel := context.WithCancel(life)
	stop := context.AfterFunc(octx, cancel)
	s := &link.Session{Addr: addr, Open: open, Explain: conn.explain, Peer: func() socket.Peer { return socket.Ask(conn.tcp) },
		Close: func() { cancel(); conn.Close() }}
	stream, err := conn.Client.Attach(sctx)
	if err == nil {
		err = s.Greet(codec.Stream{GRPC: stream})
	}
	if !stop() || err != nil {
		s.Close()
		if octx.Err() != nil {
			return nil, mute(addr, "the agent did not answer in time")
		}
		var c *link.Cause
		if errors.As(err, &c) {
			c.Err = fmt.Errorf("%v: %w", addr, c.Err)
			return nil, c
		}
		return nil, conn.explain(err)
	}
	return s, nil
}
