package ways

import (
	"context"
	"fmt"
	"net/netip"
	"sync"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
)

// Ask measures the way to each of the targets, at their first address that answers.
func (s *Survey) Ask(ctx context.Context, r *apiv1.AskRequest) (*apiv1.AskReply, error) {
	token, err := tokenOf(r.Token)
	if err != nil || len(r.Targets) > maxTargets {
		return nil, fmt.Errorf("%d hosts, token: %v", len(r.Targets), err)
	}
	reply := &apiv1.AskReply{Ways: make([]*apiv1.Way, len(r.Targets))}
	var asking sync.WaitGroup
	slots := make(chan struct{}, askAtOnce)
	for i, t := range r.Targets {
		slots <- struct{}{}
		asking.Go(func() {
			defer func() { <-slots }()
			reply.Ways[i] = askOne(ctx, t, token, r.Rate)
		})
	}
	asking.Wait()
	return reply, nil
}

// askOne measures the way to the first address of a host that answers.
func askOne(ctx context.Context, t *apiv1.Target, token Token, rate bool) *apiv1.Way {
	w := &apiv1.Way{Host: t.Host, Error: "it has no address"}
	for _, text := range t.Addresses[:min(len(t.Addresses), 8)] {
		to, err := netip.ParseAddrPort(text)
		if err != nil {
			w.Error = fmt.Sprintf("%.60q is no address", text)
			continue
		}
		way, err := askWay(ctx, to, token, rate)
		w.Address, w.RttNs, w.Rate, w.Mtu = text, way.RTT.Nanoseconds(), way.Rate, uint32(way.MTU)
		if err == nil {
			w.Error = ""
			return w
		}
		w.Error = err.Error()
	}
	return w
}

func tokenOf(b []byte) (t Token, err error) {
	if len(b) != len(t) {
		return t, fmt.Errorf("a token of %d bytes, not %d", len(b), len(t))
	}
	return Token(b), nil
}
