package member

import (
	"context"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/hashicorp/memberlist"
	"golang.org/x/sync/errgroup"
)

const (
	seedTries    = 16 // seeds tried in one round once somebody is known
	seedParallel = 8
	seedEnough   = 3 // answers after which a round ends: each brings a whole view
	seedTimeout  = 30 * time.Second
)

// seed joins members at the addresses that Seeds gives, for as long as ctx lasts. A job's pods appear in DNS one by
// one. Two groups of members that know nothing of each other merge as soon as one tries a seed in the other. Pauses
// have jitter and grow. Alone, a member waits from seedMin to seedMax. While hosts among the seeds are not members it
// waits up to half of seedRare, and a whole seedRare once all are.
func (g *Gossip) seed(ctx context.Context, list *memberlist.Memberlist) {
	if g.cfg.Seeds == nil {
		return
	}
	pause := seedMin
	wait := rand.N(pause)
	for {
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		switch complete, alone := g.seedRound(ctx, list); {
		case complete:
			pause, wait = seedMin, seedRare
		case alone:
			wait, pause = pause, min(2*pause, seedMax)
		default:
			wait, pause = pause, min(2*pause, max(seedMax, seedRare/2))
		}
		wait = wait/2 + rand.N(wait)
	}
}

// seedRound tries seeds. complete: somebody is known and so is a member at every seed's address.
func (g *Gossip) seedRound(ctx context.Context, list *memberlist.Memberlist) (complete, alone bool) {
	ask, cancel := context.WithTimeout(ctx, seedTimeout)
	seeds, err := g.cfg.Seeds(ask)
	cancel()
	if err != nil && ctx.Err() == nil {
		g.cfg.Log.Debug("gossip seeds", "err", err)
	}
	alone = g.table.size() == 1
	hosts, ports := g.unknown(seeds)
	try := append(hosts, ports...)
	if !alone {
		try = try[:min(len(try), seedTries)]
	}
	g.join(ctx, list, try)
	return !alone && len(hosts) == 0, g.table.size() == 1
}

// unknown gives the seeds that are not members, in random order. hosts are those at addresses without a member; the
// others are further ports of members' addresses, where a sibling may be, but mostly nobody is.
func (g *Gossip) unknown(seeds []netip.AddrPort) (hosts, ports []netip.AddrPort) {
	known := g.table.addresses()
	taken := map[netip.Addr]bool{}
	for a := range known {
		taken[a.Addr()] = true
	}
	for _, i := range rand.Perm(len(seeds)) {
		s := netip.AddrPortFrom(seeds[i].Addr().Unmap(), seeds[i].Port())
		switch {
		case known[s] || !s.IsValid():
		case taken[s.Addr()]:
			ports = append(ports, s)
		default:
			hosts = append(hosts, s)
		}
	}
	return hosts, ports
}

// join tries addrs, a few at a time, until enough have answered.
func (g *Gossip) join(ctx context.Context, list *memberlist.Memberlist, addrs []netip.AddrPort) {
	answers := make(chan struct{}, len(addrs))
	var tries errgroup.Group
	tries.SetLimit(seedParallel)
	for _, a := range addrs {
		if ctx.Err() != nil || len(answers) >= seedEnough {
			break
		}
		tries.Go(func() error {
			if n, err := list.Join([]string{a.String()}); n > 0 {
				answers <- struct{}{}
			} else {
				g.cfg.Log.Debug("gossip seed", "addr", a, "err", err)
			}
			return nil
		})
	}
	tries.Wait()
}
