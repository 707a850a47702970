package member

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"
	"golang.org/x/sync/errgroup"

	"github.com/mpiup/mpiup/internal/awake"
)

// Self is what an agent says of itself.
type Self struct {
	Name        string // of the host; need not be unique
	Incarnation string // one life of the container
	Version     string // build
	Protocol    uint32
	Addr        netip.AddrPort // where others reach it: advertised, never unspecified
	Slots       int
	Digest      string // of the inventory
}

// Config is what New needs. Dial and Seeds end when their context does.
type Config struct {
	Self Self
	Log  *slog.Logger // default: none
	// Dial connects to a peer's gossip. The connection is handshaken and verified.
	Dial func(ctx context.Context, addr netip.AddrPort) (net.Conn, error)
	// Seeds says where peers may be. It is called again and again with growing pauses until
	// every seed is a member, then once a minute; it may take its time. Nil: no seeds.
	Seeds func(ctx context.Context) ([]netip.AddrPort, error)
	// Verify tells whether launcher name has signed that incarnation has number. Nil: nothing is believed.
	Verify func(name string, number uint64, incarnation string, proof []byte) bool
}

const (
	idSuffix   = 8 // hex digits after the incarnation: one agent process
	tick       = 500 * time.Millisecond
	sweepEvery = 10 * time.Second
)

// Gossip is one agent's part in the gossip. Make one with New.
type Gossip struct {
	cfg       Config
	id        string
	transport *Transport
	table     *table
	claims    *claims
	ran       atomic.Bool
	renew     chan struct{} // our metadata changed, or we are suspected
	compare   chan struct{} // a name has two lives, or a suspicion has run out

	mu      sync.Mutex
	meta    meta          // guarded by mu
	view    *View         // guarded by mu
	changed chan struct{} // guarded by mu; closed when view is replaced
}

// New checks c and builds; it starts and opens nothing.
func New(c Config) (*Gossip, error) {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	c.Self.Addr = netip.AddrPortFrom(c.Self.Addr.Addr().Unmap(), c.Self.Addr.Port())
	s := c.Self
	m := meta{uint64(time.Now().UnixMilli()), s}
	if err := m.check(); err != nil {
		return nil, fmt.Errorf("gossip: this agent's own description: %w", err)
	}
	if !s.Addr.IsValid() || s.Addr.Port() == 0 || s.Addr.Addr().IsUnspecified() {
		return nil, fmt.Errorf("gossip: %v is not an address that peers can reach", s.Addr)
	}
	if c.Dial == nil {
		return nil, errors.New("gossip: no Dial")
	}
	suffix := make([]byte, idSuffix/2)
	rand.Read(suffix)
	g := &Gossip{
		cfg: c, id: s.Incarnation + "." + hex.EncodeToString(suffix), meta: m,
		renew: make(chan struct{}, 1), compare: make(chan struct{}, 1), changed: make(chan struct{}),
	}
	g.table = &table{
		self:    g.id,
		show:    g.show,
		doubted: func() { poke(g.compare) },
		accused: func() { poke(g.renew) },
		byID:    map[string]*entry{},
	}
	g.transport = newTransport(transportConfig{Self: s.Addr, Connect: c.Dial, Sent: g.table.sniff, Heard: g.table.hear, Log: c.Log})
	g.claims = newClaims(g.table.size, func(name string, k claim) bool {
		return c.Verify != nil && c.Verify(name, k.number, k.incarnation, []byte(k.proof))
	})
	me := &entry{id: g.id, meta: m}
	g.table.byID[g.id] = me
	g.table.last = []Member{me.member()}
	g.view = &View{Members: g.table.last}
	return g, nil
}

// poke says that there is something to do, without waiting for who does it.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (g *Gossip) show(members []Member) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.view = &View{Members: members}
	close(g.changed)
	g.changed = make(chan struct{})
}

// View gives the current view, never nil. We are in it.
func (g *Gossip) View() *View {
	v, _ := g.Watch()
	return v
}

// Watch gives the current view and a channel that is closed when there is another one.
func (g *Gossip) Watch() (*View, <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.view, g.changed
}

// Claim passes on that an incarnation of the launcher identity name has number, which it has signed. One that
// is malformed or that nobody signed is passed over.
func (g *Gossip) Claim(name string, number uint64, incarnation string, proof []byte) {
	g.claims.merge(name, claim{number, incarnation, string(proof)})
}

// Numbers are the number heard of for an incarnation of name, with the launcher's signature under it, and the highest for any; 0 if none.
func (g *Gossip) Numbers(name, incarnation string) (own uint64, proof []byte, highest uint64) {
	c, highest := g.claims.numbers(name, incarnation)
	return c.number, []byte(c.proof), highest
}

// Handle takes over an accepted gossip connection, handshaken and verified, and returns at once.
func (g *Gossip) Handle(conn net.Conn) { g.transport.Handle(conn) }

// Run takes part in the gossip until ctx ends, then says goodbye and returns nil. It can be
// called once. An error means that it could not begin.
func (g *Gossip) Run(ctx context.Context) error {
	if !g.ran.CompareAndSwap(false, true) {
		return errors.New("gossip: Run called twice")
	}
	g.transport.Open()
	list, err := memberlist.Create(g.memberlistConfig())
	if err != nil {
		g.transport.Shutdown()
		return fmt.Errorf("gossip: %w", err)
	}
	work, ctx := errgroup.WithContext(ctx)
	work.Go(func() error { g.keep(ctx); return nil })
	work.Go(func() error { g.keepDescribed(ctx, list); return nil })
	work.Go(func() error { g.verify(ctx, list); return nil })
	work.Go(func() error { g.seed(ctx, list); return nil })
	work.Wait()
	list.Leave(leaveTime) // an error says only that nobody may have heard
	return list.Shutdown()
}

func (g *Gossip) memberlistConfig() *memberlist.Config {
	c := memberlist.DefaultLANConfig()
	c.Name, c.Transport = g.id, g.transport
	c.AdvertiseAddr, c.AdvertisePort = g.cfg.Self.Addr.Addr().String(), int(g.cfg.Self.Addr.Port())
	c.BindPort = c.AdvertisePort
	c.ProbeInterval, c.ProbeTimeout = probeEvery, probeTimeout
	c.DisableTcpPings = true // all is TCP
	c.AwarenessMaxMultiplier = 2
	// Its own suspicion must never be shorter than ours; it grows with log10 of the members.
	c.SuspicionMult = int((suspicion + probeEvery - 1) / probeEvery)
	c.SuspicionMaxTimeoutMult = 1
	c.PushPullInterval, c.TCPTimeout = pushPull, 2*dialTime
	c.GossipInterval, c.GossipToTheDeadTime = gossipEvery, suspicion
	c.EnableCompression = false // packets are small, and there would be bombs to defuse
	c.UDPBufferSize = PacketSize
	c.HandoffQueueDepth = PacketQueue
	c.Logger = log.New(logWriter{g.cfg.Log}, "", 0)
	c.Delegate, c.Events, c.Alive = delegate{g}, g.table, delegate{g}
	return c
}

// keep lets time pass for the table and reminds suspects. A tick that comes late counts for no
// more than two: while we were stopped nobody had a chance to be heard.
func (g *Gossip) keep(ctx context.Context) {
	every := time.NewTicker(tick)
	defer every.Stop()
	last, swept, n := time.Now(), time.Now(), 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
		now := time.Now()
		if g.table.advance(awake.Counts(last, now, tick)) {
			poke(g.compare)
		}
		last = now
		if n++; n%2 == 0 {
			g.remind()
		}
		if now.Sub(swept) >= sweepEvery {
			g.transport.Sweep()
			swept = now
		}
	}
}

// keepDescribed tells everybody that we are alive and what we are, with a higher number than
// before, when our metadata has changed or we are suspected; at most once in a tick.
func (g *Gossip) keepDescribed(ctx context.Context, list *memberlist.Memberlist) {
	every := time.NewTicker(tick)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
		select {
		case <-g.renew:
			list.UpdateNode(gossipEvery) // the timeout only ends waiting
		default:
		}
	}
}
