package reach

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mpiup/mpiup/internal/resolve"
	"github.com/mpiup/mpiup/internal/wire"
	"github.com/mpiup/mpiup/launcher/hosts"
	"github.com/mpiup/mpiup/launcher/link"
)

// Found is a wanted host, and what has come of it.
type Found struct {
	hosts.Wanted
	Session *link.Session // nil: it is not here
	Wait    func()        // embedded: blocks until its agent has ended
	Tried   bool          // it was asked in vain, if it is not here
}

// Embedded says that the host's agent is in this process.
func (f Found) Embedded() bool { return f.Wait != nil }

// search is one goroutine's search for one host.
type search struct {
	watch    *resolve.Watch
	at       netip.Addr // where it was last
	patience link.Patience
	begun    time.Duration // of the last attempt, by the gatherer's clock
}

// gatherer reaches all wanted hosts. Each has a goroutine that resolves, waits for a turn, dials and
// claims an agent until it has one; agents are told apart by incarnation, so that two names of
// one address end on two agents, and two names of one agent do not pass for two hosts.
type gatherer struct {
	reach  *Reach
	attach link.Attach
	opener *Opener
	life   context.Context // of the streams
	turns  *turns
	clock  *wire.Clock
	tired  atomic.Bool // a host was given up before ctx ended
	hasty  bool        // what waiting does not change ends it: another host's agent, TLS, another version
	// enough ends it too: whether the hosts that are here suffice, of all that are wanted. nil: all are needed.
	enough func([]Found) bool

	mu      sync.Mutex
	answers []Found                // what has come of the wanted hosts so far, guarded by mu
	held    *Held                  // the first host's that holds a run for us; nil: none does, guarded by mu
	claimed map[string]int         // incarnation → index of the wanted host, guarded by mu
	taken   map[netip.AddrPort]int // where they are, guarded by mu
	cancel  context.CancelFunc     // ends gathering

	missing atomic.Int64  // hosts
	full    chan struct{} // closed once nobody is missing
	fill    sync.Once     // of that
}

// note notes what has come of host i; nil: it was asked in vain.
func (g *gatherer) note(i int, s *link.Session) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.answers[i].Session, g.answers[i].Tried = s, s == nil
	if g.enough != nil && g.enough(g.answers) {
		g.cancel()
	}
}

// noteHeld ends gathering when a host holds a run whose launcher is lost: hosts that are missing may be that run's.
func (g *gatherer) noteHeld(host string, s *link.Session) {
	if len(s.Opened.Held) == 0 || g.enough != nil || g.hasty { // hosts of a run that goes on
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.held == nil {
		g.held = &Held{Host: host, Agent: s.Opened.Host.GetIncarnation(), Runs: s.Opened.Held}
	}
	g.cancel()
}

func newGatherer(r *Reach, attach link.Attach, o *Opener, life context.Context) *gatherer {
	return &gatherer{reach: r, attach: attach, opener: o, life: life, turns: newTurns(), clock: wire.NewClock(), full: make(chan struct{}),
		claimed: map[string]int{}, taken: map[netip.AddrPort]int{}}
}

// gather blocks until every wanted host has answered or ctx ends. The result is in the order
// of want; an entry without session was not reached, and board tells why.
func (g *gatherer) gather(ctx context.Context, want []hosts.Wanted, board *board) []Found {
	ctx, g.cancel = context.WithCancel(ctx)
	defer g.cancel()
	g.miss(int64(len(want)))
	out := make([]Found, len(want))
	for i, w := range want {
		out[i].Wanted = w
	}
	g.answers = slices.Clone(out)
	ticking, stop := context.WithCancel(context.Background())
	var clock, wg sync.WaitGroup
	clock.Go(func() { g.clock.Run(ticking, nil) })
	for i, w := range want {
		wg.Go(func() {
			out[i].Session, out[i].Wait = g.one(ctx, i, w, board)
			out[i].Tried = true
		})
	}
	wg.Wait()
	stop()
	clock.Wait()
	sortSiblings(out)
	return out
}

// one reaches one host, trying until it has an agent of its own or ctx ends.
func (g *gatherer) one(ctx context.Context, i int, w hosts.Wanted, board *board) (*link.Session, func()) {
	if w.Local && (g.reach.Identity == nil || g.reach.Serves) {
		return g.embedded(ctx, i, board)
	}
	pause := 50 * time.Millisecond
	look := search{watch: g.reach.Resolver.Watch(w.Entry.Name)}
	for ctx.Err() == nil {
		s, err := g.try(ctx, i, w, &look, board)
		if err == nil {
			board.set(i, nil)
			g.note(i, s)
			g.met(w, s.Addr)
			g.noteHeld(w.Entry.Name, s)
			c := g.hold(ctx, s, link.ReadAhead(s))
			if c == nil {
				return s, nil
			}
			err, look.begun = c, g.clock.Now()
			g.release(s)
			s.Close()
			pause = 50 * time.Millisecond
		}
		c := link.AsCause(err)
		if w.Local && c.Refused && g.reach.Embedded != nil {
			return g.embedded(ctx, i, board)
		}
		if ctx.Err() == nil {
			board.set(i, c)
			g.note(i, nil)
		} else {
			board.last(i, c)
		}
		over := look.patience.Over(c, look.begun, g.clock.Now(), g.reach.Insist) && ctx.Err() == nil
		if over && !c.Never && g.enough == nil {
			g.tired.Store(true)
		}
		if c.Stage == link.StageFenced || g.enough == nil && (c.Role || over || g.hasty && c.Stage >= link.StageHosts) {
			g.cancel()
			return nil, nil
		}
		link.Sleep(ctx, pause/2+rand.N(pause))
		pause = min(2*pause, time.Second)
	}
	return nil, nil
}

func (g *gatherer) embedded(ctx context.Context, i int, board *board) (*link.Session, func()) {
	s, wait, err := link.Embed(g.life, g.reach.Embedded, g.opener.here())
	if err != nil {
		board.set(i, link.AsCause(err))
		g.cancel() // it is not tried again
		return nil, nil
	}
	board.set(i, nil)
	g.note(i, s)
	g.hold(ctx, s, nil)
	return s, wait
}

// try is one round: resolve, dial, claim.
func (g *gatherer) try(ctx context.Context, i int, w hosts.Wanted, look *search, board *board) (*link.Session, error) {
	candidates, cause := g.reach.candidates(w, func() ([]netip.Addr, error) {
		return look.watch.Wait(ctx, func(err error) { board.set(i, resolveCause(err, g.reach.InPod())) })
	})
	if look.begun = g.clock.Now(); cause != nil {
		return nil, cause
	}
	if at := candidates[0].Addr(); look.at != at {
		look.at, look.patience = at, link.Patience{} // a pod that was made anew
	}
	if id := g.reach.Identity; id != nil && id.Insecure() && !look.at.IsLoopback() {
		return nil, &link.Cause{Stage: link.StageTLS, Never: true, Err: fmt.Errorf(
			"it is at %v, and --insecure reaches agents on this machine's loopback addresses only: give both the job's secret (--key)", look.at)}
	}
	done, ok := g.turn(ctx, i, board)
	if !ok {
		return nil, itsTurn
	}
	var s *link.Session
	defer func() { done(s != nil) }()
	look.begun = g.clock.Now()
	free, other := g.free(candidates)
	if len(free) == 0 {
		return nil, taken(candidates, board.names[other])
	}
	s, err := race(ctx, free, func(ctx context.Context, addr netip.AddrPort) (*link.Session, error) {
		asked := time.Now()
		s, err := g.attach(ctx, g.life, addr, g.opener.Open())
		if err != nil {
			return nil, err
		}
		if took := time.Since(asked); took > g.reach.Lease/2 { // the agent may have given us up: it counts from its answer
			s.Close()
			return nil, link.Causef(link.StageConnect, "%v: its answer took %v, too much of --launcher-timeout %v", addr, took.Round(time.Millisecond), g.reach.Lease)
		}
		if other, ok := g.claim(s, i); !ok {
			s.Close()
			return nil, link.Causef(link.StageHosts, "%v: the agent there is host %s already; agents of one machine need a --name each", addr, board.names[other])
		}
		return s, nil
	}, func(s *link.Session) { g.release(s); s.Close() })
	if err != nil && len(free) < len(candidates) {
		return nil, taken(candidates, board.names[other])
	}
	return s, err
}

// turn waits until host i may be worked on, and tells who looks at the board that it does.
func (g *gatherer) turn(ctx context.Context, i int, board *board) (done func(bool), ok bool) {
	if g.turns.full() {
		board.swap(i, notYet, itsTurn)
	}
	done, ok = g.turns.take(ctx)
	if ok {
		board.swap(i, itsTurn, notYet)
	}
	return done, ok
}

// taken is the cause of a name that shares its address with host other and has no agent left.
func taken(candidates []netip.AddrPort, other string) *link.Cause {
	return link.Causef(link.StageHosts, "%v has fewer agents than names in the list: the one there is host %s already", candidates[0].Addr(), other)
}

// met tells who wants to know that a host has answered.
func (g *gatherer) met(w hosts.Wanted, at netip.AddrPort) {
	if g.reach.Met != nil {
		w.Fixed = []netip.AddrPort{at}
		g.reach.Met(w)
	}
}

// claim makes the agent of s that of host i, unless another host has it.
func (g *gatherer) claim(s *link.Session, i int) (owner int, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	inc := s.Opened.Host.Incarnation
	if owner, taken := g.claimed[inc]; taken {
		return owner, false
	}
	g.claimed[inc] = i
	g.taken[s.Addr] = i
	return i, true
}

func (g *gatherer) release(s *link.Session) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.claimed, s.Opened.Host.Incarnation)
	delete(g.taken, s.Addr)
}

// free are the candidates where no agent was claimed yet; other is a host that has one of the rest.
func (g *gatherer) free(candidates []netip.AddrPort) (out []netip.AddrPort, other int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	out = make([]netip.AddrPort, 0, len(candidates))
	for _, c := range candidates {
		if owner, taken := g.taken[c]; taken {
			other = owner
		} else {
			out = append(out, c)
		}
	}
	return out, other
}

// sortSiblings gives names with one address their agents in order of port: the first name of the list gets the lowest, whichever answered
// first. On a dual-stack node siblings may have been reached by different families; the address that each advertises is the same.
func sortSiblings(hosts []Found) {
	byAddr := map[netip.Addr][]int{}
	for i, h := range hosts {
		if h.Session == nil || !h.Session.Addr.IsValid() {
			continue
		}
		at := h.Session.Addr.Addr()
		if a, err := netip.ParseAddrPort(h.Session.Opened.Host.Address); err == nil {
			at = a.Addr()
		}
		byAddr[at] = append(byAddr[at], i)
	}
	for _, idx := range byAddr {
		if len(idx) < 2 {
			continue
		}
		sessions := make([]*link.Session, len(idx))
		for k, i := range idx {
			sessions[k] = hosts[i].Session
		}
		slices.SortFunc(sessions, func(a, b *link.Session) int { return int(a.Addr.Port()) - int(b.Addr.Port()) })
		for k, i := range idx {
			hosts[i].Session = sessions[k]
		}
	}
}
