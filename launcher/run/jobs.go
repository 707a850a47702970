package run

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/launcher/mixture"
	"github.com/mpiup/mpiup/launcher/placement"
	"github.com/mpiup/mpiup/launcher/spawn"
	"github.com/mpiup/mpiup/launcher/verdict"
)

// roomWait is how long a spawn that finds no room waits for it.
const roomWait = time.Second

// onSpawn takes a rank's request.
func (r *Run) onSpawn(h int, m *apiv1.SpawnRequest) error {
	if !r.who.Owns(h, m.Parent) || r.cfg.Exec != nil {
		return fmt.Errorf("a spawn request of process %d, which is not there", m.Parent)
	}
	r.succession.withdraw("a rank has spawned a job")
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
func (r *Run) serveSpawns() {
	for r.growing == nil {
		o := r.spawns.Next(r.viewFor)
		switch o.Do {
		case spawn.None:
			return
		case spawn.Read:
			r.give(ReadHosts{o.Ask.Request.Programs})
		case spawn.Join:
			r.join(o)
		case spawn.Wait:
			r.set(Room, roomWait)
		case spawn.Start:
			r.growing = &o
			r.give(Grow{r.who.Jobs(), r.who.Processes(), len(o.Plan.Placements)})
		case spawn.Refuse:
			r.give(r.sites.dismiss())
			r.refuse(o.Ask, o.Why)
		}
	}
}

// viewFor is the run as a spawn of that parent finds it.
func (r *Run) viewFor(parent int) spawn.View {
	v := spawn.View{
		Stopping: r.job == jobStopping, Over: r.ranks[parent].state.over(), Jobs: len(r.jobs) - r.overJobs, Procs: r.who.Processes(),
		Spawned: slices.ContainsFunc(r.ranks[r.jobs[0].Size():], func(i process) bool { return i.state == rankRunning }),
		Find:    r.sites.find,
	}
	for _, s := range r.sites.list {
		site := placement.Site{Host: s.Host}
		if s.host >= 0 {
			site.Busy = r.hosts[s.host].created + r.hosts[s.host].running
		}
		v.Sites, v.Reached = append(v.Sites, site), append(v.Reached, r.sites.alive(s) || s.reached != nil)
	}
	return v
}

// join has hosts reached for the first ask, which waits for them. Those the run did not know become sites.
func (r *Run) join(o spawn.Order) {
	order := Reach{Names: slices.Clone(o.Strangers)}
	for _, i := range o.Sites {
		order.Names = append(order.Names, r.sites.list[i].Name)
	}
	for _, s := range r.sites.list {
		if r.sites.alive(s) {
			order.Has = append(order.Has, s.host)
		}
	}
	r.give(order)
}

// joined goes on with the first ask once its hosts were reached, or not.
func (r *Run) joined(e Reached) {
	if r.job == jobStopping {
		r.give(r.sites.dismiss())
		return
	}
	for _, f := range e.Sites {
		r.sites.found(f)
	}
	r.spawns.Joined(e.Err)
	r.serveSpawns()
}

// grown starts the job that waits for the place of its output. All hosts of its plan are there.
func (r *Run) grown(err error) {
	if r.growing == nil {
		return
	}
	o := r.growing
	r.growing = nil
	if err == nil {
		r.start(o)
	} else {
		r.refuse(o.Ask, err)
	}
	r.give(r.sites.dismiss())
	r.serveSpawns()
	for _, h := range r.live() {
		r.idle(h)
	}
}

// start launches the job of an ask.
func (r *Run) start(o *spawn.Order) {
	taken := make([][]idset.Set, len(o.Sites))
	for i, s := range o.Sites {
		taken[i] = r.takenOn(r.sites.list[s].host)
	}
	placement.BindSpawned(o.Plan, r.cfg.Plan, taken, r.cfg.Policy.Binding)
	by := r.jobOf(o.Ask.Parent)
	app, hosts := r.who.Placed(o.Ask.Parent).App, []int(nil)
	j := &jobRun{asked: o.Ask, apps: o.Ask.Programs(by.apps[app], by.exports[app])}
	j.exports = slices.Repeat([][]string{by.exports[app]}, len(j.apps))
	for _, i := range o.Sites {
		hosts = append(hosts, r.enlist(r.sites.list[i]))
	}
	for _, w := range o.Plan.Warnings {
		r.once(moreRanks, w)
	}
	r.addJob(j, o.Plan, hosts)
	r.brief.launch(j)
	r.debug("spawn", "job", j.Number, "processes", j.Size(), "by", r.rankName(o.Ask.Parent))
}

// enlist makes a site that was reached a host of the run, which learns first what jobs there are;
// one that is a host already stays it. It returns the index.
func (r *Run) enlist(s *site) int {
	if r.sites.alive(s) {
		return s.host
	}
	s.host = r.addHost(*s.reached)
	s.reached = nil
	r.give(Enlist{s.Name})
	for _, j := range r.jobs {
		if !j.over() {
			r.brief.known(s.host, j)
		}
	}
	r.warnVersions(s.host)
	return s.host
}

// addJob gives a job its ids. Its hosts and the place for its output are there.
func (r *Run) addJob(j *jobRun, plan *job.Plan, hosts []int) {
	r.add(j, plan, hosts)
	r.give(Place{j.Job, j.apps, r.who, r.brief.window()})
	r.exchange.Know(r.who)
}

// moreRanks is the key of what a plan says of hosts with more ranks than CPUs. It is said once for all jobs of the run: each that is
// spawned counts more of them.
const moreRanks = "more ranks than CPUs"

// refuse answers an ask that comes to nothing, and tells the user.
func (r *Run) refuse(a *spawn.Ask, why error) {
	told, lines := r.spawns.Refused(a, r.rankName(a.Parent)+" on "+r.hosts[a.Host].Name, why)
	r.answer(a, 0, told)
	for _, l := range lines {
		if r.job != jobStopping {
			r.say("%s", l)
		}
	}
}

func (r *Run) answer(a *spawn.Ask, number int, why string) {
	r.send(a.Host, (&apiv1.SpawnResult{
		Id: a.ID, Job: uint32(number), Error: why}).Frame())
}

// drop gives a job up of which a process could not be started: nothing of it stays, and that is
// no failure of the run, whose rank is told.
func (r *Run) drop(j *jobRun, why string) {
	if j.dropped {
		return
	}
	j.dropped = true
	r.proceed(j, why)
	r.refuse(j.asked, errors.New(why))
	first, end := j.IDs()
	for id := first; id < end; id++ {
		if r.ranks[id].state == rankRunning {
			r.end(id)
		}
	}
}

// never takes the processes of j that a host did not start: after one that could not be started
// it tries no other.
func (r *Run) never(j *jobRun, h int, why string) {
	var ids idset.Set
	first, end := j.IDs()
	for id := first; id < end; id++ {
		next, ok := r.ranks[id].state.next(rankDidNotStart)
		if !ok || r.who.HostOf(id) != h {
			continue
		}
		r.ranks[id].state = next
		r.hosts[h].created--
		r.exchange.Over(id, why)
		ids.Add(id)
	}
	r.settled(j, ids.Len())
	r.debug("not started", "host", r.hosts[h].Name, "ids", ids.String())
}

// end kills a process of a job that was dropped.
func (r *Run) end(id int) {
	r.send(r.who.HostOf(id), (&apiv1.Signal{Number: job.SIGKILL, Ranks: []uint32{uint32(id)}}).Frame())
}

// settled notes that processes of a job are over. Of a spawned job of which none is left, the hosts are
// told, and what it held is let go: a run may have many thousands.
func (r *Run) settled(j *jobRun, n int) {
	if j.left -= n; n == 0 || j.left > 0 || j.asked == nil {
		return
	}
	r.overJobs++
	over := &apiv1.JobOver{Job: uint32(j.Number), Mute: !j.spoke && !j.dropped}
	for _, h := range r.live() {
		r.send(h, &apiv1.Frame{Body: &apiv1.Frame_JobOver{JobOver: over}})
	}
	r.exchange.JobOver(j.Number)
	j.told, j.exports = nil, nil
	for i := range j.apps {
		j.apps[i].Env = nil
	}
	j.asked = &spawn.Ask{Host: j.asked.Host, ID: j.asked.ID, Parent: j.asked.Parent}
}

// onChosen takes an agent's choice of a protocol, and says all of a program's once they are there.
func (r *Run) onChosen(h int, m *apiv1.Chosen) error {
	if int(m.Job) >= len(r.jobs) || int(m.App) >= len(r.jobs[m.Job].apps) {
		return fmt.Errorf("chose a protocol for program %d of job %d, which is not there", m.App, m.Job)
	}
	j := r.jobs[m.Job]
	if m.Seen {
		library := m.Library
		if c, ok := r.mixtureOf(j).First(int(m.App)); ok {
			library = cmp.Or(library, c.Library)
		}
		r.stalls.know(library, "")
		r.uses(j)
		return nil
	}
	last, err := r.mixtureOf(j).Add(mixture.Host{Index: h, Name: r.hosts[h].Name},
		mixture.Answer{App: int(m.App), Protocol: job.Protocol(m.Pmi), Library: m.Library, Why: m.Why, Sure: m.Sure})
	if err != nil {
		return fmt.Errorf("job %d: %w", m.Job, err)
	}
	if j.protocol == nil {
		j.protocol = map[place]job.Protocol{}
	}
	j.protocol[place{h, int(m.App)}] = job.Protocol(m.Pmi)
	sure := ""
	if j.chosen = true; m.Library != "" && m.Sure {
		sure = m.Library
		r.uses(j)
	}
	if m.Waits && !slices.Contains(j.waiting, h) {
		j.waiting = append(j.waiting, h)
	}
	if last && r.cfg.Verbose {
		for _, line := range j.mixture.Lines(int(m.App)) {
			r.say("%s", line)
		}
	}
	r.stalls.know(sure, m.Nccl)
	r.judgeMixture(j)
	return nil
}

// uses notes that programs of a job are MPI's: they surely load a library, or ranks of them have spoken to their agent or have a library in their
// memory. Until then they are not, whatever they may load. The first job wires up from then on.
func (r *Run) uses(j *jobRun) {
	if j.usesMPI = true; j.Number == 0 && len(j.Hosts) > 1 && !r.wired && !r.succession.wired {
		r.move(jobSpeaks)
	}
}

// judgeMixture lets the agents that wait start a job's processes, or not, once all have said what they chose.
func (r *Run) judgeMixture(j *jobRun) {
	if j.dropped {
		r.proceed(j, "another process of the job could not be started")
		return
	}
	if r.job == jobStopping || j.mixture == nil || !j.mixture.Complete() {
		return
	}
	var parent *mixture.Job
	if j.asked != nil {
		parent = r.jobs[r.who.Process(j.asked.Parent).Job].mixture
	}
	judged, text := j.mixture.Judge(parent)
	switch {
	case judged == mixture.Hopeless && j.asked != nil:
		r.drop(j, verdict.Fault{Event: verdict.Mixed, Text: text}.Sentence())
		return
	case judged == mixture.Hopeless:
		r.fail(verdict.Fault{Event: verdict.Mixed, Node: -1, ID: -1, Text: text})
		return
	case judged == mixture.Doubtful && !j.warned:
		j.warned = true
		choose := ""
		if r.cfg.PMI == job.AutoProtocol {
			choose = ", or choose with --mpi"
		}
		r.say("warning: the ranks use MPI libraries that may not be able to talk to each other: %s; use one library and one image for all%s", text, choose)
	}
	r.proceed(j, "")
}

// proceed answers the agents that wait with a job.
func (r *Run) proceed(j *jobRun, refused string) {
	for _, h := range j.waiting {
		r.send(h, (&apiv1.Proceed{Job: uint32(j.Number), Refused: refused}).Frame())
	}
	j.waiting = nil
}

// notAwaited: jobs whose agents wait need not wait for a host that is gone.
func (r *Run) notAwaited(h int) {
	for _, j := range r.jobs {
		if j.mixture != nil && !j.mixture.Complete() {
			j.mixture.Drop(h)
			r.judgeMixture(j)
		}
	}
}

// warnVersions says once when builds of one protocol mix, of hosts from an index on.
func (r *Run) warnVersions(from int) {
	others := map[string][]string{}
	for _, h := range r.hosts[from:] {
		if v := h.Version; v != r.cfg.Version {
			others[v] = append(others[v], h.Name)
		}
	}
	for v, names := range others {
		r.say("%s (%s) has mpiup %s, this is %s: they speak one protocol, but use one build everywhere",
			names[0], visible.Count(len(names), "host"), cmp.Or(v, "unknown"), cmp.Or(r.cfg.Version, "unknown"))
	}
}
