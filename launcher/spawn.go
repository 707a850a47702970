package launcher

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/hostlist"
	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/launcher/hosts"
	"github.com/mpiup/mpiup/launcher/placement"
	"github.com/mpiup/mpiup/launcher/spawn"
)

// roomWait is how long a spawn that finds no room waits for it.
const roomWait = time.Second

// onSpawn takes a rank's request.
func (r *run) onSpawn(h int, m *apiv1.SpawnRequest) error {
	if !r.places.owns(h, m.Parent) || r.exec != nil {
		return fmt.Errorf("a spawn request of process %d, which is not there", m.Parent)
	}
	a := &spawn.Ask{Host: h, ID: m.Id, Parent: int(m.Parent), Request: spawnRequest(m)}
	if err := r.spawns.Add(a); err != nil {
		r.refuse(a, err)
		return nil
	}
	r.serveSpawns()
	return nil
}

// spawnRequest is a frame as the request it carries.
func spawnRequest(m *apiv1.SpawnRequest) job.Spawn {
	q := job.Spawn{Programs: make([]job.SpawnProgram, len(m.Apps)), Preput: make([]job.Pair, len(m.Preput))}
	for i, a := range m.Apps {
		q.Programs[i] = job.SpawnProgram{
			Argv: a.GetApp().GetArgv(), Env: a.GetApp().GetEnv(), Dir: a.GetApp().GetWdir(), AlsoDir: a.GetApp().GetAlsoWdir(),
			Procs: int(a.GetProcs()), PerHost: int(a.GetPerHost()), MapBy: a.GetMapBy(),
			Hosts: a.GetHosts(), AddHosts: a.GetAddHosts(), Hostfile: a.GetHostfile(), AddHostfile: a.GetAddHostfile(),
		}
	}
	for i, kv := range m.Preput {
		q.Preput[i] = job.Pair{Key: kv.GetKey(), Value: kv.GetValue()}
	}
	return q
}

// serveSpawns carries out what the queue of spawns orders, until it waits.
func (r *run) serveSpawns() {
	for {
		o := r.spawns.Next(r.viewFor)
		switch o.Do {
		case spawn.None:
			return
		case spawn.Read:
			r.readHosts(o.Ask)
		case spawn.Join:
			r.join(o)
		case spawn.Wait:
			r.timers.room.Reset(roomWait)
		case spawn.Start:
			err := r.start(o)
			r.dismiss()
			if err != nil {
				r.refuse(o.Ask, err)
			}
		case spawn.Refuse:
			r.dismiss()
			r.refuse(o.Ask, o.Why)
		}
	}
}

// readHosts reads the hosts of the first ask, aside, as files may take long.
func (r *run) readHosts(a *spawn.Ask) {
	r.aside(func(context.Context) {
		targets, err := spawn.Targets(a.Request.Programs, func(file string) ([]hostlist.Entry, error) { return hosts.ReadBelow(r.cfg.SpawnFiles, file) })
		r.mail.put(event{host: -1, do: func() {
			r.spawns.HostsRead(targets, err)
			r.serveSpawns()
		}})
	})
}

// viewFor is the run as a spawn of that parent finds it.
func (r *run) viewFor(parent int) spawn.View {
	v := spawn.View{
		Stopping: r.job == jobStopping, Over: r.ranks[parent].state.over(), Jobs: len(r.jobs) - r.overJobs, Procs: r.places.ids(),
		Spawned: slices.ContainsFunc(r.ranks[r.jobs[0].size():], func(i rankInfo) bool { return i.state == rankRunning }),
		Find:    r.siteOf,
	}
	for _, s := range r.sites {
		site := placement.Site{Host: s.Host}
		if s.host >= 0 {
			site.Busy = r.at[s.host].created + r.at[s.host].running
		}
		v.Sites, v.Reached = append(v.Sites, site), append(v.Reached, r.alive(s) || s.found != nil)
	}
	return v
}

// start launches the job of an ask. All hosts of the plan are there.
func (r *run) start(o spawn.Order) error {
	if err := r.sink.Grow(len(o.Plan.Placements)); err != nil {
		return err
	}
	taken := make([][]idset.Set, len(o.Sites))
	for i, s := range o.Sites {
		taken[i] = r.takenOn(r.sites[s].host)
	}
	placement.BindSpawned(o.Plan, r.plan, taken, r.cfg.Policy.Binding)
	by := r.jobOf(o.Ask.Parent)
	app := by.plan.Placements[o.Ask.Parent-by.base].App
	j := &jobRun{plan: o.Plan, asked: o.Ask, apps: o.Ask.Programs(by.apps[app], by.exports[app])}
	j.exports = slices.Repeat([][]string{by.exports[app]}, len(j.apps))
	for _, i := range o.Sites {
		j.hosts = append(j.hosts, r.enlist(r.sites[i]))
	}
	r.sayCrowded(o.Plan)
	r.addJob(j)
	r.launchJob(j)
	r.cfg.Log.Debug("spawn", "job", j.number, "processes", j.size(), "by", r.rankName(o.Ask.Parent))
	return nil
}

// refuse answers an ask that comes to nothing, and tells the user.
func (r *run) refuse(a *spawn.Ask, why error) {
	told, lines := r.spawns.Refused(a, r.rankName(a.Parent)+" on "+r.host(a.Host).Name, why)
	r.answer(a, 0, told)
	for _, l := range lines {
		if r.job != jobStopping {
			r.say("%s", l)
		}
	}
}

func (r *run) answer(a *spawn.Ask, number int, why string) {
	r.send(a.Host, (&apiv1.SpawnResult{
		Id: a.ID, Job: uint32(number), Error: why}).Frame())
}

// drop gives a job up of which a process could not be started: nothing of it stays, and that is
// no failure of the run, whose rank is told.
func (r *run) drop(j *jobRun, why string) {
	if j.dropped {
		return
	}
	j.dropped = true
	r.proceed(j, why)
	r.refuse(j.asked, errors.New(why))
	for rank := range j.size() {
		if id := j.base + rank; r.ranks[id].state == rankRunning {
			r.end(id)
		}
	}
}

// never takes the processes of j that a host did not start: after one that could not be started
// it tries no other.
func (r *run) never(j *jobRun, h int, why string) {
	var ids idset.Set
	for rank := range j.size() {
		id := j.base + rank
		next, ok := r.ranks[id].state.next(rankDidNotStart)
		if !ok || r.places.hostOf(id) != h {
			continue
		}
		r.ranks[id].state = next
		r.at[h].created--
		r.sendOut(r.exchange.Over(id, why))
		ids.Add(id)
	}
	r.settled(j, ids.Len())
	r.cfg.Log.Debug("not started", "host", r.host(h).Name, "ids", ids.String())
}

// end kills a process of a job that was dropped.
func (r *run) end(id int) {
	const kill = 9
	r.send(r.places.hostOf(id), (&apiv1.Signal{Number: kill, Ranks: []uint32{uint32(id)}}).Frame())
}
