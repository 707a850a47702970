package launcher

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/launcher/placement"
	"github.com/mpiup/mpiup/pmi/spawn"
)

// Bounds of what ranks may ask for in one run.
const (
	maxJobs    = 4096 // at once
	maxAsks    = 256  // at once
	maxRefused = 16   // refusals that the user is told of
)

// ask is a rank's request for another job, from its SpawnRequest to the job's launch. Asks are
// served one after the other, so each sees the slots that those before it took.
//
//	SpawnRequest ─▶ read host lists ─▶ place ─▶ launch ─▶ all started ─▶ SpawnResult
//	                    │    ▲           │ ▲
//	                    └join┘           └join    hosts that the run does not have (join.go)
type ask struct {
	host    int // that asked
	id      uint64
	parent  int // id of the rank
	request spawn.Request
	preput  []*apiv1.KeyValue
	targets [][]target // by program, once read
	read    bool
	cramped bool // it waits for room
	waited  bool // it has waited for room
}

// onSpawn takes a rank's request.
func (r *run) onSpawn(h int, m *apiv1.SpawnRequest) error {
	if !r.places.owns(h, m.Parent) || r.exec != nil {
		return fmt.Errorf("a spawn request of process %d, which is not there", m.Parent)
	}
	a := &ask{host: h, id: m.Id, parent: int(m.Parent), preput: m.Preput, request: spawnRequest(m)}
	switch err := a.request.Check(); {
	case err != nil:
		r.refuse(a, err)
	case len(r.asks) >= maxAsks:
		r.refuse(a, fmt.Errorf("%d other spawns wait already", len(r.asks)))
	default:
		if r.asks = append(r.asks, a); len(r.asks) == 1 {
			r.serveAsks()
		}
	}
	return nil
}

// spawnRequest is a frame as the request it carries.
func spawnRequest(m *apiv1.SpawnRequest) spawn.Request {
	q := spawn.Request{Programs: make([]spawn.Program, len(m.Apps)), Preput: make([]spawn.Pair, len(m.Preput))}
	for i, a := range m.Apps {
		q.Programs[i] = spawn.Program{
			Argv: a.GetApp().GetArgv(), Env: a.GetApp().GetEnv(), Dir: a.GetApp().GetWdir(), AlsoDir: a.GetApp().GetAlsoWdir(),
			Procs: int(a.GetProcs()), PerHost: int(a.GetPerHost()), MapBy: a.GetMapBy(),
			Hosts: a.GetHosts(), AddHosts: a.GetAddHosts(), Hostfile: a.GetHostfile(), AddHostfile: a.GetAddHostfile(),
		}
	}
	for i, kv := range m.Preput {
		q.Preput[i] = spawn.Pair{Key: kv.GetKey(), Value: kv.GetValue()}
	}
	return q
}

// serveAsks goes on with the first ask, and with the next ones while none has to wait.
func (r *run) serveAsks() {
	for len(r.asks) > 0 {
		a := r.asks[0]
		waits, err := r.advance(a)
		if waits {
			return
		}
		r.asks = r.asks[1:]
		r.dismiss()
		if err != nil {
			r.refuse(a, err)
		}
	}
}

// endAsk refuses the first ask, which had to wait, and goes on with the next.
func (r *run) endAsk(err error) {
	a := r.asks[0]
	r.asks = r.asks[1:]
	r.dismiss()
	r.refuse(a, err)
	r.serveAsks()
}

// advance takes an ask as far as it gets. waits says that hosts or files are waited for, after
// which serveAsks is called again.
func (r *run) advance(a *ask) (waits bool, err error) {
	switch {
	case r.job == jobStopping:
		return false, errors.New("the run is being stopped")
	case r.ranks[a.parent].state.over():
		return false, errors.New("the rank that asked has ended")
	case len(r.jobs)-r.overJobs >= maxJobs:
		return false, fmt.Errorf("the run has %d jobs, the most there can be", len(r.jobs)-r.overJobs)
	case r.places.ids()+a.procs() > placement.MaxRanks:
		return false, fmt.Errorf("the run has had %d processes; %d are possible", r.places.ids(), placement.MaxRanks)
	case !a.read:
		return r.readTargets(a)
	}
	batches, strangers, err := r.batches(a)
	if err != nil {
		return false, err
	}
	if len(strangers) > 0 {
		return r.join(strangers[:min(len(strangers), a.procs())])
	}
	sites := r.placementSites()
	plan, used, err := placement.Spawn(sites, batches, r.cfg.Policy.Oversubscribe)
	if err == nil {
		err = startable(plan)
	}
	if err != nil {
		if r.awaitRoom(a) {
			return true, nil
		}
		return false, err
	}
	a.cramped = false
	var missing []wanted
	for _, i := range used {
		if s := r.sites[i]; !r.alive(s) && s.found == nil {
			missing = append(missing, s.wanted)
		}
	}
	if len(missing) > 0 {
		return r.join(missing)
	}
	return false, r.start(a, plan, used)
}

func (a *ask) procs() (n int) {
	for _, p := range a.request.Programs {
		n += p.Procs
	}
	return n
}

// batches is the ask as placement takes it; strangers are hosts it names that the run does not
// know.
func (r *run) batches(a *ask) (batches []placement.Batch, strangers []wanted, err error) {
	known := map[string]bool{}
	for i, p := range a.request.Programs {
		b := placement.Batch{Name: p.Argv[0], Procs: p.Procs, PerHost: p.PerHost}
		if err := mapBy(&b, p.MapBy); err != nil {
			return nil, nil, err
		}
		for _, t := range a.targets[i] {
			s := r.siteOf(t.name)
			if s < 0 {
				if key := strings.ToLower(t.name); !known[key] {
					known[key] = true
					strangers = append(strangers, r.stranger(t))
				}
				continue
			}
			b.On = append(b.On, placement.Share{Site: s, Slots: t.slots})
		}
		batches = append(batches, b)
	}
	return batches, strangers, nil
}

// mapBy reads "slot", "node", "ppr:N:node" or nothing.
func mapBy(b *placement.Batch, text string) error {
	text = strings.ToLower(text)
	if count, ok := strings.CutPrefix(text, "ppr:"); ok {
		if count, ok = strings.CutSuffix(count, ":node"); ok {
			if n, err := strconv.Atoi(count); err == nil && n > 0 {
				b.PerHost = n
				return nil
			}
		}
	}
	switch by := placement.MapBy(text); by {
	case "", placement.BySlot, placement.ByNode:
		b.MapBy = by
		return nil
	}
	return fmt.Errorf("mapping by %.100q is not known; use slot, node or ppr:N:node", text)
}

// start launches the job of an ask. All hosts of the plan are there.
func (r *run) start(a *ask, plan *job.Plan, used []int) error {
	if err := r.sink.Grow(len(plan.Placements)); err != nil {
		return err
	}
	taken := make([][]idset.Set, len(used))
	for i, s := range used {
		taken[i] = r.takenOn(r.sites[s].host)
	}
	placement.BindSpawned(plan, r.plan, taken, r.cfg.Policy.Binding)
	j := &jobRun{plan: plan, asked: a}
	j.apps, j.exports = r.children(a)
	for _, i := range used {
		j.hosts = append(j.hosts, r.enlist(r.sites[i]))
	}
	r.sayCrowded(plan)
	r.addJob(j)
	r.launchJob(j)
	r.cfg.Log.Debug("spawn", "job", j.number, "processes", j.size(), "by", r.rankName(a.parent))
	return nil
}

// children are the programs of an ask with what they have from the program that asked: what was
// exported on the command line, and its working directory.
func (r *run) children(a *ask) (apps []job.App, exports [][]string) {
	j := r.jobOf(a.parent)
	i := j.plan.Placements[a.parent-j.base].App
	for _, p := range a.request.Programs {
		app := job.App{Argv: p.Argv, N: p.Procs, Wdir: j.apps[i].Wdir, WdirExplicit: j.apps[i].WdirExplicit, AlsoWdir: p.AlsoDir}
		if p.Dir != "" {
			if app.WdirExplicit = true; !filepath.IsAbs(p.Dir) && app.Wdir != "" {
				p.Dir = filepath.Join(app.Wdir, p.Dir)
			}
			app.Wdir = p.Dir
		}
		app.Env = append(append(app.Env, j.exports[i]...), p.Env...)
		apps, exports = append(apps, app), append(exports, j.exports[i])
	}
	return apps, exports
}

// refuse answers an ask that comes to nothing, and tells the user.
func (r *run) refuse(a *ask, why error) {
	r.answer(a, 0, r.toldRank(a, why))
	if r.refused++; r.refused > maxRefused || r.job == jobStopping {
		return
	}
	program := "a program"
	if ps := a.request.Programs; len(ps) > 0 && len(ps[0].Argv) > 0 {
		program = fmt.Sprintf("%.200s", ps[0].Argv[0])
	}
	r.say("%s on %s could not spawn %s: %v", r.rankName(a.parent), r.host(a.host).name, program, why)
	if r.refused == maxRefused {
		r.say("further spawns that fail are not told of")
	}
}

// toldRank is what a rank is told of why its ask is refused. It may name a file that it cannot read itself: what is in
// it, and so which hosts it names, is told the user only.
func (r *run) toldRank(a *ask, why error) string {
	if r.cfg.SpawnFiles != "" && ofFiles(a.request.Programs) {
		return "the hosts of its hostfile could not be used; the launcher has told the user why"
	}
	return why.Error()
}

func (r *run) answer(a *ask, number int, why string) {
	r.send(a.host, &apiv1.Frame{Body: &apiv1.Frame_SpawnResult{SpawnResult: &apiv1.SpawnResult{
		Id: a.id, Job: uint32(number), Error: why}}})
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
		r.hub.rankOver(id, why)
		ids.Add(id)
	}
	r.settled(j, ids.Len())
	r.cfg.Log.Debug("not started", "host", r.host(h).name, "ids", ids.String())
}

// end kills a process of a job that was dropped.
func (r *run) end(id int) {
	const kill = 9
	r.send(r.places.hostOf(id), &apiv1.Frame{Body: &apiv1.Frame_Signal{Signal: &apiv1.Signal{Number: kill, Ranks: []uint32{uint32(id)}}}})
}
