package launcher

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mpiup/mpiup/internal/awake"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/launcher/hosts"
	"github.com/mpiup/mpiup/launcher/link"
	"github.com/mpiup/mpiup/launcher/reach"
	"github.com/mpiup/mpiup/launcher/run"
	"github.com/mpiup/mpiup/launcher/run/choose"
	"github.com/mpiup/mpiup/launcher/run/model"
	"github.com/mpiup/mpiup/launcher/run/phases"
)

// An elastic job (--min-np, --max-np) begins each attempt with the hosts that are there. A host that comes while ranks run ends them, and
// all start again with it.

// checkElastic refuses what an elastic job cannot be.
func (c *Config) checkElastic() error {
	e := c.Elastic
	switch {
	case !e.On():
		return nil
	case c.Spares > 0:
		return reach.Failf(job.ExitUsage, "--spares %d: with --min-np a host without ranks comes in by itself; leave --spares out, or bound the ranks by --max-np", c.Spares)
	case c.Recover || c.Linger:
		return reach.Failf(job.ExitUsage, "--min-np %d: this run goes on when ranks fail, so they are never started again; leave one of the two out", e.Min)
	case c.Nodes > 1:
		return reach.Failf(job.ExitUsage, "--min-np %d: each pod starts ranks of its own, and those of the others would not be started again with them; start all from one pod", e.Min)
	case len(c.Apps) > 1:
		return reach.Failf(job.ExitUsage, "--min-np %d: several programs have fixed numbers of ranks; give one program", e.Min)
	case c.Apps[0].On != nil || len(c.Policy.Binding.Lines) > 0:
		return reach.Failf(job.ExitUsage, "--min-np %d: ranks that are given to hosts by name cannot move to others; leave out the rankfile or the program's own hosts", e.Min)
	case c.Policy.Oversubscribe && c.Policy.PerNode == 0:
		return reach.Failf(job.ExitUsage, "--min-np %d: an elastic job has a rank for each slot of its hosts; leave --oversubscribe out, or say how many ranks a host gets (--ppn)", e.Min)
	case c.Policy.PerNode > 0 && (e.Min%c.Policy.PerNode != 0 || e.Max%c.Policy.PerNode != 0):
		return reach.Failf(job.ExitUsage, "--min-np %d, --max-np %d: each host gets %d ranks (--ppn), so both must be multiples of that", e.Min, e.Max, c.Policy.PerNode)
	}
	return nil
}

// lastCall ends the wait for more hosts some time after there are enough to begin.
type lastCall struct {
	after time.Duration

	mu     sync.Mutex
	end    context.CancelFunc // guarded by mu
	asked  bool               // guarded by mu; there were enough
	passed bool               // guarded by mu
}

// enough notes that there are.
func (l *lastCall) enough() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.asked {
		l.asked = true
		awake.After(l.after, func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.passed = true
			l.end()
		})
	}
}

// over says that nobody else is waited for.
func (l *lastCall) over() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.passed
}

// renew is for another round of the search, which end ends.
func (l *lastCall) renew(end context.CancelFunc) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end = end
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
		room = append(room, r.wish().Room(s.Host))
	}
	for link.Sleep(life, r.course.Again.UntilLook(len(r.plan.Placements))); life.Err() == nil; link.Sleep(life, phases.LookEvery) {
		want := r.course.Known
		if r.cfg.Discovers() {
			if seen := r.cfg.Seen(life); seen != nil {
				want = choose.Joined(want, seen.Hosts)
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
			names, seen = append(names, cameAs(v)), append(seen, v.Hello.Incarnation)
			came = append(came, v.Wanted)
			more = append(more, r.wish().Room(choose.Answer{Wanted: v.Wanted, Host: &model.Host{Slots: link.Slots(v.Hello)}}.Place()))
		}
		if _, size := r.wish().Share(more); size > len(r.plan.Placements) {
			for _, s := range seen {
				r.course.Shy[s] = true // one that does not join then is no reason again
			}
			r.came = came
			r.mail.put(run.Came{Hosts: strings.Join(names, ", "), Size: size})
			return
		}
	}
}

// cameAs is how a host is called that has come.
func cameAs(v reach.Visited) string {
	if v.Bare && v.Hello.Name != "" {
		return v.Hello.Name
	}
	return v.Entry.Name
}
