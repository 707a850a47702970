package resolve

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/netip"
)

// Once is Lookup for a caller that asks one time and believes the answer, such as mpiup shutdown after a run. A cache may
// still deny the name to it, because somebody asked too early (Watch): CoreDNS does so for 30 s, and a job can be over by
// then. So after a denial a few probes, drawn by lot, ask whether the name exists, and only if one says so addresses
// are asked for in the other ways. While the name is absent that leaves denials of these probes alone in the
// cache, of which a Watch elsewhere has more, and never one of addresses.
func (r *Resolver) Once(ctx context.Context, name string) ([]netip.Addr, error) {
	addrs, err := r.Lookup(ctx, name)
	if !errors.Is(err, ErrNoName) || !validName(name) {
		return addrs, err
	}
	// As many as it takes to find one that no cache has, where a Watch has used eight of those that older CoreDNS
	// keeps apart (12): in 97 of 100.
	const lots = 6
	conf := r.configured()
	for _, i := range rand.Perm(len(probes))[:lots] {
		if _, absent := r.dns(ctx, name, conf, probes[i]); absent != nil {
			continue
		}
		for _, w := range addressWays[1:] {
			if h, err := r.dns(ctx, name, conf, w); err == nil {
				return routable(h.addrs), nil
			}
		}
		break
	}
	return nil, err
}
