package reach

import (
	"context"
	"net/netip"
	"slices"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/awake"
	"github.com/mpiup/mpiup/launcher/hosts"
	"github.com/mpiup/mpiup/launcher/link"
	"github.com/mpiup/mpiup/launcher/survey"
)

// Visited is a host as one visit found it: an agent's answer, or why there is none.
type Visited struct {
	hosts.Wanted
	Addr       netip.AddrPort
	Hello      *apiv1.HelloReply // nil: not reached
	Rtt, Ahead time.Duration     // how far its wall clock is before ours, to half of Rtt
	Cause      *link.Cause
}

// Visit asks each wanted host once who it is, then calls f (may be nil) with its connection.
// Names of one address get its agents in order of port, as in a run. It waits for nobody to
// appear. This very container is left out when no agent runs in it: a run has its own.
func (r *Reach) Visit(ctx context.Context, want []hosts.Wanted, f func(context.Context, *Visited, *Conn) error) []Visited {
	d := NewDialer(r.Identity, len(want))
	out := make([]Visited, len(want))
	candidates := make([][]netip.AddrPort, len(want))
	survey.InParallel(len(want), func(i int) {
		out[i].Wanted = want[i]
		candidates[i], out[i].Cause = r.candidates(want[i], func() ([]netip.Addr, error) { return r.Resolver.Once(ctx, want[i].Entry.Name) })
	})
	groups := map[netip.AddrPort][]int{} // by first candidate
	var order []netip.AddrPort
	for i, c := range candidates {
		if len(c) == 0 {
			continue
		}
		if groups[c[0]] == nil {
			order = append(order, c[0])
		}
		groups[c[0]] = append(groups[c[0]], i)
	}
	survey.InParallel(len(order), func(k int) {
		group := groups[order[k]]
		conns, cause := d.agents(ctx, candidates[group[0]], len(group))
		for n, i := range group {
			if n >= len(conns) {
				out[i].Cause = cause
				continue
			}
			d.greet(ctx, &out[i], conns[n], f)
		}
	})
	return slices.DeleteFunc(out, func(v Visited) bool {
		return v.Local && v.Hello == nil && v.Cause != nil && v.Cause.Refused
	})
}

// hello is a connection to an agent that has said who it is.
func (d *Dialer) hello(ctx context.Context, addr netip.AddrPort) (*Conn, error) {
	c, err := d.Question(ctx, addr)
	if err != nil {
		return nil, err
	}
	hctx, cancel := awake.Within(ctx, link.OpenTimeout)
	defer cancel()
	h, err := c.Client.Hello(hctx, &apiv1.HelloRequest{Protocol: apiv1.Protocol})
	if err != nil {
		c.Close()
		if hctx.Err() != nil {
			return nil, mute(addr, "the agent did not answer in time")
		}
		return nil, c.explain(err)
	}
	if err := link.CheckHost(h); err != nil {
		c.Close()
		return nil, link.Causef(link.StageConnect, "%v: %w", addr, err)
	}
	c.hello = h
	return c, nil
}

// agents connects to n distinct agents among the candidates, in order of port: to the first
// that answers if n is 1. There are fewer when cause says why.
func (d *Dialer) agents(ctx context.Context, candidates []netip.AddrPort, n int) ([]*Conn, *link.Cause) {
	if n == 1 {
		g, err := race(ctx, candidates, d.hello, func(g *Conn) { g.Close() })
		if err != nil {
			return nil, link.AsCause(err)
		}
		return []*Conn{g}, nil
	}
	all := make([]*Conn, len(candidates))
	causes := make([]*link.Cause, len(candidates))
	survey.InParallel(len(candidates), func(i int) {
		g, err := d.hello(ctx, candidates[i])
		if err != nil {
			causes[i] = link.AsCause(err)
		}
		all[i] = g
	})
	seen := map[string]bool{}
	var out []*Conn
	for _, g := range all {
		switch {
		case g == nil:
		case seen[g.hello.Incarnation] || len(out) == n:
			g.Close()
		default:
			seen[g.hello.Incarnation] = true
			out = append(out, g)
		}
	}
	slices.SortFunc(out, func(a, b *Conn) int { return int(a.addr.Port()) - int(b.addr.Port()) })
	if len(out) > 0 {
		return out, link.Causef(link.StageHosts, "%v has %d agents for %d names", candidates[0].Addr(), len(out), n)
	}
	return nil, link.Telling(causes)
}

// greet measures the way to an agent and calls f.
func (d *Dialer) greet(ctx context.Context, v *Visited, g *Conn, f func(context.Context, *Visited, *Conn) error) {
	defer func() { g.Close() }() // f may have changed it
	ctx, cancel := awake.Within(ctx, link.OpenTimeout)
	defer cancel()
	v.Addr, v.Hello = g.addr, g.hello
	begun := time.Now()
	if h, err := g.Client.Hello(ctx, &apiv1.HelloRequest{Protocol: apiv1.Protocol}); err == nil {
		v.Rtt, v.Ahead = time.Since(begun), time.Unix(0, h.ClockNs).Sub(begun.Add(time.Since(begun)/2))
	}
	if f != nil {
		if err := f(ctx, v, g); err != nil {
			v.Cause = g.explain(err)
		}
	}
}

// candidates are where a host's agent may be; lookup resolves its name.
func (r *Reach) candidates(w hosts.Wanted, lookup func() ([]netip.Addr, error)) ([]netip.AddrPort, *link.Cause) {
	switch {
	case len(w.Fixed) > 0:
		return w.Fixed, nil
	case w.Local:
		return candidatesOf(here(), r.Identity.Ports()), nil
	}
	addrs, err := lookup()
	if err != nil {
		return nil, resolveCause(err, r.InPod())
	}
	return candidatesOf(addrs, r.Identity.Ports()), nil
}
