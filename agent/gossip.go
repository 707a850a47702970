package agent

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mpiup/mpiup/agent/member"
	"github.com/mpiup/mpiup/agent/port"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/hostlist"
	"github.com/mpiup/mpiup/internal/identity"
	"github.com/mpiup/mpiup/internal/job"
)

// startGossip joins the peers, until ctx ends.
func (a *Agent) startGossip(ctx context.Context, parts *sync.WaitGroup) error {
	g, err := member.New(member.Config{
		Self: member.Self{Name: a.cfg.Name, Incarnation: a.cfg.Incarnation, Version: a.cfg.Version,
			Protocol: apiv1.Protocol, Addr: a.front.Advertised, Slots: a.cfg.Slots, Digest: a.cfg.Inventory.Digest()},
		Log:   a.cfg.Log,
		Dial:  a.dialGossip,
		Seeds: a.findSeeds, Verify: a.signed,
	})
	if err != nil {
		return fmt.Errorf("agent on %s: gossip: %w", a.cfg.Name, err)
	}
	a.gossip = g
	a.front.Gossip = func(c *identity.Conn) {
		if err := identity.Require(c.Peer(), identity.RoleAgent); err != nil {
			c.Close()
			a.refusedHandshake(c.RemoteAddr(), err)
			return
		}
		g.Handle(c)
	}
	parts.Go(func() {
		if err := g.Run(ctx); err != nil {
			a.cfg.Log.Error("gossip ended", "cause", err)
		}
	})
	return nil
}

// dialGossip connects to a peer and proves it; a refusal of ours comes with the first read.
func (a *Agent) dialGossip(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
	d := net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 60 * time.Second}}
	c, err := d.DialContext(ctx, "tcp", addr.String())
	if err != nil {
		return nil, err
	}
	t, err := a.cfg.Identity.Connect(ctx, c, a.cfg.Identity.ClientConfig(port.Gossip))
	if err != nil {
		return nil, err
	}
	if p := t.ConnectionState().NegotiatedProtocol; p != port.Gossip {
		t.Close()
		return nil, fmt.Errorf("%s does not gossip (protocol %q)", addr, p)
	}
	return t, nil
}

// signed says whether launcher name signed a claim to a number, since peers only pass claims on.
func (a *Agent) signed(name string, number uint64, life string, proof []byte) bool {
	kind, text := identity.NumberClaim(number, life)
	who, err := a.cfg.Identity.Verify(kind, text, proof)
	return err == nil && who.Name == name && identity.Require(who, identity.RoleLauncher) == nil
}

// peersIn counts the peers of a state.
func (a *Agent) peersIn(state member.State) (n int) {
	if a.gossip == nil {
		return 0
	}
	for _, p := range a.gossip.View().Members {
		if p.State == state {
			n++
		}
	}
	return n
}

// await ends the agent when the launcher that it is for has not come for too long. It returns when ctx ends.
func (a *Agent) await(ctx context.Context) {
	w := a.cfg.Await
	look := time.NewTicker(min(w.For, time.Second))
	defer look.Stop()
	for present := a.clock.Now(); ; {
		select {
		case <-look.C:
		case <-ctx.Done():
			return
		}
		now := a.clock.Now()
		if a.isPeer(w.Host) {
			present = now
		}
		if min(a.sessions.Alone(), now-present) >= w.For {
			a.stop(&end{why: fmt.Sprintf("no launcher has come for %v (awaited: %s); look at that pod's log, or raise --wait",
				w.For, cmp.Or(w.Host, "the first pod")), code: job.ExitHosts})
		}
	}
}

// isPeer says that gossip knows a host's agent, which answers.
func (a *Agent) isPeer(host string) bool {
	return a.gossip != nil && host != "" && slices.ContainsFunc(a.gossip.View().Members, func(m member.Member) bool {
		return m.State == member.Alive && strings.EqualFold(m.Name, host)
	})
}

const seedLookup = 5 * time.Second

// findSeeds is where gossip may find peers: at the addresses of seedNames. Names that do not resolve yet are left out, since gossip
// asks again. It is called by one goroutine.
func (a *Agent) findSeeds(ctx context.Context) ([]netip.AddrPort, error) {
	ctx, cancel := context.WithTimeout(ctx, seedLookup)
	defer cancel()
	var (
		mu    sync.Mutex
		addrs = map[netip.Addr]bool{}
		wg    sync.WaitGroup
		last  error
	)
	for _, name := range a.seedNames() {
		wg.Go(func() {
			got, err := a.cfg.Resolver.Lookup(ctx, name)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				last = err
			}
			for _, ip := range got {
				addrs[ip.Unmap()] = true
			}
		})
	}
	wg.Wait()
	again := a.sought
	a.sought = true
	seeds := seedsAt(addrs, a.cfg.Identity.Ports(), a.front.Advertised, a.knownPeers(), again)
	if len(seeds) == 0 {
		return nil, last
	}
	return seeds, nil
}

// seedsAt are the ports of addresses at which peers may be, those of addresses with known ones left out: who comes there finds peers
// by seeds of its own. Where there are more than a few addresses, it is the default port at first, and later another one by chance.
func seedsAt(addrs map[netip.Addr]bool, ports []int, own netip.AddrPort, known map[netip.Addr]bool, again bool) (seeds []netip.AddrPort) {
	const few = 8
	for ip := range addrs {
		sibling := ip == own.Addr() && len(ports) > 1 // on this node (hostNetwork), which took another port
		if known[ip] && !sibling {
			continue
		}
		chance := rand.N(len(ports))
		for i, p := range ports {
			switch {
			case sibling && uint16(p) == own.Port():
			case sibling, i == 0, again && i == chance, len(addrs) <= few:
				seeds = append(seeds, netip.AddrPortFrom(ip, uint16(p)))
			}
		}
	}
	return seeds
}

func (a *Agent) knownPeers() map[netip.Addr]bool {
	known := map[netip.Addr]bool{}
	for _, m := range a.gossip.View().Members {
		if m.Addr != a.front.Advertised && m.State != member.Left {
			known[m.Addr.Addr()] = true
		}
	}
	return known
}

// seedNames are the configured seeds, and hosts that LeaderWorkerSet and Volcano name in variables.
func (a *Agent) seedNames() []string {
	names := append([]string(nil), a.cfg.Seeds...)
	for _, kv := range a.cfg.Env {
		if leader, ok := strings.CutPrefix(kv, "LWS_LEADER_ADDRESS="); ok {
			if _, service, ok := strings.Cut(leader, "."); ok {
				names = append(names, service)
			}
		}
	}
	tasks := hostlist.VolcanoTasks(a.cfg.Env)
	for _, task := range slices.Sorted(maps.Keys(tasks)) {
		names = append(names, tasks[task]...)
	}
	const maxSeeds = 1024
	return names[:min(len(names), maxSeeds)]
}
