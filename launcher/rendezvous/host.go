package rendezvous

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/mpiup/mpiup/internal/awake"
	"github.com/mpiup/mpiup/internal/bounded"
	"github.com/mpiup/mpiup/internal/identity"
	"github.com/mpiup/mpiup/internal/job"
)

// Bounds of callers.
const (
	helloTime  = 10 * time.Second // for a caller to say who it is
	writeTime  = 30 * time.Second // for a node to take what is sent
	byeTime    = 10 * time.Second // for nodes to go when the job is over
	maxCallers = 256              // that have not said who they are; for more, old ones go
	maxUnsent  = 16               // frames that wait for a node's connection
)

// host is the torchrun at whose address the nodes meet: its connections, around a register.
type host struct {
	listener *net.TCPListener
	identity *identity.Identity // nil: without TLS
	secured  *tls.Config
	rules    rules
	say      func(format string, args ...any)

	events   chan event
	done     chan struct{} // closed when nobody takes events any more
	parts    sync.WaitGroup
	crowd    bounded.Crowd[*net.TCPConn]
	refusals bounded.Refusals
}

// event is what a connection tells the host's loop: a caller that has said who it is, what a node says, or its end.
type event struct {
	from  *peer
	hello *Hello
	msg   *Message
	why   string // of its end
}

// peer is a caller that has said who it is.
type peer struct {
	id      int
	conn    net.Conn
	address string // without a port; "": it is the host's own node
	out     chan Message
	closing bool // nothing more is sent; the loop's
}

func newHost(l *net.TCPListener, id *identity.Identity, r rules, say func(format string, args ...any)) *host {
	h := &host{listener: l, identity: id, rules: r, say: say, events: make(chan event), done: make(chan struct{})}
	if id != nil {
		h.secured = id.ServerConfig(Protocol)
	}
	return h
}

// run lets nodes in and serves them until the job is over or ctx ends. own is the pipe to this pod's own node.
func (h *host) run(ctx context.Context, own net.Conn) {
	h.parts.Go(func() { h.introduce(own, "", func() {}) })
	l := &loop{host: h, register: newRegister(h.rules, 0), peers: map[int]*peer{}}
	l.run(ctx)
	close(h.done)
	h.listener.Close()
	for _, p := range l.peers {
		p.conn.Close()
		l.drop(p)
	}
	own.Close()
	h.parts.Wait()
}

// accept takes callers until the listener is closed.
func (h *host) accept() {
	for {
		conn, err := h.listener.AcceptTCP()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // out of descriptors, or the caller is gone already: the next may do
			select {
			case <-time.After(50 * time.Millisecond):
				continue
			case <-h.done:
				return
			}
		}
		probe(conn)
		from := conn.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap()
		if old := h.crowd.Add(conn, from, maxCallers); old != nil {
			old.Close()
		}
		h.parts.Go(func() { h.meet(conn, from) })
	}
}

// meet finds out who calls.
func (h *host) meet(conn *net.TCPConn, from netip.Addr) {
	stop := h.closedAtEnd(conn)
	defer stop()
	lift := awake.Until(conn.SetReadDeadline, helloTime)
	met, err := h.greeted(conn)
	if err == nil {
		err = lift()
	}
	if err != nil {
		_ = lift()
		h.crowd.Remove(conn)
		conn.Close()
		h.refused(conn.RemoteAddr(), err)
		return
	}
	h.introduce(met, from.String(), func() { h.crowd.Remove(conn) })
}

// closedAtEnd closes a connection when the host ends.
func (h *host) closedAtEnd(conn net.Conn) (stop func()) {
	over := make(chan struct{})
	h.parts.Go(func() {
		select {
		case <-h.done:
			conn.Close()
		case <-over:
		}
	})
	return sync.OnceFunc(func() { close(over) })
}

var (
	errTorch = errors.New("PyTorch's own torchrun called: use one torchrun in all pods, mpiup's or PyTorch's")
	errNoKey = errors.New("it has no key, and this pod has the job's: mount the same key in all pods")
	errKey   = errors.New("it has a key, and this pod has none: mount the same key in all pods")
	errWeb   = errors.New("an HTTP request came, where torchruns meet: what probes this port, let it probe another")
	errOther = errors.New("what it sent is of no torchrun")
)

// greeted is the connection behind the handshake, of a node of mpiup's.
func (h *host) greeted(conn *net.TCPConn) (net.Conn, error) {
	first := make([]byte, 0, opening)
	who := unknown
	for who == unknown {
		n, err := conn.Read(first[len(first):opening])
		first = first[:len(first)+n]
		if err != nil && len(first) == 0 {
			return nil, io.EOF // a look whether somebody listens
		}
		who = callerOf(first, err != nil)
	}
	raw := &begun{TCPConn: conn, first: first}
	switch who {
	case torch:
		return nil, errTorch
	case web:
		return nil, errWeb
	case ours:
		line := make([]byte, len(greeting))
		if _, err := io.ReadFull(raw, line); err != nil || string(line) != greeting {
			return nil, errOther
		}
		if h.identity == nil {
			return raw, nil
		}
		h.answer(conn, Message{Refusal: &Refusal{Code: job.ExitTLS,
			Text: fmt.Sprintf("the torchrun at %s has the job's key, and this pod has none: mount the same key in all pods", h.rules.Endpoint)}})
		return nil, errNoKey
	case overTLS:
		if h.identity == nil {
			h.reply(conn, []byte(greeting))
			return nil, errKey
		}
		ctx, cancel := awake.Within(context.Background(), helloTime)
		defer cancel()
		return h.identity.Accept(ctx, raw, h.secured)
	}
	return nil, errOther
}

// answer tells a caller why it is not let in.
func (h *host) answer(conn *net.TCPConn, m Message) {
	if b, err := m.frame(); err == nil {
		h.reply(conn, b)
	}
}

// reply writes to a caller that is not let in, and waits a moment for it to read that: to close with unread bytes would send a
// reset, which may overtake the answer.
func (h *host) reply(conn *net.TCPConn, b []byte) {
	const moment, most = time.Second, 64 << 10
	_ = awake.Until(conn.SetDeadline, moment) // its end closes the connection
	if _, err := conn.Write(b); err != nil || conn.CloseWrite() != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, conn, most)
}

// refused notes a caller that was not let in.
func (h *host) refused(from net.Addr, err error) {
	if errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) {
		return
	}
	worth, left := h.refusals.Worth(from, err.Error(), time.Now())
	switch {
	case left > 0:
		h.say("%s is not let in: %.300v; nor were %d others since", from, err, left)
	case worth:
		h.say("%s is not let in: %.300v", from, err)
	}
}

// introduce reads who a node is, hands it to the loop, and then what it says, until its connection ends. known is called when it
// has said who it is, or will not.
func (h *host) introduce(conn net.Conn, address string, known func()) {
	p := &peer{conn: conn, address: address, out: make(chan Message, maxUnsent)}
	lift := awake.Until(conn.SetReadDeadline, helloTime)
	m, err := readMessage(conn)
	if err == nil {
		err = lift()
	}
	known()
	if err != nil || m.Hello == nil {
		_ = lift()
		conn.Close()
		if address != "" {
			h.refused(conn.RemoteAddr(), explain(h.identity, err))
		}
		return
	}
	h.parts.Go(p.write)
	if !h.tell(event{from: p, hello: m.Hello}) {
		conn.Close()
		close(p.out)
		return
	}
	for {
		m, err := readMessage(conn)
		if err != nil {
			h.tell(event{from: p, why: lossOf(err)})
			conn.Close()
			return
		}
		if !h.tell(event{from: p, msg: &m}) {
			return
		}
	}
}

// explain is why a caller's first words could not be read.
func explain(id *identity.Identity, err error) error {
	switch {
	case err == nil, errors.Is(err, errFrame):
		return errOther
	case id != nil:
		return id.Explain(err, nil)
	}
	return err
}

// lossOf says how a connection ended.
func lossOf(err error) string {
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.ErrClosedPipe):
		return "its torchrun's connection ended"
	case errors.Is(err, errFrame):
		return "it sent what is no frame of mpiup's torchrun"
	}
	return fmt.Sprintf("its torchrun's connection ended (%.200v)", err)
}

// tell hands an event to the loop; false: there is none any more.
func (h *host) tell(e event) bool {
	select {
	case h.events <- e:
		return true
	case <-h.done:
		return false
	}
}

// write sends a node what the loop has for it, until out is closed; then the connection is, too.
func (p *peer) write() {
	defer p.conn.Close()
	for m := range p.out {
		b, err := m.frame()
		if err != nil {
			return
		}
		lift := awake.Until(p.conn.SetWriteDeadline, writeTime)
		_, err = p.conn.Write(b)
		if lift() != nil || err != nil {
			break
		}
	}
	for range p.out { // the loop never waits for a node
	}
}

// loop feeds the register. All of it belongs to one goroutine.
type loop struct {
	*host
	register *register
	peers    map[int]*peer
	next     int           // id of the next node but the host's own
	clock    time.Duration // that counted
	goodbye  time.Duration // when those that have not gone are left; 0: the job is not over
}

func (l *loop) run(ctx context.Context) {
	ticker := time.NewTicker(awake.Tick)
	defer ticker.Stop()
	last := time.Now()
	ticks := true
	for {
		// While ranks run nothing is waited for that has a time, and this process has no reason to wake.
		if due := l.register.waits() || l.goodbye > 0; due != ticks {
			ticks = due
			last = time.Now()
			if ticker.Stop(); due {
				ticker.Reset(awake.Tick)
			}
		}
		select {
		case <-ctx.Done():
			return
		case e := <-l.events:
			l.on(e)
		case <-ticker.C:
			now := time.Now()
			l.clock += awake.Counts(last, now, awake.Tick)
			last = now
			l.register.tick(l.clock)
		}
		l.carryOut()
		if l.register.state != over {
			continue
		}
		if l.goodbye == 0 {
			l.goodbye = l.clock + byeTime
		}
		if len(l.peers) == 0 || l.clock >= l.goodbye {
			return
		}
	}
}

func (l *loop) on(e event) {
	p := e.from
	switch {
	case e.hello != nil:
		if p.address == "" {
			p.id = hostID
			l.parts.Go(l.accept) // this pod's own node comes first
		} else {
			l.next++
			p.id = l.next
		}
		l.peers[p.id] = p
		l.register.join(l.clock, p.id, p.address, *e.hello)
	case e.msg != nil:
		if !l.register.hear(l.clock, p.id, *e.msg) && !p.closing {
			l.register.gone(l.clock, p.id, "it sent what is no frame of mpiup's torchrun")
			l.drop(p)
		}
	default:
		l.register.gone(l.clock, p.id, e.why)
		l.drop(p)
		delete(l.peers, p.id)
	}
}

// drop closes a connection behind what is to be sent there.
func (l *loop) drop(p *peer) {
	if !p.closing {
		p.closing = true
		close(p.out)
	}
}

// carryOut sends what the register has for nodes.
func (l *loop) carryOut() {
	if l.rules.Static && l.register.round > 0 || l.register.state == over {
		l.listener.Close() // rank 0 listens there now
	}
	for _, o := range l.register.take() {
		if o.say != "" {
			l.say("%s", o.say)
			continue
		}
		p := l.peers[o.to]
		if p == nil || p.closing {
			continue
		}
		select {
		case p.out <- o.msg:
		default: // it takes nothing any more
			p.conn.Close()
		}
		if o.drop {
			l.drop(p)
		}
	}
}

// begun is a connection of which some bytes have been read, which Read gives out first.
type begun struct {
	*net.TCPConn
	first []byte
}

// Read is for one goroutine at a time.
func (c *begun) Read(p []byte) (int, error) {
	if len(c.first) > 0 && len(p) > 0 {
		n := copy(p, c.first)
		c.first = c.first[n:]
		return n, nil
	}
	return c.TCPConn.Read(p)
}
