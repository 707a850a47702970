package run

import (
	"google.golang.org/protobuf/proto"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/visible"
)

// briefing makes what hosts are told of jobs.
type briefing struct {
	cfg *Config
	shared
	sites *sites
	unmet map[string]string // what is to be said once ranks have loaded a framework
}

// launch sends each host of the run its part of a job: its processes, or that there is such a job.
func (r *briefing) launch(j *jobRun) {
	j.told = r.describe(j)
	procs, across := make([][]*apiv1.Proc, len(r.hosts)), j.Plan.Across()
	for i, p := range j.Plan.Placements {
		h := j.Hosts[p.Host]
		procs[h] = append(procs[h], &apiv1.Proc{Rank: uint32(p.Rank), App: uint32(p.App),
			LocalRank: uint32(p.LocalRank), NodeRank: uint32(p.Host), Cpus: p.CPUs.String(),
			CrossRank: uint32(across[i].Rank), CrossSize: uint32(across[i].Size)})
	}
	apps := j.launchApps(true)
	for _, h := range r.live() {
		if len(procs[h]) == 0 {
			r.known(h, j)
			continue
		}
		l := r.part(j.told, apps)
		l.Procs, l.Exec = procs[h], r.cfg.Exec
		if j.Number == 0 {
			l.Stdin, l.Files = r.inputOn(h), r.cfg.Files
			for i := range min(len(apps), len(r.cfg.Copied)) {
				apps[i].Copied = r.cfg.Copied[i]
			}
		}
		if j.asked != nil {
			for _, kv := range j.asked.Request.Preput {
				l.Preput = append(l.Preput, &apiv1.KeyValue{Key: kv.Key, Value: kv.Value})
			}
		}
		r.send(h, l.Frame())
	}
}

// inputOn are the ranks on a host that get our standard input.
func (r *briefing) inputOn(h int) (ranks []uint32) {
	for _, id := range r.cfg.Input {
		if r.who.HostOf(id) == h {
			ranks = append(ranks, uint32(id))
		}
	}
	return ranks
}

// known tells a host of a job that has no process there, so that its ranks may connect to it.
func (r *briefing) known(h int, j *jobRun) {
	d := j.told
	if d.Spawned && r.jobOf(int(d.Parent)).over() { // a host that joins is not told of that job
		d = proto.CloneOf(d)
		d.Spawned, d.Parent = false, 0
	}
	r.send(h, r.part(d, j.launchApps(false)).Frame())
}

// describe is what all hosts are told of a job alike.
func (r *briefing) describe(j *jobRun) *apiv1.Job {
	nodes := make([]int, j.Size())
	for i, p := range j.Plan.Placements {
		nodes[i] = p.Host
	}
	d := &apiv1.Job{
		Id: r.cfg.ID, Number: uint32(j.Number), Base: uint32(j.Base), Size: uint32(j.Size()), Hosts: uint32(len(j.Hosts)),
		Universe: uint32(r.universe()), PmiUniverse: uint32(r.pmiUniverse()), Mapping: job.ProcessMapping(nodes), Pmi: apiv1.Pmi(r.cfg.PMI),
		NoTopologyHint: r.cfg.NoTopologyHint, Await: r.awaits(j), Window: uint32(r.window()), Pty: r.cfg.Pty, PtyRows: uint32(r.cfg.Rows), PtyColumns: uint32(r.cfg.Columns), WorkerLogs: r.cfg.WorkerLogs,
		GraceMs: uint64(r.cfg.Grace.Milliseconds()), Net: r.cfg.Net.String(), MpiPorts: r.cfg.MPIPorts.String(), Meeting: r.meeting(j),
		Fabric:      &apiv1.Fabric{Use: string(r.cfg.Fabric.Fabric), Nccl: r.cfg.Fabric.NCCL.String(), NoHints: r.cfg.Fabric.NoHints},
		GpusPerRank: uint32(r.cfg.GPUs.PerRank), GpuBind: r.cfg.GPUs.Bind(), Expand: r.cfg.Expand, Explain: uint32(r.cfg.Explain),
		Restarts: uint32(r.cfg.Preempt.Restarts + r.cfg.Restarts), MaxRestarts: uint32(r.cfg.MaxRestarts), Failures: uint32(r.cfg.Failures),
		PreemptSignal: uint32(r.cfg.Preempt.Signal), CheckpointDir: r.cfg.Preempt.CheckpointDir,
		ActivityMs: uint32(r.cfg.activityEvery().Milliseconds()), MemoryMs: uint32(r.cfg.memoryEvery().Milliseconds()), Flight: r.cfg.flightUse(), WatchMs: r.cfg.watchEvery(),
		Progress: r.cfg.Stall.Progress.On() && r.cfg.Exec == nil && j.Number == 0, Seats: r.cfg.Exec == nil && j.Number == 0,
		AloneOk: r.cfg.AloneOK, ShellTexts: r.cfg.ShellTexts, TellUse: r.cfg.Exec == nil,
		Trace: r.cfg.Preempt.Trace.Attempt(r.cfg.Restarts).String(), TraceState: r.cfg.Preempt.Trace.State,
	}
	if g := r.cfg.Guess; g.Why != "" && r.cfg.PMI == job.AutoProtocol {
		d.Guess = &apiv1.Guess{Pmi: apiv1.Pmi(g.Protocol), Firm: g.Firm, Why: visible.Line(g.Why)}
	}
	if j.asked != nil {
		d.Spawned, d.Parent = true, uint32(j.asked.Parent)
	}
	if len(j.apps) > 1 {
		for _, p := range j.Plan.Placements {
			d.AppOf = append(d.AppOf, uint32(p.App))
		}
	}
	if r.pmix() {
		d.Namespace, d.Layout = r.cfg.Namespace(), r.layout(j)
	}
	return d
}

// pmix says that ranks may speak PMIx.
func (r *briefing) pmix() bool {
	return r.cfg.PMI == job.PMIx || r.cfg.PMI == job.AutoProtocol
}

// part is a host's Launch of a job, which lacks what is for that host.
func (r *briefing) part(d *apiv1.Job, apps []*apiv1.App) *apiv1.Launch {
	return &apiv1.Launch{Number: r.cfg.Number, NumberProof: r.cfg.Proof, Job: d, Apps: apps}
}

// layout is which ranks of a job are where. Host names are those the agents state, which are
// what gethostname(2) says there.
func (r *briefing) layout(j *jobRun) []*apiv1.HostRanks {
	out := make([]*apiv1.HostRanks, len(j.Hosts))
	for i, ranks := range j.Plan.On() {
		out[i] = &apiv1.HostRanks{Name: r.hosts[j.Hosts[i]].Stated, Ranks: ranks.String()}
	}
	return out
}

// launchApps are a job's programs, for hosts that do not run them without their environment.
func (j *jobRun) launchApps(whole bool) []*apiv1.App {
	apps := make([]*apiv1.App, len(j.apps))
	for i, a := range j.apps {
		apps[i] = &apiv1.App{Argv: a.Argv, Wdir: a.Wdir, WdirExplicit: a.WdirExplicit, Path: a.Path, AlsoWdir: a.AlsoWdir,
			IndexArgv: a.IndexArgv, SessionDir: a.SessionDir}
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
func (r *briefing) pmiUniverse() int {
	switch slots := 0; r.cfg.Universe {
	case UniverseUnknown:
		return 0
	case UniverseGiven:
		for _, s := range r.sites.list {
			if !s.SlotsGiven {
				return 0
			}
		}
		return r.universe()
	case UniverseSystem:
		for _, s := range r.sites.list {
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
func (r *briefing) universe() int {
	if r.cfg.Universe > 0 {
		return r.cfg.Universe
	}
	slots := 0
	for _, s := range r.sites.list {
		slots += s.Slots
	}
	return max(slots, r.cfg.Plan.Universe)
}

// Windows of output: what all ranks together may have under way when nobody reads, and what
// one may have.
const (
	allWindows = 64 << 20
	maxWindow  = 1 << 20
	minWindow  = 64 << 10
)

// window is the bytes of output that one process may have under way, of a job that is added now.
func (r *briefing) window() int {
	if r.cfg.Window > 0 {
		return r.cfg.Window
	}
	return min(max(allWindows/max(r.who.Processes(), 1), minWindow), maxWindow)
}

// awaits says that a job's agents are to wait for our word on their libraries, since there is more than one
// answer to compare: several programs, or several hosts.
func (r *briefing) awaits(j *jobRun) bool {
	return r.cfg.PMI != job.NoProtocol && r.cfg.Exec == nil && r.cfg.Explain == 0 && (len(j.apps) > 1 || len(j.Hosts) > 1)
}
