package run

import (
	"slices"
	"strings"

	"github.com/mpiup/mpiup/internal/hostlist"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/launcher/run/model"
)

// site has one session at a time.
//
//	named ─Reach─▶ reached ─Enlist─▶ host of the run ─Bye─▶ named
//	                  └────Dismiss────────────────────────▶
type site struct {
	model.Site
	host    int         // index in the run; -1: none so far
	reached *model.Host // and not of the run yet
}

// sites are those of a run. They only ever grow.
type sites struct {
	*roster
	self func(name string) bool
	list []*site
}

// alive says that the run has a session with the site that takes a Launch.
func (r *sites) alive(s *site) bool {
	return s.host >= 0 && r.hosts[s.host].state.open()
}

// find is the site that a rank means by a name, -1 for none: spelled as on the command line, as
// its agent states it, or either by the first label.
func (r *sites) find(name string) int {
	name = strings.TrimSuffix(name, ".")
	same := func(spell func(string) string) int {
		return slices.IndexFunc(r.list, func(s *site) bool {
			return strings.EqualFold(spell(s.Name), spell(name)) || s.Stated != "" && strings.EqualFold(spell(s.Stated), spell(name))
		})
	}
	if i := same(func(s string) string { return s }); i >= 0 {
		return i
	}
	if r.self(name) {
		if i := slices.IndexFunc(r.list, func(s *site) bool { return s.Local }); i >= 0 {
			return i
		}
	}
	return same(hostlist.FirstLabel)
}

// found notes what was reached. A host that the run did not know becomes a site.
func (r *sites) found(f model.Host) {
	i := slices.IndexFunc(r.list, func(s *site) bool { return s.Name == f.Name })
	if i < 0 {
		i = len(r.list)
		r.list = append(r.list, &site{host: -1, Site: model.Site{Host: job.Host{Name: f.Name}}})
	}
	s := r.list[i]
	s.Stated, s.CPUs, s.Layout, s.NearGPUs = f.Stated, f.CPUs, f.Layout, f.NearGPUs
	if !s.SlotsGiven {
		s.Slots = max(f.Slots, 1)
	}
	s.reached = &f
}

// dismiss lets those go that were reached and are no hosts of the run.
func (r *sites) dismiss() Dismiss {
	for _, s := range r.list {
		s.reached = nil
	}
	return Dismiss{}
}
