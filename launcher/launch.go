package launcher

import (
	"sync"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/wire"
	"github.com/mpiup/mpiup/launcher/iof"
	"github.com/mpiup/mpiup/pmi"
	"github.com/mpiup/mpiup/pmi/pmix"
)

// starHosts is the number of hosts above which the user is told that the exchange is a star.
const starHosts = 32

// sayStar tells, at the first fence, that the star is used.
func (r *run) sayStar() {
	if len(r.hosts) > starHosts && !r.starred {
		r.starred = true
		r.say("%d hosts: the ranks' exchange goes through the launcher (a star), which serves a few dozen hosts well", len(r.hosts))
	}
}

// prepare makes the run's parts from the plan: host connections, output, input, hub.
func (r *run) prepare(have []found, o *opener) error {
	byName := map[string]found{}
	for _, f := range have {
		byName[f.entry.Name] = f
	}
	n := len(r.plan.Hosts)
	r.ranks = make([]rankInfo, len(r.plan.Placements))
	r.created, r.running, r.outputs = make([]int, n), make([]int, n), make([]int, n)
	r.byes, r.dropped, r.ending = make([]bool, n), make([]bool, n), make([]string, n)
	hostOf := make([]int, len(r.plan.Placements))
	for i, p := range r.plan.Placements {
		hostOf[i] = p.Host
		r.created[p.Host]++
	}
	d := newDialer(r.cfg.Identity, n)
	for i, h := range r.plan.Hosts {
		r.hosts = append(r.hosts, r.newHost(i, byName[h.Name], d, o))
		delete(byName, h.Name)
	}
	for _, unused := range byName {
		closeAll([]found{unused})
	}
	r.active = n
	r.hub = newHub(hostOf, n, r.send)
	if err := r.prepareOutput(hostOf); err != nil {
		return err
	}
	return r.prepareInput()
}

func (r *run) newHost(i int, f found, d *dialer, o *opener) *hostConn {
	h := &hostConn{
		index: i, name: r.plan.Hosts[i].Name, first: f.session, wait: f.wait, attach: d.attach, timeout: r.cfg.NodeTimeout,
		link: wire.NewLink(wire.Config{Clock: r.clock}), clock: r.clock,
		tick: make(chan struct{}, 1), over: make(chan struct{}),
		deliver: func(fr *apiv1.Frame) error { return r.deliver(i, fr) },
	}
	if f.wait != nil {
		h.attach = nil
	}
	h.open = o.open()
	h.open.Session, h.open.Secret = f.session.id, f.session.secret
	return h
}

// tickHosts passes a step of the clock on to every host's connection.
func (r *run) tickHosts() {
	for _, h := range r.hosts {
		select {
		case h.tick <- struct{}{}:
		default:
		}
	}
}

func (r *run) prepareOutput(hostOf []int) error {
	out := r.cfg.Output
	if out.Stdout == nil {
		out.Stdout = r.cfg.Stdout
	}
	if out.Stderr == nil {
		out.Stderr = r.cfg.Stderr
	}
	out.Ranks = len(r.ranks)
	out.Host = func(rank int) string { return r.hosts[hostOf[rank]].name }
	out.Written = func(rank, n int) { r.back.written(rank, n) }
	out.Broken = func(err error) { r.mail.put(event{host: -1, err: err, at: r.clock.Now()}) }
	r.back = credits{
		due: max(r.window()/4, 1), owed: make([]int, len(r.ranks)),
		send: func(rank, n int) {
			r.send(hostOf[rank], &apiv1.Frame{Body: &apiv1.Frame_Credit{Credit: &apiv1.Credit{Rank: uint32(rank), Bytes: uint32(n)}}})
		},
	}
	sink, err := iof.New(out)
	if err != nil {
		return failf(job.ExitUsage, "output: %v", err)
	}
	r.sink = sink
	return nil
}

// Windows of output: what all ranks together may have under way when nobody reads, and what
// one may have.
const (
	allWindows = 64 << 20
	maxWindow  = 1 << 20
	minWindow  = 64 << 10
)

// window is the bytes of output that one rank may have under way.
func (r *run) window() int {
	if r.cfg.Window > 0 {
		return r.cfg.Window
	}
	return min(max(allWindows/len(r.ranks), minWindow), maxWindow)
}

// credits gathers written bytes into few frames.
type credits struct {
	due  int // bytes owed to a rank that are worth a frame
	send func(rank, n int)

	mu   sync.Mutex
	owed []int // by rank, guarded by mu
}

func (c *credits) written(rank, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.owed[rank] += n; c.owed[rank] >= c.due {
		c.send(rank, c.owed[rank])
		c.owed[rank] = 0
	}
}

func (r *run) prepareInput() error {
	targets, err := iof.Targets(r.cfg.StdinTarget, len(r.ranks))
	if err != nil {
		return failf(job.ExitUsage, "%v", err)
	}
	if r.cfg.Stdin == nil || len(targets) == 0 {
		return nil
	}
	byHost := make([][]uint32, len(r.hosts))
	r.feed, r.hungry = make(chan struct{}), map[int]bool{}
	for _, t := range targets {
		r.hungry[t] = true
		h := r.plan.Placements[t].Host
		byHost[h] = append(byHost[h], uint32(t))
	}
	r.input = iof.NewInput(iof.InputConfig{File: r.cfg.Stdin, Targets: targets, Send: func(data []byte, eof bool) {
		for h, ranks := range byHost {
			if len(ranks) > 0 {
				r.send(h, &apiv1.Frame{Body: &apiv1.Frame_Input{Input: &apiv1.Input{Data: data, Eof: eof}}})
			}
		}
	}})
	return nil
}

// launch sends each host its part of the job.
func (r *run) launch(number uint64) {
	apps := make([]*apiv1.App, len(r.cfg.Apps))
	for i, a := range r.cfg.Apps {
		apps[i] = &apiv1.App{Argv: a.Argv, Env: a.Env, Wdir: a.Wdir, WdirExplicit: a.WdirExplicit}
	}
	nodes := make([]int, len(r.plan.Placements))
	procs := make([][]*apiv1.Proc, len(r.hosts))
	for i, p := range r.plan.Placements {
		nodes[i] = p.Host
		procs[p.Host] = append(procs[p.Host], &apiv1.Proc{Rank: uint32(p.Rank), App: uint32(p.App),
			LocalRank: uint32(p.LocalRank), NodeRank: uint32(p.Host)})
	}
	mapping := pmi.ProcessMapping(nodes)
	jobID := r.hosts[0].open.Session[:16]
	stdin := map[int][]uint32{}
	if r.input != nil {
		targets, _ := iof.Targets(r.cfg.StdinTarget, len(r.ranks)) // was fine in prepareInput
		for _, t := range targets {
			stdin[nodes[t]] = append(stdin[nodes[t]], uint32(t))
		}
	}
	namespace, layout := r.pmix(procs)
	for i := range r.hosts {
		l := &apiv1.Launch{
			Number: number, JobId: jobID, Size: uint32(len(r.ranks)), Universe: uint32(r.plan.Universe), Hosts: uint32(len(r.hosts)),
			Mapping: mapping, Apps: apps, Procs: procs[i], Pmi: r.cfg.PMI, Window: uint32(r.window()),
			GraceMs: uint64(r.cfg.Grace.Milliseconds()), Stdin: stdin[i], WorkerLogs: r.cfg.WorkerLogs,
			Namespace: namespace, Layout: layout,
		}
		if r.exec != nil {
			r.exec.terminal(l)
		}
		r.send(i, &apiv1.Frame{Body: &apiv1.Frame_Launch{Launch: l}})
	}
	r.warnVersions()
}

// pmix is what PMIx servers know of the whole job: its namespace and who is where. Host names
// are those the agents state, which are what gethostname(2) says there.
func (r *run) pmix(procs [][]*apiv1.Proc) (namespace string, layout []*apiv1.HostRanks) {
	if r.cfg.PMI != apiv1.Pmi_PMI_PMIX {
		return "", nil
	}
	for i, h := range r.hosts {
		var ranks idset.Set
		for _, p := range procs[i] {
			ranks.Add(int(p.Rank))
		}
		layout = append(layout, &apiv1.HostRanks{Name: h.first.opened.Host.GetName(), Ranks: ranks.String()})
	}
	return pmix.NewNamespace("mpiup"), layout
}

// warnVersions says once when builds of one protocol mix.
func (r *run) warnVersions() {
	others := map[string][]string{}
	for _, h := range r.hosts {
		if v := h.first.opened.Version; v != r.cfg.Version {
			others[v] = append(others[v], h.name)
		}
	}
	for v, names := range others {
		r.say("%s (%s) has mpiup %s, this is %s: they speak one protocol, but use one build everywhere",
			names[0], hostCount(len(names)), orUnknown(v), orUnknown(r.cfg.Version))
	}
}

// last prints a failure's last lines, mirrors them to the termination log, and returns code.
// tail is what the rank at fault wrote last; the terminal has shown it already.
func (r *Reach) last(code int, lines, tail []string) int {
	for _, l := range lines {
		r.say("%s", l)
	}
	writeTermination(r.TerminationLog, code, lines, tail)
	return code
}
