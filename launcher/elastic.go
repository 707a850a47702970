package launcher

import (
	"context"
	"slices"
	"strings"

	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/launcher/hosts"
	"github.com/mpiup/mpiup/launcher/link"
	"github.com/mpiup/mpiup/launcher/run"
	"github.com/mpiup/mpiup/launcher/run/model"
	"github.com/mpiup/mpiup/launcher/run/phases"
)

// An elastic job (--min-np, --max-np) begins each attempt with the hosts that are there. A host that comes while ranks run ends them, and
// all start again with it.

// lastCall ends the wait for more hosts some time after there are enough to begin.
type lastCall struct {
	over   context.Context // ends then
	enough func()          // notes that there are
}

// saySize tells of a size that is other than the last attempt's, or than what the job was to begin with.
func (r *planner) saySize(seated []job.Host, size int) {
	names := make([]string, len(seated))
	for i, h := range seated {
		names[i] = h.Name
	}
	if r.course.Again != nil && r.course.Again.Grown != "" {
		for came := range strings.SplitSeq(r.course.Again.Grown, ", ") {
			if !slices.Contains(names, came) {
				r.say("host %s had come, and did not answer when the ranks were to start again: they are not ended for it once more", came)
			}
		}
	}
	where := visible.Count(size, "rank") + " on " + visible.Few(names, 8, ", ")
	switch {
	case r.course.Again != nil && r.course.Again.Had != size:
		r.say("the job goes on with %s; it had %d", where, r.course.Again.Had)
	case r.course.Again == nil && size < r.cfg.Elastic.Begin:
		r.say("the job begins with %s; for -n %d there are not hosts enough yet", where, r.cfg.Elastic.Begin)
	}
}

// watch looks for hosts that have come while ranks run, until one is there by which the job would grow.
func watch(life context.Context, r *driver) {
	have := map[string]bool{} // agents and names of this attempt
	var room []int
	for _, h := range r.places.hosts() {
		have[h.Name], have[h.First.Opened.Host.GetIncarnation()] = true, true
	}
	for _, s := range r.sites {
		room = append(room, r.cfg.wish().Room(s.Host))
	}
	for link.Sleep(life, r.course.Again.UntilLook(len(r.plan.Placements))); life.Err() == nil; link.Sleep(life, phases.LookEvery) {
		want := r.course.Known
		if r.cfg.Discovers() {
			if seen := r.cfg.Seen(life); seen != nil {
				want = phases.Joined(want, seen.Hosts)
			}
		}
		want = slices.DeleteFunc(slices.Clone(want), func(w hosts.Wanted) bool { return have[w.Entry.Name] })
		var names, seen []string
		var came []hosts.Wanted
		more := slices.Clone(room)
		for _, v := range r.cfg.Visit(life, want, nil) {
			if v.Hello == nil || have[v.Hello.Incarnation] || v.Bare && have[v.Hello.Name] || r.course.Shy[v.Hello.Incarnation] {
				continue
			}
			a := phases.Answer{Wanted: v.Wanted, Host: &model.Host{Stated: v.Hello.Name, Slots: link.Slots(v.Hello)}}
			names, seen = append(names, a.Name()), append(seen, v.Hello.Incarnation)
			came, more = append(came, v.Wanted), append(more, r.cfg.wish().Room(a.Place()))
		}
		if _, size := r.cfg.wish().Share(more); size > len(r.plan.Placements) {
			for _, s := range seen {
				r.course.Shy[s] = true // one that does not join then is no reason again
			}
			r.came = came
			r.mail.put(run.Came{Hosts: strings.Join(names, ", "), Size: size})
			return
		}
	}
}
