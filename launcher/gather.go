package launcher

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mpiup/mpiup/internal/resolve"
	"github.com/mpiup/mpiup/launcher/hosts"
)

// found is a wanted host that answered.
type found struct {
	hosts.Wanted
	session *session
	wait    func() // embedded: blocks until its agent has ended
}

// search is one goroutine's search for one host.
type search struct {
	watch    *resolve.Watch
	at       netip.Addr // where it was last
	patience patience
}

// gatherer reaches all wanted hosts at once. Each has a goroutine that resolves, dials and
// claims an agent until it has one; agents are told apart by incarnation, so that two names of
// one address end on two agents, and two names of one agent do not pass for two hosts.
type gatherer struct {
	reach  *Reach
	attach attachFunc
	opener *opener
	life   context.Context // of the streams
	tired  atomic.Bool     // a host was given up before ctx ended
	hasty  bool            // what waiting does not change ends it: another host's agent, TLS, another version

	mu      sync.Mutex
	claimed map[string]int         // incarnation → index of the wanted host, guarded by mu
	taken   map[netip.AddrPort]int // where they are, guarded by mu
	cancel  context.CancelFunc     // ends gathering
	muster  *muster
}

func newGatherer(r *Reach, attach attachFunc, o *opener, life context.Context) *gatherer {
	return &gatherer{reach: r, attach: attach, opener: o, life: life, claimed: map[string]int{}, taken: map[netip.AddrPort]int{}}
}

// gather blocks until every wanted host has answered or ctx ends. The result is in the order
// of want; an entry without session was not reached, and board tells why.
func (g *gatherer) gather(ctx context.Context, want []hosts.Wanted, board *board) []found {
	ctx, g.cancel = context.WithCancel(ctx)
	defer g.cancel()
	g.muster = newMuster(len(want))
	out := make([]found, len(want))
	var wg sync.WaitGroup
	for i, w := range want {
		out[i].Wanted = w
		wg.Go(func() {
			s, wait := g.one(ctx, i, w, board)
			out[i].session, out[i].wait = s, wait
		})
	}
	wg.Wait()
	sortSiblings(out)
	return out
}

// one reaches one host, trying until it has an agent of its own or ctx ends.
func (g *gatherer) one(ctx context.Context, i int, w hosts.Wanted, board *board) (*session, func()) {
	if w.Local && g.reach.Identity == nil {
		return g.embedded(ctx, i, board)
	}
	pause := 50 * time.Millisecond
	look := search{watch: g.reach.Resolver.Watch(w.Entry.Name)}
	for ctx.Err() == nil {
		begun := time.Now()
		s, err := g.try(ctx, i, w, &look, board)
		if err == nil {
			board.set(i, nil)
			if g.hold(ctx, s) {
				return s, nil
			}
			err = broken(s.addr)
			g.release(s)
			s.close()
			pause = 50 * time.Millisecond
		}
		c := asCause(err)
		if w.Local && c.refused && g.reach.Embedded != nil {
			return g.embedded(ctx, i, board)
		}
		if ctx.Err() == nil {
			board.set(i, c)
		} else {
			board.last(i, c)
		}
		over := look.patience.over(c, begun, g.reach.Insist) && ctx.Err() == nil
		if over && !c.never {
			g.tired.Store(true)
		}
		if c.stage == stageFenced || c.role || over || g.hasty && c.stage >= stageHosts {
			g.cancel()
			return nil, nil
		}
		sleep(ctx, pause/2+rand.N(pause))
		pause = min(2*pause, time.Second)
	}
	return nil, nil
}

func (g *gatherer) embedded(ctx context.Context, i int, board *board) (*session, func()) {
	s, wait, err := embed(g.life, g.reach.Embedded, g.opener.open())
	if err != nil {
		board.set(i, asCause(err))
		g.cancel() // it is not tried again
		return nil, nil
	}
	board.set(i, nil)
	g.hold(ctx, s)
	return s, wait
}

// try is one round: resolve, dial, claim.
func (g *gatherer) try(ctx context.Context, i int, w hosts.Wanted, look *search, board *board) (*session, error) {
	candidates := w.Fixed
	switch {
	case len(candidates) > 0:
	case w.Local:
		candidates = candidatesOf(here(), g.reach.Identity.Ports())
	default:
		addrs, err := look.watch.Wait(ctx, func(err error) { board.set(i, resolveCause(err)) })
		if err != nil {
			return nil, resolveCause(err)
		}
		candidates = candidatesOf(addrs, g.reach.Identity.Ports())
	}
	if at := candidates[0].Addr(); look.at != at {
		look.at, look.patience = at, patience{} // a pod that was made anew
	}
	if id := g.reach.Identity; id != nil && id.Insecure() && !look.at.IsLoopback() {
		return nil, &cause{stage: stageTLS, never: true, err: fmt.Errorf(
			"it is at %v, and --insecure reaches agents on this machine's loopback addresses only: give both the job's secret (--key)", look.at)}
	}
	free, other := g.free(candidates)
	if len(free) == 0 {
		return nil, taken(candidates, board.name(other))
	}
	s, err := race(ctx, free, func(ctx context.Context, addr netip.AddrPort) (*session, error) {
		s, err := g.attach(ctx, g.life, addr, g.opener.open())
		if err != nil {
			return nil, err
		}
		if other, ok := g.claim(s, i); !ok {
			s.close()
			return nil, causef(stageHosts, "%v: the agent there is host %s already", addr, board.name(other))
		}
		return s, nil
	}, func(s *session) { g.release(s); s.close() })
	if err != nil && len(free) < len(candidates) {
		return nil, taken(candidates, board.name(other))
	}
	return s, err
}

// taken is the cause of a name that shares its address with host other and has no agent left.
func taken(candidates []netip.AddrPort, other string) *cause {
	return causef(stageHosts, "%v has fewer agents than names in the list: the one there is host %s already", candidates[0].Addr(), other)
}

// claim makes the agent of s that of host i, unless another host has it.
func (g *gatherer) claim(s *session, i int) (owner int, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	inc := s.opened.Host.Incarnation
	if owner, taken := g.claimed[inc]; taken {
		return owner, false
	}
	g.claimed[inc] = i
	g.taken[s.addr] = i
	return i, true
}

func (g *gatherer) release(s *session) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.claimed, s.opened.Host.Incarnation)
	delete(g.taken, s.addr)
}

// free are the candidates where no agent was claimed yet; other is a host that has one of the
// rest.
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

// sortSiblings gives names with one address their agents in order of port: the first name of
// the list gets the lowest, whichever answered first. On a dual-stack node siblings may have
// been reached by different families; the address that each advertises is the same.
func sortSiblings(hosts []found) {
	byAddr := map[netip.Addr][]int{}
	for i, h := range hosts {
		if h.session == nil || !h.session.addr.IsValid() {
			continue
		}
		at := h.session.addr.Addr()
		if a, err := netip.ParseAddrPort(h.session.opened.Host.Address); err == nil {
			at = a.Addr()
		}
		byAddr[at] = append(byAddr[at], i)
	}
	for _, idx := range byAddr {
		if len(idx) < 2 {
			continue
		}
		sessions := make([]*session, len(idx))
		for k, i := range idx {
			sessions[k] = hosts[i].session
		}
		slices.SortFunc(sessions, func(a, b *session) int { return int(a.addr.Port()) - int(b.addr.Port()) })
		for k, i := range idx {
			hosts[i].session = sessions[k]
		}
	}
}

// candidatesOf lists where an agent may listen: the default port of each address first.
func candidatesOf(addrs []netip.Addr, ports []int) []netip.AddrPort {
	const maxAddrs = 4
	addrs = addrs[:min(len(addrs), maxAddrs)]
	out := make([]netip.AddrPort, 0, len(addrs)*len(ports))
	for _, p := range ports {
		for _, a := range addrs {
			out = append(out, netip.AddrPortFrom(a, uint16(p)))
		}
	}
	return out
}

// race tries the first candidate with a head start, then all others at once, and returns the
// first success; others that succeed after it are dropped. When all fail the most telling
// cause is returned. It blocks until every attempt has ended.
func race[T any](ctx context.Context, candidates []netip.AddrPort,
	try func(context.Context, netip.AddrPort) (T, error), drop func(T)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	type result struct {
		i   int
		v   T
		err error
	}
	results := make(chan result, len(candidates))
	start := func(i int) {
		v, err := try(ctx, candidates[i])
		results <- result{i, v, err}
	}
	head := time.NewTimer(headStart)
	defer head.Stop()
	go start(0)
	started, ended := 1, 0
	rest := func() {
		for i := started; i < len(candidates); i++ {
			go start(i)
		}
		started = len(candidates)
	}
	var won T
	var have bool
	causes := make([]*cause, len(candidates)) // in their order: of equal ones the first port is told of
	for ended < started {
		select {
		case <-head.C:
			if !have {
				rest()
			}
		case r := <-results:
			ended++
			switch {
			case r.err == nil && !have:
				won, have = r.v, true
				cancel()
			case r.err == nil:
				drop(r.v)
			default:
				causes[r.i] = asCause(r.err)
				if !have && ctx.Err() == nil {
					rest()
				}
			}
		}
	}
	if have {
		return won, nil
	}
	return won, mostTelling(causes)
}

// mostTelling is telling, but all must have refused for the result to count as refused.
func mostTelling(causes []*cause) *cause {
	best := *telling(causes)
	for _, c := range causes {
		best.refused = best.refused && (c == nil || c.refused)
	}
	return &best
}

func resolveCause(err error) *cause {
	c := &cause{stage: stageResolve, err: err}
	var e *resolve.Error
	if !errors.As(err, &e) {
		return c
	}
	repeats := ""
	if e.Cached > 0 {
		c.cached = time.Now().Add(e.Cached)
		repeats = fmt.Sprintf("; caches of DNS may repeat this for %v", inSeconds(e.Cached))
	}
	c.err, c.unanswered = fmt.Errorf("no answer from DNS: %w", why(err)), true
	if errors.Is(err, resolve.ErrNoName) {
		c.unanswered = false
		c.err = fmt.Errorf("no such name (the name of a pod appears when it is ready%s): %w", repeats, why(err))
	}
	return c
}

// inSeconds rounds up, as what ends within a second has not ended.
func inSeconds(d time.Duration) time.Duration { return (d + time.Second - 1).Truncate(time.Second) }

// why is a resolver's reason without the name and kind that its text begins with.
func why(err error) error {
	var e *resolve.Error
	if errors.As(err, &e) {
		return errors.New(e.Why)
	}
	return err
}

func sleep(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
