package reach

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/mpiup/mpiup/internal/hostlist"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/resolve"
	"github.com/mpiup/mpiup/internal/wire"
	"github.com/mpiup/mpiup/launcher/hosts"
	"github.com/mpiup/mpiup/launcher/link"
	"github.com/mpiup/mpiup/launcher/run/phases"
)

// meeting finds the hosts of a pod that is told of none: by the records of its headless service, and
// where that has none by the agents that an agent in this container knows. Both grow while pods start.
type meeting struct {
	reach   *Reach
	dialer  *Dialer
	service string
	watch   *resolve.Watch              // of the service; nil: this pod has none
	pods    *resolve.Numbered           // of a number that is known; nil: they have no numbers
	dns     error                       // why it has no records
	from    string                      // of the last hosts: the service, or gossip
	known   map[string]phases.Candidate // by name or address: what agents said of themselves
	causes  map[string]*link.Cause      // why others did not
	tired   map[string]*link.Patience   // with those
	clock   *wire.Clock                 // of that
	set     phases.Set
	beyond  *beyond
}

func newMeeting(r *Reach) *meeting {
	d := NewDialer(r.Identity, 1)
	m := &meeting{reach: r, dialer: d, from: "gossip", clock: wire.NewClock(), beyond: &beyond{reach: r, dialer: d, answers: map[netip.Addr]bool{}},
		known: map[string]phases.Candidate{}, causes: map[string]*link.Cause{}, tired: map[string]*link.Patience{}}
	if sub := r.Subdomain(); sub != "" {
		m.watch, m.service = r.Resolver.Watch(sub), "the service "+sub
		if n, _ := r.Count(); n > 0 {
			m.pods = r.Resolver.Numbered(r.Hostname, sub, n)
		}
		m.from = m.service
	}
	return m
}

// meet waits for as many hosts as are needed, until ctx ends.
func (r *Reach) meet(ctx context.Context) (*hosts.Set, error) {
	m := newMeeting(r)
	b := newBoard(nil, r)
	defer b.showing(ctx)()
	ticking, stop := context.WithCancel(ctx)
	var clock sync.WaitGroup
	clock.Go(func() { m.clock.Run(ticking, nil) })
	defer func() { stop(); clock.Wait() }()
	for begun := time.Now(); ; {
		set := m.look(ctx)
		stranger := m.ask(ctx, set)
		now := time.Now()
		if r.Need.Suffices(&m.set, now) {
			return m.chosen(set), nil
		}
		if stranger != nil && r.Need.Enough(&m.set, now) {
			return nil, &Failure{Code: stranger.Stage.ExitCode(), Lines: append(m.unanswered(set), link.NoCure(stranger))}
		}
		if m.watch == nil && set == nil && now.Sub(begun) >= phases.Settled {
			why := "no hosts are named (--host, --hostfile or MPIUP_HOSTS), and no agent runs here that would know them"
			if r.InPod() {
				why = "nothing tells this pod of its job's hosts: its name has no headless service, and no agent runs in this container"
			}
			return nil, &Failure{Code: job.ExitHosts, Lines: []string{why, r.otherwise()}}
		}
		lacks := m.from + " has " + r.Need.Lacks(&m.set)
		var cached time.Time // until when DNS may repeat that the service has no records
		if m.dns != nil {
			cached = resolveCause(m.dns, r.InPod()).Cached
		}
		b.note(lacks+m.hint(set)+m.first(set), cached)
		if m.watch != nil {
			m.watch.Pause(ctx)
		} else {
			link.Sleep(ctx, time.Second)
		}
		if ctx.Err() != nil {
			if m.dns != nil {
				lacks += ": " + resolveCause(m.dns, m.reach.InPod()).Error()
			}
			return nil, &Failure{Code: job.ExitHosts, Lines: append(m.unanswered(set), lacks,
				fmt.Sprintf("waited %v (%s) for hosts; `mpiup peers` shows who answers", r.Wait, r.WaitBy), r.otherwise())}
		}
	}
}

// otherwise is what else a user may have meant.
func (r *Reach) otherwise() string {
	text := "name the hosts with --host or MPIUP_HOSTS"
	if n, _ := r.Least(); n == 0 && !r.Sizeless {
		text += ", or how many there are with --size"
	}
	if r.Serves || r.Asks { // mpiup up is for several pods
		return text
	}
	return text + "; to run all ranks " + map[bool]string{true: "in this container", false: "here"}[r.InPod()] + " alone, say so with " + r.LocalBy
}

// hint is what a user who waits may want to do.
func (m *meeting) hint(set *hosts.Set) string {
	switch n := m.reach.Need; {
	case set == nil && m.reach.Asks:
		return ""
	case set == nil && !m.reach.Serves:
		return "; all ranks run here with " + m.reach.LocalBy
	case n.Hosts == 0 && (n.Ranks == 0 || n.All || n.Beyond):
		return fmt.Sprintf("; the run begins when they have been the same for %v", phases.Settled)
	}
	return ""
}

// look is the hosts as they are now; nil: there are none.
func (m *meeting) look(ctx context.Context) *hosts.Set {
	if m.watch != nil {
		if all := m.records(ctx); len(all) > 0 {
			m.from = m.service
			return &hosts.Set{From: m.from, Hosts: append(all, m.beyond.hosts(ctx, all)...)}
		}
	}
	set := m.reach.gossip(ctx)
	if set != nil {
		m.from = set.From
	}
	return set
}

// records are those of this pod's headless service, in order of address. Our own counts if an agent answers there.
func (m *meeting) records(ctx context.Context) (all []hosts.Wanted) {
	addrs, err := m.watch.Next(ctx)
	m.dns = err
	if err == nil {
		addrs = append(slices.Clip(addrs), m.pods.Beside(ctx, addrs)...)
	}
	own := hosts.OwnAddresses()
	for _, a := range slices.SortedFunc(slices.Values(addrs), netip.Addr.Compare) {
		// A pod of a dual-stack cluster has a record of each family.
		if a.Is4() != addrs[0].Is4() || own[a] && (m.reach.NotHere || !m.reach.agentAt(ctx, m.dialer, a)) {
			continue
		}
		all = append(all, hosts.Wanted{Entry: hostlist.Entry{Name: a.String()}, Bare: true})
	}
	return all
}

// ask asks the hosts that have not said yet who they are and how many slots they have. It returns why those
// that have not answered will not do so, if that is known of all of them.
func (m *meeting) ask(ctx context.Context, set *hosts.Set) *link.Cause {
	if set == nil {
		m.set.See(time.Now(), nil)
		return nil
	}
	var strangers []hosts.Wanted
	for _, w := range set.Hosts {
		if _, ok := m.known[m.key(w)]; !ok {
			strangers = append(strangers, w)
		}
	}
	begun := m.clock.Now()
	var causes []*link.Cause
	for _, v := range m.reach.Visit(ctx, strangers, nil) {
		key := m.key(v.Wanted)
		if v.Hello != nil {
			m.known[key] = phases.Candidate{Name: v.Hello.Name, Slots: link.Slots(v.Hello)}
			delete(m.causes, key)
			continue
		}
		if m.tired[key] == nil {
			m.tired[key] = &link.Patience{}
		}
		m.causes[key] = v.Cause
		if m.tired[key].Over(v.Cause, begun, m.clock.Now(), m.reach.Insist) {
			causes = append(causes, v.Cause)
		}
	}
	hosts, silent := make([]phases.Candidate, len(set.Hosts)), 0
	for i, w := range set.Hosts {
		h, ok := m.known[m.key(w)]
		if !ok {
			h, silent = phases.Candidate{Name: m.key(w)}, silent+1
		}
		hosts[i] = h
	}
	m.set.See(time.Now(), hosts)
	if len(causes) < silent {
		return nil
	}
	return link.Telling(causes)
}

// first is why the first of those that do not answer does not.
func (m *meeting) first(set *hosts.Set) string {
	if set != nil {
		for _, w := range set.Hosts {
			if c := m.causes[m.key(w)]; c != nil {
				return fmt.Sprintf("; %v", c)
			}
		}
	}
	return ""
}

// unanswered are lines with why hosts do not answer.
func (m *meeting) unanswered(set *hosts.Set) (lines []string) {
	const most = 5
	if set == nil {
		return nil
	}
	var names, texts []string
	for _, w := range set.Hosts {
		if c := m.causes[m.key(w)]; c != nil {
			names, texts = append(names, m.key(w)), append(texts, c.Error())
		}
	}
	lines = hostlist.Together("host", names, texts)
	return lines[:min(len(lines), most)]
}

// key tells one host from another for as long as it has its address.
func (m *meeting) key(w hosts.Wanted) string {
	if len(w.Fixed) > 0 {
		return w.Fixed[0].String()
	}
	return w.Entry.Name
}

// chosen is the set without those that have not answered, where the others are all that was asked for,
// and without those that are more than were said.
func (m *meeting) chosen(set *hosts.Set) *hosts.Set {
	if n := m.reach.Need; n.Hosts > 0 || n.Ranks > 0 && !n.Beyond && !n.All {
		set.Hosts = slices.DeleteFunc(set.Hosts, func(w hosts.Wanted) bool { return m.known[m.key(w)].Slots == 0 })
	}
	if n, _ := m.reach.Count(); n > 0 {
		set.Hosts = set.Hosts[:min(n, len(set.Hosts))]
	}
	return set
}
