package reach

import (
	"context"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/awake"
	"github.com/mpiup/mpiup/internal/hostlist"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/launcher/hosts"
	"github.com/mpiup/mpiup/launcher/run/phases"
	"github.com/mpiup/mpiup/launcher/survey"
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
		for _, p := range plausible(reply.Peers) {
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
		ctx, cancel := awake.Within(ctx, r.Wait)
		defer cancel()
		r.Need = phases.Need{Hosts: n, Why: why}
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
	rest := maps.Clone(members)
	for _, v := range found {
		delete(rest, v.Hello.GetIncarnation())
	}
	return memberHosts(rest, nil)
}

// plausible are the members of an agent's list whose names are some.
func plausible(list []*apiv1.Peer) []*apiv1.Peer {
	return slices.DeleteFunc(list, func(p *apiv1.Peer) bool { return hostlist.CheckName(p.GetName()) != nil })
}

// beyond finds hosts of a headless service that it has no record of yet. Caches of DNS repeat an answer for up to 30 s, and an agent that
// comes is a member in a second or two.
type beyond struct {
	reach   *Reach
	dialer  *Dialer
	looked  bool // at least once: a run whose hosts are all there asks nobody about others
	asked   time.Time
	found   []hosts.Wanted      // then
	answers map[netip.Addr]bool // members where an agent was found
}

const (
	membersEvery = time.Second
	mostMembers  = 64 // an agent that lies about them costs a look this much
	mostStrange  = 16 // records that are no member's address, which are visited
)

// hosts are members that an agent at one of the records knows and that answer, at addresses without a record.
func (b *beyond) hosts(ctx context.Context, records []hosts.Wanted) []hosts.Wanted {
	if !b.looked {
		b.looked = true
		return nil
	}
	if time.Since(b.asked) < membersEvery {
		return b.found
	}
	b.found = nil
	_, members := b.reach.Members(ctx, records[rand.N(len(records)):][:1])
	b.asked = time.Now()
	if len(members) == 0 {
		return nil
	}
	strange := unlisted(records, members)
	if len(strange) > mostStrange { // nobody has met yet
		return nil
	}
	for _, v := range b.reach.Visit(ctx, strange, nil) { // one may be a member that has another address, too
		delete(members, v.Hello.GetIncarnation())
	}
	news := newMembers(records, members)
	if own := hosts.OwnAddresses(); b.reach.NotHere {
		news = slices.DeleteFunc(news, func(a netip.Addr) bool { return own[a] })
	}
	news = news[:min(len(news), mostMembers)]
	answer := make([]bool, len(news))
	survey.InParallel(len(news), func(i int) { answer[i] = b.answers[news[i]] || b.reach.agentAt(ctx, b.dialer, news[i]) })
	for i, a := range news {
		if b.answers[a] = answer[i]; answer[i] {
			b.found = append(b.found, hosts.Wanted{Entry: hostlist.Entry{Name: a.String()}, Bare: true})
		}
	}
	return b.found
}

// living are the addresses of members that are alive.
func living(members map[string]*apiv1.Peer) map[netip.Addr]bool {
	has := map[netip.Addr]bool{}
	for _, p := range members {
		if a, err := netip.ParseAddrPort(p.Address); err == nil && p.State == "alive" {
			has[a.Addr().Unmap()] = true
		}
	}
	return has
}

// unlisted are the records that are no living member's address.
func unlisted(records []hosts.Wanted, members map[string]*apiv1.Peer) (strange []hosts.Wanted) {
	has := living(members)
	for _, w := range records {
		if a, err := netip.ParseAddr(w.Entry.Name); err != nil || !has[a] {
			strange = append(strange, w)
		}
	}
	return strange
}

// newMembers are the addresses of living members for which there is no record, of the records' family, in order.
func newMembers(records []hosts.Wanted, members map[string]*apiv1.Peer) (news []netip.Addr) {
	has, four := living(members), false
	for _, w := range records {
		a, _ := netip.ParseAddr(w.Entry.Name)
		delete(has, a)
		four = a.Is4()
	}
	for a := range has {
		if a.Is4() == four {
			news = append(news, a)
		}
	}
	slices.SortFunc(news, netip.Addr.Compare)
	return news
}
