package run

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/frameworks"
	"github.com/mpiup/mpiup/internal/idset"
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
	procs := make([][]*apiv1.Proc, len(r.hosts))
	across := crossRanks(j.Plan)
	for i, p := range j.Plan.Placements {
		h := j.Hosts[p.Host]
		procs[h] = append(procs[h], &apiv1.Proc{Rank: uint32(p.Rank), App: uint32(p.App),
			LocalRank: uint32(p.LocalRank), NodeRank: uint32(p.Host), Cpus: p.CPUs.String(),
			CrossRank: across[i].rank, CrossSize: across[i].size})
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
		NoTopologyHint: r.cfg.NoTopologyHint, Await: r.awaits(j), Window: uint32(r.window()), Pty: r.cfg.Pty, WorkerLogs: r.cfg.WorkerLogs,
		GraceMs: uint64(r.cfg.Grace.Milliseconds()), Net: r.cfg.Net.String(), MpiPorts: r.cfg.MPIPorts.String(), Fabric: r.fabric(), Meeting: r.meeting(j),
		GpusPerRank: uint32(r.cfg.GPUs.PerRank), GpuBind: r.cfg.GPUs.Bind(), Expand: r.cfg.Expand, Explain: uint32(r.cfg.Explain),
		Restarts: uint32(r.cfg.Preempt.Restarts + r.cfg.Restarts), MaxRestarts: uint32(r.cfg.MaxRestarts), Failures: uint32(r.cfg.Failures), PreemptSignal: uint32(r.cfg.Preempt.Signal), CheckpointDir: r.cfg.Preempt.CheckpointDir,
		ActivityMs: uint32(r.cfg.activityEvery().Milliseconds()), Flight: r.cfg.flightUse(),
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

func (r *briefing) fabric() *apiv1.Fabric {
	w := r.cfg.Fabric
	return &apiv1.Fabric{Use: string(w.Fabric), Nccl: w.NCCL.String(), NoHints: w.NoHints}
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

// tensorFlowRanks is how many ranks of one host may have a port of TensorFlow's.
const tensorFlowRanks = 64

// MeetingPorts is how many ports agents are asked to reserve before it is known where rank 0 will be.
func MeetingPorts(set frameworks.Set) uint32 {
	n := uint32(set.Ports())
	if set&frameworks.TensorFlow != 0 {
		n += tensorFlowRanks
	}
	return n
}

// meeting is where the ranks of the run's first job find each other; nil where frameworks are told
// nothing. Spawned jobs are MPI's own.
func (r *briefing) meeting(j *jobRun) *apiv1.Meeting {
	set := r.cfg.Frameworks
	switch {
	case j.Number > 0 || r.cfg.Exec != nil || r.cfg.Linger:
		return nil
	case set == frameworks.None, r.cfg.Adopted: // whose ranks have been told
		return &apiv1.Meeting{Watch: true}
	}
	m := &apiv1.Meeting{Frameworks: uint32(set), OnePerHost: len(j.Hosts) == j.Size(), Watch: true, Nodes: uint32(r.cfg.Nodes), Node: uint32(r.cfg.Node)}
	first := j.Hosts[j.Plan.Placements[0].Host]
	if host := r.hosts[first].Meets; host.IsValid() {
		m.Host = host.String()
	}
	free := r.hosts[first].Ports
	take := func(one frameworks.Set) (p uint32) {
		if set&one != 0 && len(free) > 0 {
			p, free = free[0], free[1:]
		}
		return p
	}
	m.Torch, m.Jax = take(frameworks.Torch), take(frameworks.JAX)
	if set&frameworks.TensorFlow != 0 {
		m.Tf = r.tensorFlow(j)
	}
	r.sayUnmet(j, m)
	return m
}

// sayUnmet tells which frameworks' ranks cannot meet: of those that nobody asked for by name, once ranks have loaded them.
func (r *briefing) sayUnmet(j *jobRun, m *apiv1.Meeting) {
	set := r.cfg.Frameworks
	host := r.hosts[j.Hosts[j.Plan.Placements[0].Host]].Name
	from := "no port is free there"
	if !r.cfg.MPIPorts.IsZero() {
		from = "no port of --mpi-ports " + r.cfg.MPIPorts.String() + " is free there; widen it by two"
	}
	r.unmet = map[string]string{}
	lack := func(framework string, asked bool, text string) {
		if r.unmet[framework] = text; asked {
			r.loaded(framework)
		}
	}
	for _, f := range []struct {
		name, what, variable string
		wanted, asked        bool
		port                 uint32
	}{
		{"torch", "MASTER_PORT", "MASTER_PORT", set&frameworks.Torch != 0, set&frameworks.Torchrun != 0 || set&frameworks.Auto != frameworks.Auto, m.Torch},
		{"JAX", "port to meet at", "JAX_COORDINATOR_ADDRESS", set&frameworks.JAX != 0, set&frameworks.JAXAlways != 0, m.Jax},
	} {
		switch {
		case f.wanted && m.Host == "":
			lack(f.name, f.asked, fmt.Sprintf("ranks of %s get no address to meet at: that of host %s is unknown; give it with -x MASTER_ADDR=", f.name, host))
		case f.wanted && f.port == 0:
			lack(f.name, f.asked, fmt.Sprintf("ranks of %s get no %s on host %s: %s, or give one with -x %s=", f.name, f.what, host, from, f.variable))
		}
	}
	if set&frameworks.TensorFlow != 0 && len(m.Tf) == 0 {
		r.say("ranks get no TF_CONFIG: a host has fewer than one free port for each of its ranks (at most %d)", tensorFlowRanks)
	}
}

// loaded says, once, that ranks of a framework which some have loaded cannot meet.
func (r *briefing) loaded(framework string) {
	if text := r.unmet[framework]; text != "" {
		delete(r.unmet, framework)
		r.say("%s", text)
	}
}

// tensorFlow is the address and port of each rank, of ports that follow the first ones; nil where a host has
// too few.
func (r *briefing) tensorFlow(j *jobRun) []string {
	list := make([]string, j.Size())
	skip := r.cfg.Frameworks.Ports()
	for i, p := range j.Plan.Placements {
		h := j.Hosts[p.Host]
		ports, addr := r.hosts[h].Ports, r.hosts[h].Meets
		if skip+p.LocalRank >= len(ports) || !addr.IsValid() {
			return nil
		}
		list[i] = netip.AddrPortFrom(addr, uint16(ports[skip+p.LocalRank])).String()
	}
	return list
}

// cross is where a process stands among those of its local rank on other hosts, as Horovod counts.
type cross struct{ rank, size uint32 }

// crossRanks is that of each placement.
func crossRanks(plan *job.Plan) []cross {
	hosts := map[int][]int{} // of a local rank, in the order of the job's
	for _, p := range plan.Placements {
		hosts[p.LocalRank] = append(hosts[p.LocalRank], p.Host)
	}
	for _, list := range hosts {
		slices.Sort(list)
	}
	out := make([]cross, len(plan.Placements))
	for i, p := range plan.Placements {
		list := hosts[p.LocalRank]
		at, _ := slices.BinarySearch(list, p.Host)
		out[i] = cross{uint32(at), uint32(len(list))}
	}
	return out
}

// heir is what the run owes the launcher after this one, and has from the one before.
//
//	all ranks run ─offer─▶ Hold{journal} to every host ─▶ another may take over; each host gets it anew every hour, since what is old is not believed
//	a rank spawns, publishes, ends others ─withdraw─▶ Hold{withdrawn}: what comes of that, no journal has
//
//	Adopt ─▶ hosts are awaited ─Resumed from each─▶ said: what runs, and what output is lost
type heir struct {
	shared
	cfg       *Config
	offered   bool         // hosts have the journal
	withdrawn bool         // nobody can take over
	wired     bool         // by the launcher before
	round     int          // of renewals
	awaited   map[int]bool // hosts that have not said how it stands; nil: this launcher has begun the run
	dropped   idset.Set    // ids of which output is lost
	bytes     uint64       // how much
	lost      time.Duration
}

// offer gives hosts what another launcher needs.
func (h *heir) offer(now time.Time) {
	if h.offered || h.withdrawn || h.cfg.Hold == nil {
		return
	}
	h.offered = true
	h.set(Renewal, renewEvery)
	if hold := h.cfg.Hold(now); hold != nil {
		for _, at := range h.live() {
			h.send(at, hold.Frame())
		}
	}
}

// A host's journal is renewed every Renewed, and those of many hosts are not under way at one time.
const (
	renewRounds = 60
	renewEvery  = Renewed / renewRounds

	// Renewed is how old a journal of a launcher that lives may be.
	Renewed = time.Hour
)

// renew gives the hosts whose turn it is a journal of now.
func (h *heir) renew(now time.Time) {
	if h.withdrawn {
		return
	}
	h.set(Renewal, renewEvery)
	h.round++
	var hold *apiv1.Hold
	for _, at := range h.live() {
		if at%renewRounds != h.round%renewRounds {
			continue
		}
		if hold == nil {
			if hold = h.cfg.Hold(now); hold == nil {
				return
			}
		}
		h.send(at, hold.Frame())
	}
}

// withdraw tells hosts, and the user, that no launcher can take over any more.
func (h *heir) withdraw(why string) {
	if h.withdrawn || h.cfg.Hold == nil && !h.cfg.Adopted {
		return
	}
	h.withdrawn = true
	if h.offered {
		for _, at := range h.live() {
			h.send(at, (&apiv1.Hold{Withdrawn: why}).Frame())
		}
	}
	h.say("%s: only this launcher knows what comes of that, so from now on the ranks end if it is lost (--on-launcher-loss fence)", why)
}

// begin waits for every host.
func (h *heir) begin() {
	if h.cfg.Hold != nil {
		h.set(Renewal, renewEvery)
	}
	h.awaited = map[int]bool{}
	for at := range h.hosts {
		h.awaited[at] = true
	}
}

// resumed takes how a host stands.
func (h *heir) resumed(at int, m *apiv1.Resumed) error {
	if !h.awaited[at] {
		return errors.New("told how it stands, which nobody asked")
	}
	for _, d := range m.Dropped {
		if d == nil || !h.who.Owns(at, d.Rank) {
			return fmt.Errorf("output of process %d is dropped, which is not there", d.GetRank())
		}
		h.dropped.Add(int(d.Rank))
		h.bytes += min(d.Bytes, 1<<40)
	}
	h.lost = max(h.lost, time.Duration(min(m.LostMs, uint64(24*time.Hour/time.Millisecond)))*time.Millisecond)
	return nil
}

// heard counts a host that has said how it stands, or that is gone. After the last one the user is told.
func (h *heir) heard(at int) {
	if h.awaited[at] {
		if delete(h.awaited, at); len(h.awaited) == 0 {
			h.say("took the run over: its ranks had no launcher for %v", h.lost.Round(100*time.Millisecond))
		}
	}
	if len(h.awaited) == 0 && h.bytes > 0 {
		h.say("output of %s is lost: %s that they wrote while no launcher was there; of each the last is kept, as much as one may have under way",
			h.named(h.dropped), visible.Count(int(min(h.bytes, 1<<62)), "byte"))
		h.dropped, h.bytes = idset.Set{}, 0
	}
}
