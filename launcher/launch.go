package launcher

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/launcher/copies"
	"github.com/mpiup/mpiup/launcher/exchange"
	"github.com/mpiup/mpiup/launcher/iof"
	"github.com/mpiup/mpiup/launcher/link"
	"github.com/mpiup/mpiup/launcher/reach"
	"github.com/mpiup/mpiup/launcher/remains/report"
	"github.com/mpiup/mpiup/launcher/streams"
	"github.com/mpiup/mpiup/launcher/verdict"
)

// starHosts is the number of hosts above which the user is told that the exchange is a star.
const starHosts = 32

// sayStar tells, at the first fence, that the star is used.
func (r *run) sayStar() {
	if r.active > starHosts && !r.starred { // hosts that were let go and reached anew count once
		r.starred = true
		r.say("%d hosts: the ranks' exchange goes through the launcher (a star), which serves a few dozen hosts well", r.active)
	}
}

// prepare makes the run's parts from the plan: host connections, output, input, exchange.
func (r *run) prepare(have []reach.Found, o *reach.Opener) error {
	byName := map[string]reach.Found{}
	for _, f := range have {
		byName[f.Entry.Name] = f
	}
	r.opener = o
	attach := r.dial(&r.cfg.Reach, len(r.plan.Hosts))
	r.places, r.exchange = newPlaces(), exchange.New()
	first := &jobRun{plan: r.plan, apps: r.cfg.Apps}
	for _, h := range r.plan.Hosts {
		i := r.addHost(byName[h.Name], attach)
		first.hosts = append(first.hosts, i)
		for _, s := range r.sites {
			if s.Entry.Name == h.Name {
				s.host = i
			}
		}
		delete(byName, h.Name)
	}
	for _, a := range r.cfg.Apps {
		first.exports = append(first.exports, a.Env)
	}
	for _, unused := range byName {
		reach.CloseAll([]reach.Found{unused})
	}
	if err := r.prepareOutput(); err != nil {
		return err
	}
	r.addJob(first)
	return r.prepareInput()
}

// addHost makes a host of the run from one that was found, and returns its index.
func (r *run) addHost(f reach.Found, attach link.Attach) int {
	i := len(r.places.hosts())
	open := r.opener.Open()
	open.Session, open.Secret = f.Session.Id, f.Session.Secret
	if f.Wait != nil {
		attach = nil
	}
	h := link.New(link.Config{
		Index: i, Name: f.Entry.Name, First: f.Session, Wait: f.Wait, Attach: attach, Timeout: r.cfg.NodeTimeout, Open: open, Clock: r.clock,
		Deliver: func(fr *apiv1.Frame) error { return r.deliver(i, fr) },
	})
	r.places.join(h)
	r.at = append(r.at, hostState{})
	r.active++
	r.remains.Host(reported(h))
	return i
}

// reported is a host as the run's report has it.
func reported(h *link.Conn) report.Host {
	is := h.First.Opened.GetHost()
	address := ""
	if h.First.Addr.IsValid() { // else the agent is in this process
		address = h.First.Addr.String()
	}
	return report.Host{Name: h.Name, Node: is.GetNode(), Address: address, Arch: is.GetArch(), Agent: is.GetVersion(),
		Slots: int(is.GetSlots()), CPUs: int(is.GetCpus()), GPUs: int(is.GetGpus())}
}

// tickHosts passes a step of the clock on to every host's connection.
func (r *run) tickHosts() {
	for _, h := range r.places.hosts() {
		h.Tick()
	}
}

func (r *run) prepareOutput() error {
	out := r.cfg.Output
	if out.Stdout == nil {
		out.Stdout = r.cfg.Stdout
	}
	if out.Stderr == nil {
		out.Stderr = r.cfg.Stderr
	}
	out.Ranks, out.Begun = len(r.plan.Placements), r.begun
	out.Host = func(id int) string { return r.host(r.places.hostOf(id)).Name }
	out.Node = r.places.hostOf
	out.Written = r.back.written
	out.Broken = func(err error) { r.mail.put(event{host: -1, err: err, at: r.clock.Now()}) }
	r.back.send = func(id, n int) {
		r.send(r.places.hostOf(id), (&apiv1.Credit{Rank: uint32(id), Bytes: uint32(n)}).Frame())
	}
	if out.Style == iof.OwnStyle && out.Dir != "" {
		dir, err := iof.NextAttempt(out.Dir)
		if err != nil {
			return &reach.Failure{Code: job.ExitOutput, Lines: []string{"output: " + err.Error(), verdict.WriteHint}}
		}
		if dir != out.Dir {
			r.say("%s has the output of an earlier run; this one's goes to %s", out.Dir, dir)
		}
		out.Dir = dir
	}
	sink, err := iof.New(out)
	if err != nil {
		return &reach.Failure{Code: job.ExitOutput, Lines: []string{"output: " + err.Error(), verdict.WriteHint}}
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

// window is the bytes of output that one process may have under way, of a job that is added now.
func (r *run) window() int {
	if r.cfg.Window > 0 {
		return r.cfg.Window
	}
	return min(max(allWindows/max(r.places.ids(), 1), minWindow), maxWindow)
}

// credits gathers written bytes into few frames.
type credits struct {
	send func(id, n int)

	mu   sync.Mutex
	owed []int32 // by id, guarded by mu
	due  []int32 // bytes owed to a process that are worth a frame, by id, guarded by mu
}

// grow adds n processes with that window.
func (c *credits) grow(n, window int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.owed = append(c.owed, make([]int32, n)...)
	c.due = append(c.due, slices.Repeat([]int32{int32(max(window/4, 1))}, n)...)
}

func (c *credits) written(id, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.owed[id] += int32(n); c.owed[id] >= c.due[id] {
		c.send(id, int(c.owed[id]))
		c.owed[id] = 0
	}
}

func (r *run) prepareInput() error {
	targets, err := streams.Targets(r.cfg.StdinTarget, r.jobs[0].size())
	if err != nil {
		return reach.Failf(job.ExitUsage, "%v", err)
	}
	if r.cfg.Stdin == nil || len(targets) == 0 {
		return nil
	}
	byHost := make([][]uint32, len(r.places.hosts()))
	r.feed, r.hungry = make(chan struct{}), map[int]bool{}
	for _, t := range targets {
		r.hungry[t] = true
		h := r.places.hostOf(t)
		byHost[h] = append(byHost[h], uint32(t))
	}
	r.input = streams.NewInput(streams.InputConfig{File: r.cfg.Stdin, Targets: targets, Send: func(data []byte, eof bool) {
		for h, ranks := range byHost {
			if len(ranks) > 0 {
				r.send(h, (&apiv1.Input{Data: data, Eof: eof}).Frame())
			}
		}
	}})
	return nil
}

// stdinOn are the ranks of a job on a host that get our standard input.
func (r *run) stdinOn(j *jobRun, host int) (ranks []uint32) {
	if r.input == nil || j.number > 0 {
		return nil
	}
	targets, _ := streams.Targets(r.cfg.StdinTarget, j.size()) // was fine in prepareInput
	for _, t := range targets {
		if r.places.hostOf(t) == host {
			ranks = append(ranks, uint32(t))
		}
	}
	return ranks
}

// warnVersions says once when builds of one protocol mix, of hosts from an index on.
func (r *run) warnVersions(from int) {
	others := map[string][]string{}
	for _, h := range r.places.hosts()[from:] {
		if v := h.First.Opened.Version; v != r.cfg.Version {
			others[v] = append(others[v], h.Name)
		}
	}
	for v, names := range others {
		r.say("%s (%s) has mpiup %s, this is %s: they speak one protocol, but use one build everywhere",
			names[0], reach.HostCount(len(names)), cmp.Or(v, "unknown"), cmp.Or(r.cfg.Version, "unknown"))
	}
}

// pty says that ranks write to terminals: Pty is set, and their output is for somebody who reads along. Files
// and JSON get pipes, to which programs write in larger pieces and without colours.
func (c *Config) pty() bool {
	o := &c.Output
	return c.Pty && o.Mode != iof.JSON && o.Dir == "" && o.Files == [2]iof.Pattern{}
}

// startCopy sends the first job's files to its hosts, beside the loop.
func (r *run) startCopy() {
	if r.sources.Len() == 0 {
		return
	}
	r.copier = copies.New(r.sources, r.jobs[0].hosts, func(h int, data []byte) {
		r.send(h, (&apiv1.CopyData{Data: data}).Frame())
	})
	begun := time.Now()
	r.aside(func(life context.Context) {
		if err := r.copier.Run(life); err != nil {
			r.mail.put(event{do: func() { r.fail(verdict.Fault{Event: verdict.NotCopied, ID: -1, Node: -1, Text: err.Error()}) }})
			return
		}
		r.cfg.Log.Info("files sent", "files", r.sources.Len(), "hosts", len(r.jobs[0].hosts), "took", time.Since(begun))
	})
}
