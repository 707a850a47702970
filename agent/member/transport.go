package member

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/mpiup/mpiup/internal/awake"
)

// A Transport carries memberlist's packets and streams over the agent's TLS connections.
//
//	stream:  'S', then memberlist's own bytes, one exchange
//	packets: 'P', uint8 n, n bytes: the dialler's address as netip.AddrPort marshals it,
//	         then frames both ways: uint16 length, big endian, and a packet
//
// One packet connection between two members serves both directions. The acceptor sends on it only if it comes from
// the address it states. So a member can draw the packets for another one only from within that one's own host. What
// comes in is bounded here and vetted (agent/member).
//
// Every method may be called from any goroutine. Each connection has one goroutine that reads, and one that writes
// while there is something to write; Shutdown ends them all and waits for them. mu is never held across a connection's
// own calls but close.
//
// It does not listen, resolve or speak TLS, and promises no delivery: what cannot be sent at once is lost, as with UDP.

// Bounds of the transport. A full queue or table drops packets, which gossip is made for.
const (
	maxPacket   = 16 << 10 // bytes in a frame
	PacketSize  = 4 << 10  // bytes memberlist puts in a packet
	maxLinks    = 512      // connections for packets that we keep to send on
	maxAccepted = 1024     // connections others made to us
	maxPerIP    = 64       // of those, from one address (siblings share one)
	maxDials    = 32       // connections being made for packets
	linkQueue   = 64       // packets waiting on one connection
	PacketQueue = 512      // packets waiting for memberlist
	streamQueue = 16
	maxStream   = 4 << 20          // bytes read of one stream
	helloTime   = 5 * time.Second  // for the first bytes of an accepted connection
	spareIdle   = 15 * time.Second // a second connection to one peer is kept this long
)

var errClosed = errors.New("gossip is not running")

// transportConfig is what New needs. All of it is required.
type transportConfig struct {
	Self    netip.AddrPort                                          // where others reach us
	Connect func(context.Context, netip.AddrPort) (net.Conn, error) // to a peer: handshaken and verified
	Sent    func(packet []byte)                                     // sees what memberlist sends
	Heard   func(packet []byte)                                     // sees what comes in
	Log     *slog.Logger
}

// Transport is memberlist's NodeAwareTransport.
type Transport struct {
	cfg transportConfig

	packets chan *memberlist.Packet
	streams chan net.Conn

	wg     sync.WaitGroup
	mu     sync.Mutex
	ctx    context.Context              // guarded by mu; nil before Open
	cancel context.CancelFunc           // guarded by mu
	links  map[netip.AddrPort]*link     // guarded by mu; to send on
	all    map[*link]struct{}           // guarded by mu
	raw    map[net.Conn]struct{}        // guarded by mu; streams, and accepted ones before their hello
	perIP  map[netip.Addr]int           // guarded by mu; accepted connections
	failed map[netip.AddrPort]time.Time // guarded by mu; last failure to connect
	taken  int                          // guarded by mu; accepted connections
	dials  int                          // guarded by mu
}

// newTransport builds; nothing goes in or out until Open.
func newTransport(c transportConfig) *Transport {
	return &Transport{
		cfg:     c,
		packets: make(chan *memberlist.Packet, PacketQueue),
		streams: make(chan net.Conn, streamQueue),
		links:   map[netip.AddrPort]*link{},
		all:     map[*link]struct{}{},
		raw:     map[net.Conn]struct{}{},
		perIP:   map[netip.Addr]int{},
		failed:  map[netip.AddrPort]time.Time{},
	}
}

// Open lets connections in and out until Shutdown.
func (t *Transport) Open() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ctx, t.cancel = context.WithCancel(context.Background())
}

// begin is the context of new work and counts it; nil when closed. The work calls t.wg.Done.
func (t *Transport) begin() context.Context {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ctx == nil || t.ctx.Err() != nil {
		return nil
	}
	t.wg.Add(1)
	return t.ctx
}

// FinalAdvertiseAddr, WriteTo, PacketCh, DialTimeout, StreamCh, Shutdown, WriteToAddress and
// DialAddressTimeout are memberlist's NodeAwareTransport.
func (t *Transport) FinalAdvertiseAddr(string, int) (net.IP, int, error) {
	return t.cfg.Self.Addr().AsSlice(), int(t.cfg.Self.Port()), nil
}

func (t *Transport) PacketCh() <-chan *memberlist.Packet { return t.packets }
func (t *Transport) StreamCh() <-chan net.Conn           { return t.streams }

func (t *Transport) WriteTo(b []byte, addr string) (time.Time, error) {
	return t.WriteToAddress(b, memberlist.Address{Addr: addr})
}

func (t *Transport) DialTimeout(addr string, d time.Duration) (net.Conn, error) {
	return t.DialAddressTimeout(memberlist.Address{Addr: addr}, d)
}

// WriteToAddress never blocks and never fails for the peer's sake: a packet that cannot be
// sent is lost, as with UDP.
func (t *Transport) WriteToAddress(b []byte, a memberlist.Address) (time.Time, error) {
	addr, err := netip.ParseAddrPort(a.Addr)
	if err != nil || len(b) > maxPacket {
		return time.Time{}, errors.Join(err, errors.New("not a packet to an address"))
	}
	t.cfg.Sent(b)
	t.Send(b, netip.AddrPortFrom(addr.Addr().Unmap(), addr.Port()))
	return time.Now(), nil
}

func (t *Transport) DialAddressTimeout(a memberlist.Address, d time.Duration) (net.Conn, error) {
	addr, err := netip.ParseAddrPort(a.Addr)
	if err != nil {
		return nil, err
	}
	ctx := t.begin()
	if ctx == nil {
		return nil, errClosed
	}
	ctx, cancel := awake.Within(ctx, min(d, dialTime))
	defer cancel()
	conn, err := t.cfg.Connect(ctx, netip.AddrPortFrom(addr.Addr().Unmap(), addr.Port()))
	if err != nil {
		t.wg.Done()
		return nil, err
	}
	userTimeout(conn)
	s := t.stream(conn, netip.Addr{})
	if s == nil {
		t.wg.Done()
		return nil, errClosed
	}
	if err := send(conn, []byte{'S'}, dialTime); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Shutdown ends every connection and waits for all that used one.
func (t *Transport) Shutdown() error {
	t.mu.Lock()
	if t.cancel != nil {
		t.cancel()
	}
	conns := slices.Collect(maps.Keys(t.raw))
	for l := range t.all {
		conns = append(conns, l.conn)
	}
	t.mu.Unlock()
	for _, c := range conns {
		hangUp(c)
	}
	for {
		select {
		case s := <-t.streams:
			s.Close()
			continue
		default:
		}
		break
	}
	t.wg.Wait()
	return nil
}

// Sweep closes links on which no frame went for long and forgets old failures.
func (t *Transport) Sweep() {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	for l := range t.all {
		if l.tired(now) {
			hangUp(l.conn) // its reader clears up
		}
	}
	for a, when := range t.failed {
		if now.Sub(when) > dialTime {
			delete(t.failed, a)
		}
	}
}

// stream is one of memberlist's exchanges, dialled or accepted. It counts as work of the
// transport from t.begin until Close, which memberlist always calls.
type stream struct {
	net.Conn
	t    *Transport
	from netip.Addr // of an accepted one
	in   io.Reader  // of Conn, as far as it may be read
	once sync.Once
}

// stream takes over conn, the caller's count in t.wg and, for an accepted connection, the place
// that admit gave it. Nil: the transport has closed; conn is closed, the counts are not taken.
func (t *Transport) stream(conn net.Conn, from netip.Addr) *stream {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ctx.Err() != nil {
		hangUp(conn)
		return nil
	}
	t.raw[conn] = struct{}{}
	return &stream{Conn: conn, t: t, from: from, in: newVetReader(io.LimitReader(conn, maxStream))}
}

func (s *stream) Read(b []byte) (int, error) { return s.in.Read(b) }

func (s *stream) Close() error {
	err := net.ErrClosed
	s.once.Do(func() {
		err = s.Conn.Close()
		s.t.forget(s.Conn)
		s.t.release(s.from)
		s.t.wg.Done()
	})
	return err
}

func (t *Transport) forget(c net.Conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.raw, c)
}
