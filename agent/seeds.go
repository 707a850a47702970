package agent

import (
	"context"
	"net/netip"
	"strings"
	"sync"
	"time"
)

const seedLookup = 5 * time.Second

// findSeeds is where gossip may find the first peers: the hosts named on the command line and
// by operators' variables, at the default port; when called again (the first try found too
// few) also at the derived ports. Names that do not resolve yet are left out: gossip asks again.
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
	known := a.knownPeers()
	var seeds []netip.AddrPort
	ports := a.cfg.Identity.Ports()
	for ip := range addrs {
		if ip == a.front.Advertised.Addr() && len(ports) > 1 {
			// Siblings on this node (hostNetwork) took other ports.
			for _, p := range ports {
				if uint16(p) != a.front.Advertised.Port() {
					seeds = append(seeds, netip.AddrPortFrom(ip, uint16(p)))
				}
			}
			continue
		}
		if known[ip] {
			continue
		}
		for i, p := range ports {
			if i == 0 || len(known) > 0 || len(addrs) <= 8 {
				seeds = append(seeds, netip.AddrPortFrom(ip, uint16(p)))
			}
		}
	}
	if len(seeds) == 0 {
		return nil, last
	}
	return seeds, nil
}

func (a *Agent) knownPeers() map[netip.Addr]bool {
	known := map[netip.Addr]bool{}
	for _, m := range a.gossip.View().Members {
		if m.Addr != a.front.Advertised {
			known[m.Addr.Addr()] = true
		}
	}
	return known
}

// seedNames are names whose addresses are those of the job's pods: what the user gave, the
// headless service this pod belongs to (its own name without the first label, from the hosts
// file kubelet writes), and what operators tell (contract C, D).
func (a *Agent) seedNames() []string {
	names := append([]string(nil), a.cfg.Seeds...)
	for _, kv := range a.cfg.Env {
		k, v, _ := strings.Cut(kv, "=")
		switch {
		case k == "LWS_LEADER_ADDRESS":
			if _, service, ok := strings.Cut(v, "."); ok {
				names = append(names, service)
			}
		case strings.HasPrefix(k, "VC_") && strings.HasSuffix(k, "_HOSTS"):
			for h := range strings.SplitSeq(v, ",") {
				if h = strings.TrimSpace(h); h != "" {
					names = append(names, h)
				}
			}
		}
	}
	const maxSeeds = 1024
	return names[:min(len(names), maxSeeds)]
}
