package launcher

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mpiup/mpiup/launcher/reach"

	"github.com/mpiup/mpiup/launcher/link"

	"github.com/mpiup/mpiup/internal/hostlist"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/launcher/hosts"
	"github.com/mpiup/mpiup/launcher/spawn"
)

// joinWait bounds the time that a spawn waits for hosts which the run does not have; it is never
// longer than --wait.
const joinWait = 10 * time.Second

// site is a host that jobs may be placed on: of the command line, with a session or not, or one
// that a rank named. It has one session at a time.
//
//	named ─join─▶ found ─enlist─▶ host of the run ─Bye─▶ named
//	                └────dismiss────────────────────────▶
type site struct {
	hosts.Wanted
	job.Host
	stated string       // host name, as its agent states it; "": not reached yet
	host   int          // index in the run; -1: none so far
	found  *reach.Found // reached, and not of the run yet
	attach link.Attach  // of found
}

// newSites are the hosts of the command line. Those that were reached are found anew where they
// were found.
func newSites(want []hosts.Wanted, hosts []job.Host, have []reach.Found) []*site {
	sites := make([]*site, len(want))
	for i, w := range want {
		sites[i] = &site{Wanted: w, Host: hosts[i], host: -1}
	}
	for _, f := range have {
		i := slices.IndexFunc(sites, func(s *site) bool { return s.Entry.Name == f.Entry.Name })
		if i >= 0 {
			sites[i].reached(f)
		}
	}
	return sites
}

// reached notes what a session tells of its host.
func (s *site) reached(f reach.Found) {
	host := f.Session.Opened.Host
	s.stated, s.CPUs = host.GetName(), int(host.GetCpus())
	if !s.SlotsGiven {
		s.Slots = max(int(host.GetSlots()), 1)
	}
	if f.Session.Addr.IsValid() {
		s.Fixed = append(s.Fixed[:0:0], f.Session.Addr)
	}
}

// alive says that the run has a session with the site that takes a Launch.
func (r *run) alive(s *site) bool {
	return s.host >= 0 && !r.at[s.host].bye && !r.host(s.host).Finished()
}

// siteOf is the site that a rank means by a name, -1 for none: spelled as on the command line, as
// its agent states it, or either by the first label.
func (r *run) siteOf(name string) int {
	name = strings.TrimSuffix(name, ".")
	same := func(spell func(string) string) int {
		return slices.IndexFunc(r.sites, func(s *site) bool {
			return strings.EqualFold(spell(s.Entry.Name), spell(name)) || s.stated != "" && strings.EqualFold(spell(s.stated), spell(name))
		})
	}
	if i := same(func(s string) string { return s }); i >= 0 {
		return i
	}
	if r.cfg.Self(name) {
		if i := slices.IndexFunc(r.sites, func(s *site) bool { return s.Local }); i >= 0 {
			return i
		}
	}
	return same(hosts.FirstLabel)
}

// join reaches hosts for the first ask, which waits for them. Those the run did not know become
// sites.
func (r *run) join(o spawn.Order) {
	var want []hosts.Wanted
	for _, name := range o.Strangers {
		want = append(want, hosts.Wanted{Entry: hostlist.Entry{Name: name}, Local: r.cfg.Self(name)})
	}
	for _, i := range o.Sites {
		want = append(want, r.sites[i].Wanted)
	}
	reach := r.cfg.Reach
	reach.Identity = r.identity
	for _, w := range want {
		if reach.Identity == nil && !(w.Local && reach.Embedded != nil) {
			r.spawns.Joined(fmt.Errorf("host %s is not of this run, and others cannot be reached without the job's secret (--key)", w.Entry.Name))
			return
		}
	}
	claims := r.claims()
	r.aside(func(life context.Context) {
		ctx, cancel := context.WithTimeout(life, min(joinWait, reach.Wait))
		defer cancel()
		attach := r.dial(&reach, len(want))
		have, err := reach.Reinforce(ctx, life, want, claims, attach, r.opener)
		r.mail.put(event{host: -1, do: func() { r.joined(have, attach, err) }})
	})
}

// claims are the agents that the run has.
func (r *run) claims() (have []reach.Found) {
	for _, s := range r.sites {
		if r.alive(s) {
			have = append(have, reach.Found{Wanted: s.Wanted, Session: r.host(s.host).First})
		}
	}
	return have
}

// joined goes on with the first ask once its hosts were reached, or not.
func (r *run) joined(have []reach.Found, attach link.Attach, err error) {
	if r.job == jobStopping || r.job == jobDone {
		reach.CloseAll(have)
		return
	}
	if err != nil {
		reach.CloseAll(have)
		have = nil
	}
	for _, f := range have {
		i := slices.IndexFunc(r.sites, func(s *site) bool { return s.Entry.Name == f.Entry.Name })
		if i < 0 {
			i = len(r.sites)
			r.sites = append(r.sites, &site{Wanted: f.Wanted, host: -1, Host: job.Host{Name: f.Entry.Name}})
		}
		s := r.sites[i]
		s.reached(f)
		s.Layout, s.NearGPUs = layoutOf(f, r.cfg.Log), nearGPUs(f.Session.Opened.Host.GetGpuUnits(), r.cfg.gpuWish())
		s.found, s.attach = &f, attach
	}
	r.spawns.Joined(err)
	r.serveSpawns()
}

// enlist makes a site that was found a host of the run, which learns first what jobs there are;
// one that is a host already stays it. It returns the index.
func (r *run) enlist(s *site) int {
	if r.alive(s) {
		return s.host
	}
	s.host = r.addHost(*s.found, s.attach)
	s.found = nil
	for _, j := range r.jobs {
		if !j.over() {
			r.sendKnown(s.host, j)
		}
	}
	r.aside(r.carryHost(r.host(s.host)))
	r.warnVersions(s.host)
	return s.host
}

// dismiss closes sessions with hosts that were reached for an ask and not used.
func (r *run) dismiss() {
	for _, s := range r.sites {
		if f := s.found; f != nil {
			s.found = nil
			r.aside(func(context.Context) { reach.CloseAll([]reach.Found{*f}) })
		}
	}
}

// carryHost keeps a host's session on a connection until it is over.
func (r *run) carryHost(h *link.Conn) func(context.Context) {
	return func(life context.Context) {
		err := h.Run(life)
		r.mail.put(event{host: h.Index, end: true, err: err, at: r.clock.Now()})
	}
}
