package reach

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/launcher/hosts"
	"github.com/mpiup/mpiup/launcher/link"
)

// Heartbeat is the pause between signs of life on a stream that carries nothing yet. Where many hosts are waited for, and leases
// are long, it is longest: signs for a thousand are a third of what two processors can do.
const (
	Heartbeat = time.Second
	longest   = 5 * time.Second
)

// pause is the time from one sign of life to the next, of which a lease has ten, or as many as there can be.
func (g *gatherer) pause() time.Duration { return max(min(g.reach.Lease/10, longest), Heartbeat) }

// miss changes how many hosts are missing; those that were reached wait for the rest. Once nobody was missing, full stays closed.
func (g *gatherer) miss(n int64) {
	if g.missing.Add(n) == 0 {
		g.fill.Do(func() { close(g.full) })
	}
}

// hold keeps a session alive while other hosts are waited for: an agent gives up a launcher that is silent for its lease,
// and others may take longer than that to appear. It returns why the host must be reached anew: its stream broke, its
// agent ended the session, or nothing was heard of it for NodeTimeout; ahead is nil for this very process, of which that
// is not asked. Time counts by heartbeats, so that a launcher that was stopped calls no host silent,
// and what lies unread is no silence. Nobody else sends on
// the stream meanwhile; what the agent says is left to the link.
func (g *gatherer) hold(ctx context.Context, s *link.Session, ahead *link.Ahead) *link.Cause {
	g.miss(-1)
	beat := time.NewTicker(g.pause())
	look := time.NewTicker(Heartbeat / 2)
	defer beat.Stop()
	defer look.Stop()
	for silent := time.Duration(0); ; {
		full := false
		select {
		case <-g.full: // the stream may have broken since the last sign of life
			full = true
		case <-ctx.Done():
			return nil
		case <-beat.C:
		case <-look.C:
			if ahead == nil {
				continue
			}
			heard, err := ahead.Heard()
			if silent += Heartbeat / 2; heard {
				silent = 0
			}
			switch {
			case err != nil:
				return g.missed(broken(s, err))
			case silent >= g.reach.NodeTimeout && !(s.Late() && silent < g.reach.NodeTimeout+link.Lateness):
				return g.missed(silentFor(s.Addr, g.reach.NodeTimeout))
			}
			continue
		}
		err := s.Stream.Send((&apiv1.Heartbeat{}).Frame())
		if err == nil && full && ahead != nil {
			_, err = ahead.Heard()
		}
		if err != nil {
			return g.missed(broken(s, err))
		}
		if full {
			return nil
		}
	}
}

// missed counts a host as missing again, for a cause.
func (g *gatherer) missed(c *link.Cause) *link.Cause {
	g.miss(1)
	return c
}

// here are this container's own addresses, loopback first: an agent in it is reached without
// asking for our own name, whose record appears last of all in a pod that just started.
func here() []netip.Addr {
	out := []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}
	for a := range hosts.OwnAddresses() {
		if a != out[0] && !a.IsLinkLocalUnicast() {
			out = append(out, a)
		}
	}
	slices.SortFunc(out, func(a, b netip.Addr) int {
		if a.IsLoopback() != b.IsLoopback() {
			if a.IsLoopback() {
				return -1
			}
			return 1
		}
		return a.Compare(b)
	})
	return out
}

func broken(s *link.Session, err error) *link.Cause {
	return link.Causef(link.StageConnect, "%v: its connection broke while other hosts were waited for: %w", s.Addr, s.Explain(err))
}

func silentFor(addr netip.AddrPort, d time.Duration) *link.Cause {
	return &link.Cause{Stage: link.StageConnect, Silent: true, Port: addr.Port(), Err: fmt.Errorf(
		"%v: nothing was heard from it for %v (--node-timeout) while other hosts were waited for", addr, d)}
}
