package rendezvous

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/mpiup/mpiup/internal/awake"
	"github.com/mpiup/mpiup/internal/identity"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/visible"
)

// Config is what a pod's torchrun knows of the job.
type Config struct {
	Host string // of the endpoint: a name or an address
	Port uint16
	// Hosts says that this pod is where the nodes meet, or that it is not; nil: its addresses tell.
	Hosts *bool
	// Static: rank 0 itself listens at the endpoint, once all nodes are there.
	Static      bool
	Hello       Hello // but for Port
	MaxRestarts int
	Join        time.Duration // how long the others, or the fewest of them, are waited for
	LastCall    time.Duration // how long more are, when the fewest are there

	Identity *identity.Identity // by which the host is spoken to; nil: the pod has no key
	// Serving is the identity by which this pod serves as the host, where it has a key.
	Serving func() (*identity.Identity, error)

	Name       string // of this pod
	Lookup     func(ctx context.Context, name string) ([]netip.Addr, error)
	Interfaces func() ([]net.Addr, error)       // this pod's addresses
	Say        func(format string, args ...any) // one line for the user
}

// endpoint is where the nodes meet, as sentences have it.
func (c *Config) endpoint() string { return net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port))) }

// exitEndpoint is the exit code where the endpoint cannot be what it is said to be.
const exitEndpoint = job.ExitUsage

// Error is why a node does not take part in a job, or does so no longer.
type Error struct {
	Code int // exit code
	Text string
}

func (e *Error) Error() string { return e.Text }

// Session is a node's part in a job.
type Session struct {
	cfg  Config
	conn net.Conn
	host string // name of the host's pod
	// The host's node number in the round that runs, or 0.
	hostNode int
	hosts    context.CancelFunc // ends the host that this pod is; nil: it is another
	parts    sync.WaitGroup
	done     chan struct{} // closed by Close and Abandon
	closed   sync.Once

	begins   chan Begin
	orders   chan Message // End and Leave
	verdicts chan Verdict
	lost     chan struct{} // closed when the connection has ended; why is set then
	why      string

	sending sync.Mutex // held while a frame is written

	mu    sync.Mutex
	round int  // that runs; written by the session's goroutine alone, guarded by mu for others
	told  bool // this node is to end its ranks, or has said that it does, guarded by mu
}

const (
	firstPause = 200 * time.Millisecond // before the endpoint is tried again
	longPause  = 2 * time.Second
	dialTime   = 5 * time.Second
	answerTime = 15 * time.Second // for a host to answer a Hello
	stubborn   = 15 * time.Second // for what waiting seldom cures: a key, a port that is taken
)

// Join takes part in the job, as the host where the endpoint is this pod's, and returns when the host has let the node in. The
// error is an *Error, or the cause of ctx's end.
func Join(ctx context.Context, cfg Config) (*Session, error) {
	patience, cancel := awake.Within(ctx, cfg.Join)
	defer cancel()
	hopeful, stop := awake.Within(ctx, stubborn)
	defer stop()
	silent, speak := awake.Within(ctx, quiet)
	defer speak()

	pause := firstPause
	spoke := false
	var last error
	for {
		s, err := cfg.attempt(patience)
		if errors.Is(err, context.Canceled) && last != nil { // the end of our patience is no reason
			err = last
		}
		last = err
		switch {
		case err == nil:
			return s, nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		}
		if final := cfg.final(err, patience.Err() != nil, hopeful.Err() != nil); final != nil {
			return nil, final
		}
		if !spoke && silent.Err() != nil {
			spoke = true
			cfg.Say("no torchrun lets this node in at %s yet: %v; it is tried for %v (--rdzv-conf join_timeout)", cfg.endpoint(), err, cfg.Join)
		}
		rest(patience, pause)
		pause = min(2*pause, longPause)
	}
}

// final is the error that ends the attempts to join; nil: there is another. late: the time to join is over; hopeless: what seldom
// mends has had its time.
func (c *Config) final(err error, late, hopeless bool) *Error {
	var final *Error
	var refusal *identity.Refusal
	switch {
	case errors.As(err, &final):
		return final
	case errors.Is(err, errStore) && !c.Static:
		return &Error{job.ExitConnect, fmt.Sprintf("%s: PyTorch's own torchrun listens there (its TCPStore), and this is mpiup's: use one torchrun in all pods",
			c.endpoint())}
	case errors.Is(err, errStore) && hopeless: // till then rank 0 of the job before may be about to end
		return &Error{job.ExitConnect, fmt.Sprintf("%s: a store of PyTorch's listens there: of its own torchrun, and this is mpiup's, so use one torchrun in all pods; "+
			"or of rank 0 of a job that has begun without this node", c.endpoint())}
	case errors.As(err, &refusal) && hopeless:
		return &Error{job.ExitTLS, fmt.Sprintf("%s: %v", c.endpoint(), err)}
	case errors.Is(err, syscall.EADDRINUSE) && hopeless:
		return &Error{job.ExitUsage, fmt.Sprintf("this pod is to listen at %s, and that port is taken here: end what listens there, or name another port on all nodes",
			c.endpoint())}
	case late:
		return &Error{codeOf(err), fmt.Sprintf("no torchrun lets this node in at %s within %v (--rdzv-conf join_timeout): %v; "+
			"that is to be a name or address of one pod, whose torchrun listens there", c.endpoint(), c.Join, err)}
	}
	return nil
}

// errStore is of a store of torch's where a torchrun of mpiup's should listen.
var errStore = errors.New("a store of PyTorch's listens there (TCPStore)")

// unresolved is the lack of an address of the endpoint's.
type unresolved struct{ error }

// codeOf is the exit code where nobody was reached.
func codeOf(err error) int {
	if errors.As(err, new(unresolved)) {
		return job.ExitResolve
	}
	return job.ExitConnect
}

// rest waits a while, so that many nodes do not come at once.
func rest(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d/2 + rand.N(d))
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// attempt joins once. Errors that are no *Error may go by themselves.
func (c *Config) attempt(ctx context.Context) (*Session, error) {
	at, err := c.locate(ctx)
	var wrong *Error
	switch {
	case errors.As(err, &wrong):
		return nil, err
	case err != nil:
		return nil, unresolved{err}
	}
	if at.own {
		s, err := c.listen(ctx, at)
		if err == nil || at.sure || !errors.Is(err, syscall.EADDRINUSE) {
			return s, err
		}
	}
	var last error
	for _, a := range at.addresses {
		s, err := c.call(ctx, netip.AddrPortFrom(a, c.Port))
		if err == nil || errors.As(err, &wrong) || errors.Is(err, errStore) {
			return s, err
		}
		last = err
	}
	if last == nil {
		last = unresolved{errors.New("the name has no address")}
	}
	return nil, last
}

// listen makes this pod the host.
func (c *Config) listen(ctx context.Context, at place) (*Session, error) {
	lc := net.ListenConfig{KeepAliveConfig: net.KeepAliveConfig{Enable: false}}
	lc.SetMultipathTCP(false)
	l, err := lc.Listen(ctx, "tcp", net.JoinHostPort(at.listen, strconv.Itoa(int(c.Port))))
	if err != nil {
		if errors.Is(err, syscall.EADDRINUSE) {
			return nil, err
		}
		return nil, &Error{job.ExitUsage, fmt.Sprintf("this pod cannot listen at %s: %v", c.endpoint(), err)}
	}

	var id *identity.Identity
	if c.Identity != nil {
		if id, err = c.Serving(); err != nil {
			l.Close()
			return nil, &Error{job.ExitTLS, err.Error()}
		}
	} else {
		c.Say("nodes meet at %s without a key: whoever reaches that port can join the job or end it, as with PyTorch's own; "+
			"a key in all pods (mpiup keygen, MPIUP_KEY) closes it", c.endpoint())
	}

	r := rules{Least: c.Hello.Least, Most: c.Hello.Most, RunID: c.Hello.RunID, MaxRestarts: c.MaxRestarts, Join: c.Join, LastCall: c.LastCall,
		Endpoint: c.endpoint(), Static: c.Static}
	if c.Static {
		r.MasterPort = int(c.Port)
	}
	h := newHost(l.(*net.TCPListener), id, r, c.Say)
	near, far := net.Pipe()
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	s := c.session(near)
	s.hosts = end
	s.parts.Go(func() { h.run(life, far) })
	if err := s.hello(ctx); err != nil {
		s.Abandon()
		return nil, err
	}
	return s, nil
}

func (c *Config) session(conn net.Conn) *Session {
	return &Session{cfg: *c, conn: conn, done: make(chan struct{}), lost: make(chan struct{}),
		begins: make(chan Begin, 1), orders: make(chan Message, 4), verdicts: make(chan Verdict, 1)}
}

// call joins a host.
func (c *Config) call(ctx context.Context, to netip.AddrPort) (*Session, error) {
	within, cancel := awake.Within(ctx, dialTime)
	defer cancel()
	d := net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: false}}
	d.SetMultipathTCP(false)
	raw, err := d.DialContext(within, "tcp", to.String())
	if err != nil {
		return nil, err
	}
	probe(raw.(*net.TCPConn))

	conn := raw
	if c.Identity != nil {
		shaking, cancel := awake.Within(ctx, answerTime)
		defer cancel()
		if conn, err = c.secure(shaking, raw); err != nil {
			return nil, c.strange(ctx, to, err)
		}
	} else if _, err := raw.Write([]byte(greeting)); err != nil {
		raw.Close()
		return nil, err
	}
	s := c.session(conn)
	if err := s.hello(ctx); err != nil {
		s.Close()
		return nil, c.strange(ctx, to, err)
	}
	return s, nil
}

// secure does the client's side of the handshake.
func (c *Config) secure(ctx context.Context, raw net.Conn) (net.Conn, error) {
	conn, err := c.Identity.Connect(ctx, raw, c.Identity.ClientConfig(Protocol))
	if err != nil { // a nil *Conn is no nil net.Conn
		return nil, err
	}
	return conn, nil
}

// strange is why who listens at an address does not let us in.
func (c *Config) strange(ctx context.Context, to netip.AddrPort, err error) error {
	var record tls.RecordHeaderError
	var refused *Refusal
	switch {
	case errors.As(err, &refused):
		return &Error{refused.Code, refused.Text}
	case errors.As(err, &record) && string(record.RecordHeader[:]) == greeting[:len(record.RecordHeader)]:
		return &Error{job.ExitTLS, fmt.Sprintf("the torchrun at %s has no key, and this pod has the job's: mount the same key in all pods", c.endpoint())}
	}
	if c.Identity != nil {
		err = c.Identity.Explain(err, nil)
	}
	if !errors.As(err, new(*identity.Refusal)) && isTorchStore(ctx, to) {
		return errStore
	}
	if errors.Is(err, errFrame) || errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("what listens there is no torchrun of mpiup's, or it has just ended (%w)", err)
	}
	return err
}

// isTorchStore asks whether a store of torch's listens at an address.
func isTorchStore(ctx context.Context, at netip.AddrPort) bool {
	const bound = time.Second
	ask := func(question []byte) bool {
		within, cancel := awake.Within(ctx, bound)
		defer cancel()
		conn, err := new(net.Dialer).DialContext(within, "tcp", at.String())
		if err != nil {
			return false
		}
		defer conn.Close()
		defer awake.Until(conn.SetDeadline, bound)()
		if _, err := conn.Write(question); err != nil {
			return false
		}
		var answer [8]byte
		_, err = io.ReadFull(conn, answer[:])
		return err == nil && torchAnswer(answer)
	}
	for _, question := range torchQuestions() {
		if ask(question) {
			return true
		}
	}
	return false
}

// hello says who this node is, and reads the answer.
func (s *Session) hello(ctx context.Context) error {
	h := s.cfg.Hello
	h.Port = FreePort()
	if err := s.send(Message{Hello: &h}); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { s.conn.Close() })
	defer stop()
	lift := awake.Until(s.conn.SetReadDeadline, answerTime)
	m, err := readMessage(s.conn)
	if e := lift(); err == nil {
		err = e
	}
	switch {
	case err != nil:
		return err
	case m.Refusal != nil:
		return m.Refusal
	case m.Welcome == nil:
		return errFrame
	}
	s.host = m.Welcome.Name
	s.parts.Go(s.listen)
	return nil
}

// listen sorts what the host says, until the connection ends.
func (s *Session) listen() {
	defer close(s.lost)
	for {
		m, err := readMessage(s.conn)
		if err == nil && !s.sort(m) {
			err = errFrame
		}
		if err != nil {
			s.why = lossOf(err)
			s.conn.Close()
			return
		}
	}
}

// sort hands on what the host says; false: no host of mpiup's says it.
func (s *Session) sort(m Message) bool {
	switch {
	case m.Begin != nil:
		return put(s, s.begins, *m.Begin)
	case m.End != nil, m.Leave != nil:
		s.mu.Lock()
		s.told = true
		s.mu.Unlock()
		select {
		case s.orders <- m:
		default: // nobody reads them any more, and the verdict follows
		}
		return true
	case m.Verdict != nil:
		return put(s, s.verdicts, *m.Verdict)
	}
	return false
}

// put waits until what came before is taken, or the session is closed.
func put[T any](s *Session, to chan T, what T) bool {
	select {
	case to <- what:
		return true
	case <-s.done:
		return false
	}
}

func (s *Session) send(m Message) error {
	b, err := m.frame()
	if err != nil {
		return err
	}
	s.sending.Lock()
	defer s.sending.Unlock()
	lift := awake.Until(s.conn.SetWriteDeadline, writeTime)
	_, err = s.conn.Write(b)
	return errors.Join(err, lift())
}

// Hosts says that this pod is the host.
func (s *Session) Hosts() bool { return s.hosts != nil }

// gone is the loss of the host.
func (s *Session) gone() *Error {
	return &Error{job.ExitAgentLost, fmt.Sprintf("node %d (%s), where the nodes met, is lost: %s", s.hostNode, visible.Line(s.host), s.why)}
}

// Begin waits until the ranks may start. The error is an *Error, or the cause of ctx's end. ErrAgain says that the host was lost
// before any ranks began: whoever joins anew may find its successor.
func (s *Session) Begin(ctx context.Context) (Begin, error) {
	select {
	case b := <-s.begins:
		return s.begun(b), nil
	case v := <-s.verdicts:
		return Begin{}, &Error{v.Code, v.Text}
	case <-ctx.Done():
		return Begin{}, context.Cause(ctx)
	case <-s.lost:
	}
	select { // what came before the end
	case b := <-s.begins:
		return s.begun(b), nil
	case v := <-s.verdicts:
		return Begin{}, &Error{v.Code, v.Text}
	default:
	}
	if s.round == 0 && s.hosts == nil {
		return Begin{}, ErrAgain
	}
	return Begin{}, s.gone()
}

// ErrAgain is Begin's error where a node may join anew.
var ErrAgain = errors.New("the torchrun where the nodes meet ended before all were there")

func (s *Session) begun(b Begin) Begin {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.round = b.Round
	s.hostNode = b.HostNode
	if b.MasterAddr == "" {
		b.MasterAddr = s.cfg.Host
	}
	s.told = false
	for len(s.orders) > 0 { // of a round before
		<-s.orders
	}
	return b
}

// Ordered waits, while ranks run, for the host's word that they are to end, an End or a Leave, or for the loss of the host, which is
// an End of ours; false: ctx has ended before.
func (s *Session) Ordered(ctx context.Context) (Message, bool) {
	select {
	case m := <-s.orders:
		return m, true
	case <-ctx.Done():
		return Message{}, false
	case <-s.lost:
	}
	select {
	case m := <-s.orders:
		return m, true
	default:
		lost := s.gone()
		return Message{End: &End{Round: s.round, Text: lost.Text, Code: lost.Code}}, true
	}
}

// Failing tells the host that this node's ranks are being ended, since some failed: why, and the exit code as far as it is known.
// Where the host has said that they are to end it says nothing.
func (s *Session) Failing(why string, code int) {
	if round, first := s.tells(); first && code != 0 {
		_ = s.send(Message{End: &End{Round: round, Text: clip(why), Code: code & 0xff}}) // a host that is lost hears nothing
	}
}

// Leaving tells the host that this pod is being taken away.
func (s *Session) Leaving(why string) {
	if round, first := s.tells(); first {
		_ = s.send(Message{Leave: &Leave{Round: round, Text: clip(why)}})
	}
}

// tells is the round that this node says the end of, if it is the first to say it.
func (s *Session) tells() (round int, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first = !s.told
	s.told = true
	return s.round, first
}

// Ended tells the host how this node's ranks have ended, waits until all nodes' have, and returns how the job stands then. Where
// the host is lost the verdict is that.
func (s *Session) Ended(ctx context.Context, e Ended) (Verdict, error) {
	e.Round = s.round
	e.Text = clip(e.Text)
	e.Port = FreePort()
	_ = s.send(Message{Ended: &e}) // a lost host is noticed below
	select {
	case v := <-s.verdicts:
		return v, nil
	case <-ctx.Done():
		return Verdict{}, context.Cause(ctx)
	case <-s.lost:
	}
	select {
	case v := <-s.verdicts:
		return v, nil
	default:
		lost := s.gone()
		return Verdict{Round: s.round, Code: lost.Code, Text: lost.Text, Node: -1}, nil
	}
}

// Close leaves the job. A host waits a moment for the others to have heard its last word.
func (s *Session) Close() {
	s.closed.Do(func() {
		close(s.done)
		s.conn.Close()
		s.parts.Wait()
	})
}

// Abandon leaves the job at once; where this pod is the host, the other nodes lose it.
func (s *Session) Abandon() {
	if s.hosts != nil {
		s.hosts()
	}
	s.Close()
}

// FreePort is a port where rank 0 can listen, as far as anybody knows. It is looked for below those that the kernel gives to
// connections.
func FreePort() int {
	const low, high, tries = 20000, 29999, 100
	for range tries {
		p := low + rand.IntN(high-low+1)
		if l, err := net.Listen("tcp", ":"+strconv.Itoa(p)); err == nil {
			l.Close()
			return p
		}
	}
	return low
}
