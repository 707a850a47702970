package reach

import (
	"context"
	"slices"
	"sync"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/hostlist"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/launcher/hosts"
	"github.com/mpiup/mpiup/launcher/link"
	"github.com/mpiup/mpiup/launcher/quorum"
)

// Members asks hosts whom they know by gossip: views of agents that have just met differ. The
// members are by incarnation; one that anybody knows alive is.
func (r *Reach) Members(ctx context.Context, hosts []hosts.Wanted) (found []Visited, members map[string]*apiv1.Peer) {
	var mu sync.Mutex
	members = map[string]*apiv1.Peer{}
	found = r.Visit(ctx, hosts, func(ctx context.Context, _ *Visited, c *Conn) error {
		reply, err := c.Client.Peers(ctx, &apiv1.PeersRequest{})
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		for _, p := range plausible(reply).Peers {
			if old := members[p.Incarnation]; old == nil || p.State == "alive" {
				members[p.Incarnation] = p
			}
		}
		return nil
	})
	return found, members
}

// Others are the hosts to ask about when no run is meant: those of the sources, but never
// this process itself.
func (r *Reach) Others(ctx context.Context) (*hosts.Set, error) {
	set, err := r.Static()
	if err != nil {
		return nil, Failf(job.ExitUsage, "%v", err)
	}
	if set != nil && r.Size > 0 {
		if err := r.Fewer(set); err != nil {
			return nil, Failf(job.ExitHosts, "%v", err)
		}
	}
	if r.Identity == nil {
		return nil, r.withoutSecret("agents are asked with the job's secret")
	}
	if n, why := r.Count(); set == nil && n > 0 && (r.Sources.Pod || r.Size > 0) {
		ctx, cancel := context.WithTimeout(ctx, r.Wait)
		defer cancel()
		r.Need = quorum.Of(n, why, 0, 0)
		return r.meet(ctx)
	}
	if set == nil {
		set = newMeeting(r).look(ctx)
	}
	if set == nil || len(set.Hosts) == 0 {
		return nil, Failf(job.ExitHosts, "no hosts are known and no agent runs here: name them with --host or --hostfile")
	}
	return set, nil
}

// Unvisited are members that gossip knows and no visit has reached.
func Unvisited(found []Visited, members map[string]*apiv1.Peer) []hosts.Wanted {
	seen := map[string]bool{}
	for _, v := range found {
		seen[v.Hello.GetIncarnation()] = true
	}
	reply := &apiv1.PeersReply{}
	for inc, p := range members {
		if !seen[inc] {
			reply.Peers = append(reply.Peers, p)
		}
	}
	if set := memberHosts(reply); set != nil {
		return set.Hosts
	}
	return nil
}

// plausible takes out of an agent's list of members those whose names are none.
func plausible(reply *apiv1.PeersReply) *apiv1.PeersReply {
	reply.Peers = slices.DeleteFunc(reply.Peers, func(p *apiv1.Peer) bool { return hostlist.CheckName(p.GetName()) != nil })
	if link.CheckHost(reply.Self) != nil {
		reply.Self = nil
	}
	return reply
}
