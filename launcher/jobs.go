package launcher

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"slices"

	"google.golang.org/protobuf/proto"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/launcher/mixture"
	"github.com/mpiup/mpiup/launcher/reach"
	"github.com/mpiup/mpiup/launcher/remains/report"
	"github.com/mpiup/mpiup/launcher/spawn"
)

// jobRun is one job of a run: the command line's, or one that a rank spawned.
type jobRun struct {
	number  int // 0: the command line's
	base    int // id of rank 0
	plan    *job.Plan
	hosts   []int // index in the run of each of plan.Hosts
	apps    []job.App
	exports [][]string // by app: the environment that jobs it spawns begin with
	asked   *spawn.Ask // nil: the command line's
	told    *apiv1.Job
	silent  int          // processes whose start was not heard of
	left    int          // processes that are not over
	spoke   bool         // one of them has spoken PMI or PMIx
	mixture *mixture.Job // what its agents say of MPI libraries; nil: nothing yet
	waiting []int        // hosts, by index, whose agents wait for our word on that
	warned  bool         // that they may not go together
	dropped bool         // one of it could not be started: what did start is ended, and fails nobody
}

func (j *jobRun) size() int { return len(j.plan.Placements) }

// jobOf is the job of a process.
func (r *run) jobOf(id int) *jobRun {
	i, same := slices.BinarySearchFunc(r.jobs, id, func(j *jobRun, id int) int { return j.base - id })
	if !same {
		i--
	}
	return r.jobs[i]
}

// rankName is how users know a process.
func (r *run) rankName(id int) string { return r.process(id).String() }

func (r *run) process(id int) job.Process {
	j := r.jobOf(id)
	return job.Process{Job: j.number, Rank: id - j.base}
}

// addJob gives a job its ids. Its hosts and the place for its output are there.
func (r *run) addJob(j *jobRun) {
	j.number, j.base, j.silent, j.left = len(r.jobs), r.places.ids(), j.size(), j.size()
	hostOf := make([]int, j.size())
	for i, p := range j.plan.Placements {
		hostOf[i] = j.hosts[p.Host]
		r.at[hostOf[i]].created++
	}
	r.jobs = append(r.jobs, j)
	r.ranks = append(r.ranks, make([]rankInfo, j.size())...)
	r.places.grow(hostOf)
	r.back.grow(j.size(), r.window())
	r.exchange.Grow(hostOf, len(r.places.hosts()))
	r.report(j)
}

// report notes a job in the run's report.
func (r *run) report(j *jobRun) {
	programs, ranks := make([]report.Program, len(j.apps)), make([]report.Rank, j.size())
	for i, a := range j.apps {
		programs[i] = report.Program{Argv: a.Argv, Env: slices.Clone(a.Env)}
	}
	for i, p := range j.plan.Placements {
		ranks[i] = report.Rank{Job: j.number, Rank: int(p.Rank), Host: r.host(j.hosts[p.Host]).Name, Program: p.App, CPUs: p.CPUs.String()}
	}
	r.remains.Launched(r.opener.Run, programs, ranks, fmt.Sprintf("%d ranks on %s: %s", j.size(), reach.HostCount(len(j.hosts)), filepath.Base(j.apps[0].Argv[0])))
}

// settled notes that processes of a job are over. Of a spawned job of which none is left, the hosts are
// told, and what it held is let go: a run may have many thousands.
func (r *run) settled(j *jobRun, n int) {
	if j.left -= n; n == 0 || j.left > 0 || j.asked == nil {
		return
	}
	r.overJobs++
	over := &apiv1.JobOver{Job: uint32(j.number), Mute: !j.spoke && !j.dropped}
	r.live(func(h int) { r.send(h, &apiv1.Frame{Body: &apiv1.Frame_JobOver{JobOver: over}}) })
	r.exchange.JobOver(j.base, j.size())
	j.told, j.exports = nil, nil
	for i := range j.apps {
		j.apps[i].Env = nil
	}
	j.asked = &spawn.Ask{Host: j.asked.Host, ID: j.asked.ID, Parent: j.asked.Parent}
}

// over says that no process of a spawned job is left.
func (j *jobRun) over() bool { return j.asked != nil && j.left == 0 }

// launchJob sends each host of the run its part of a job: its processes, or that there is such
// a job.
func (r *run) launchJob(j *jobRun) {
	j.told = r.describe(j)
	procs := make([][]*apiv1.Proc, len(r.places.hosts()))
	across := crossRanks(j.plan)
	for i, p := range j.plan.Placements {
		h := j.hosts[p.Host]
		procs[h] = append(procs[h], &apiv1.Proc{Rank: uint32(p.Rank), App: uint32(p.App),
			LocalRank: uint32(p.LocalRank), NodeRank: uint32(p.Host), Cpus: p.CPUs.String(),
			CrossRank: across[i].rank, CrossSize: across[i].size})
	}
	apps := j.launchApps(true)
	if j.number == 0 {
		for i, a := range apps {
			a.Copied = r.sources.Program(i)
		}
	}
	r.live(func(h int) {
		if len(procs[h]) == 0 {
			r.sendKnown(h, j)
			return
		}
		l := r.part(j.told, apps)
		l.Procs, l.Stdin = procs[h], r.stdinOn(j, h)
		if j.number == 0 {
			l.Files = r.sources.Announced()
		}
		if j.asked != nil {
			for _, kv := range j.asked.Request.Preput {
				l.Preput = append(l.Preput, &apiv1.KeyValue{Key: kv.Key, Value: kv.Value})
			}
		}
		if r.exec != nil {
			l.Exec = r.exec.asked()
		}
		r.send(h, l.Frame())
	})
}

// sendKnown tells a host of a job that has no process there, so that its ranks may connect to it.
func (r *run) sendKnown(h int, j *jobRun) {
	d := j.told
	if d.Spawned && r.jobOf(int(d.Parent)).over() { // a host that joins is not told of that job
		d = proto.CloneOf(d)
		d.Spawned, d.Parent = false, 0
	}
	r.send(h, r.part(d, j.launchApps(false)).Frame())
}

// describe is what all hosts are told of a job alike.
func (r *run) describe(j *jobRun) *apiv1.Job {
	nodes := make([]int, j.size())
	for i, p := range j.plan.Placements {
		nodes[i] = p.Host
	}
	d := &apiv1.Job{
		Id: r.opener.Run, Number: uint32(j.number), Base: uint32(j.base), Size: uint32(j.size()), Hosts: uint32(len(j.hosts)),
		Universe: uint32(r.universe()), PmiUniverse: uint32(r.pmiUniverse()), Mapping: job.ProcessMapping(nodes), Pmi: r.cfg.PMI,
		NoTopologyHint: r.cfg.NoTopologyHint, Await: r.awaits(j), Window: uint32(r.window()), Pty: r.cfg.pty(), WorkerLogs: r.cfg.WorkerLogs,
		GraceMs: uint64(r.cfg.Grace.Milliseconds()), Net: r.cfg.Net.String(), MpiPorts: r.cfg.MPIPorts.String(), Fabric: r.cfg.Fabric, Meeting: r.meeting(j),
		GpusPerRank: uint32(r.cfg.GPUsPerRank), GpuBind: r.cfg.GPUBind, Expand: r.cfg.Expand, Explain: uint32(r.cfg.Explain),
	}
	if j.asked != nil {
		d.Spawned, d.Parent = true, uint32(j.asked.Parent)
	}
	if len(j.apps) > 1 {
		for _, p := range j.plan.Placements {
			d.AppOf = append(d.AppOf, uint32(p.App))
		}
	}
	if r.pmix() {
		d.Namespace, d.Layout = newNamespace(), r.layout(j)
	}
	return d
}

// newNamespace is a job's name in PMIx, of 128 random bits: who knows it was told by the job.
func newNamespace() string {
	var b [16]byte
	rand.Read(b[:])
	return "mpiup-" + hex.EncodeToString(b[:])
}

// pmix says that ranks may speak PMIx.
func (r *run) pmix() bool {
	return r.cfg.PMI == apiv1.Pmi_PMI_PMIX || r.cfg.PMI == apiv1.Pmi_PMI_AUTO
}

// part is a host's Launch of a job, which lacks what is for that host.
func (r *run) part(d *apiv1.Job, apps []*apiv1.App) *apiv1.Launch {
	return &apiv1.Launch{Number: r.number, NumberProof: r.proof, Job: d, Apps: apps}
}

// layout is which ranks of a job are where. Host names are those the agents state, which are
// what gethostname(2) says there.
func (r *run) layout(j *jobRun) []*apiv1.HostRanks {
	ranks := make([]idset.Set, len(j.hosts))
	for _, p := range j.plan.Placements {
		ranks[p.Host].Add(int(p.Rank))
	}
	out := make([]*apiv1.HostRanks, len(j.hosts))
	for i, h := range j.hosts {
		out[i] = &apiv1.HostRanks{Name: r.host(h).First.Opened.Host.GetName(), Ranks: ranks[i].String()}
	}
	return out
}

// launchApps are a job's programs, for hosts that do not run them without their environment.
func (j *jobRun) launchApps(whole bool) []*apiv1.App {
	apps := make([]*apiv1.App, len(j.apps))
	for i, a := range j.apps {
		apps[i] = &apiv1.App{Argv: a.Argv, Wdir: a.Wdir, WdirExplicit: a.WdirExplicit, Path: a.Path, AlsoWdir: a.AlsoWdir, IndexArgv: a.IndexArgv, SessionDir: a.SessionDir}
		for _, tool := range a.Tools {
			apps[i].Tools = append(apps[i].Tools, &apiv1.Tool{Argv: tool.Argv, Ranks: tool.Ranks.String()})
		}
		if whole {
			apps[i].Env = a.Env
		}
	}
	return apps
}

// pmiUniverse is what ranks of MPICH and its kin are told; 0: that nobody knows, as Hydra says unless it is
// given a number, and with which their programs may spawn.
func (r *run) pmiUniverse() int {
	switch slots := 0; r.cfg.Universe {
	case UniverseUnknown:
		return 0
	case UniverseGiven:
		for _, s := range r.sites {
			if !s.SlotsGiven {
				return 0
			}
		}
		return r.universe()
	case UniverseSystem:
		for _, s := range r.sites {
			if s.SlotsGiven {
				slots += s.Slots
			} else {
				slots++
			}
		}
		return slots
	}
	return r.cfg.Universe
}

// universe is the number of slots of the hosts that jobs may be placed on (MPI_UNIVERSE_SIZE).
func (r *run) universe() int {
	if r.cfg.Universe > 0 {
		return r.cfg.Universe
	}
	slots := 0
	for _, s := range r.sites {
		slots += s.Slots
	}
	return max(slots, r.plan.Universe)
}
