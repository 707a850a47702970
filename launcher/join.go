package launcher

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/awake"
	"github.com/mpiup/mpiup/internal/hostlist"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/launcher/hosts"
	"github.com/mpiup/mpiup/launcher/link"
	"github.com/mpiup/mpiup/launcher/reach"
	"github.com/mpiup/mpiup/launcher/report"
	"github.com/mpiup/mpiup/launcher/run"
	"github.com/mpiup/mpiup/launcher/run/model"
	"github.com/mpiup/mpiup/launcher/spawn"
)

// joinWait bounds the time that a spawn waits for hosts which the run does not have; it is never
// longer than --wait.
const joinWait = 10 * time.Second

// joiner is a host that was reached for an ask, and is not of the run yet.
type joiner struct {
	reach.Found
	attach link.Attach
}

// joiners are those of one ask, by name. Whoever reaches them adds, and the loop takes.
type joiners struct {
	mu sync.Mutex
	by map[string]joiner // guarded by mu
}

func (js *joiners) add(have []reach.Found, attach link.Attach) {
	js.mu.Lock()
	defer js.mu.Unlock()
	if js.by == nil {
		js.by = map[string]joiner{}
	}
	for _, f := range have {
		js.by[f.Entry.Name] = joiner{f, attach}
	}
}

// take is the one of that name, which must be there.
func (js *joiners) take(name string) joiner {
	js.mu.Lock()
	defer js.mu.Unlock()
	defer delete(js.by, name)
	return js.by[name]
}

// takeAll is all that are left.
func (js *joiners) takeAll() (left []reach.Found) {
	js.mu.Lock()
	defer js.mu.Unlock()
	for _, j := range js.by {
		left = append(left, j.Found)
	}
	js.by = nil
	return left
}

// named is how a host of that name is reached.
func (r *driver) named(name string) hosts.Wanted {
	if w, known := r.wanted[name]; known {
		return w
	}
	return hosts.Wanted{Entry: hostlist.Entry{Name: name}, Local: r.cfg.Self(name)}
}

// readHosts reads the hosts that programs name, aside, as files may take long.
func (r *driver) readHosts(programs []job.SpawnProgram) {
	r.aside(func(context.Context) {
		targets, err := spawn.Targets(programs, func(file string) ([]hostlist.Entry, error) { return hosts.ReadBelow(r.cfg.SpawnFiles, file) })
		r.mail.put(run.HostsRead{Targets: targets, Err: err})
	})
}

// join reaches hosts beside those the run has. What cannot be is answered at once, all else comes by mail.
func (r *driver) join(o run.Reach) run.Event {
	var want []hosts.Wanted
	for _, name := range o.Names {
		want = append(want, r.named(name))
	}
	to := r.cfg.Reach
	to.Identity = r.identity
	for _, w := range want {
		if to.Identity == nil && !(w.Local && to.Embedded != nil) {
			return run.Reached{Err: fmt.Errorf("host %s is not of this run, and others cannot be reached without the job's secret (--key)", w.Entry.Name)}
		}
	}
	var claims []reach.Found // the agents that the run has
	for _, i := range o.Has {
		h := r.places.hosts()[i]
		claims = append(claims, reach.Found{Wanted: r.named(h.Name), Session: h.First})
	}
	r.aside(func(life context.Context) {
		ctx, cancel := awake.Within(life, min(joinWait, to.Wait))
		defer cancel()
		attach := r.dial(&to, len(want))
		have, err := to.AssembleMore(ctx, life, want, claims, attach, r.opener)
		if err != nil {
			reach.CloseAll(have)
			r.mail.put(run.Reached{Err: err})
			return
		}
		r.joiners.add(have, attach)
		var e run.Reached
		for _, f := range have {
			e.Sites = append(e.Sites, *r.hostOf(f))
		}
		r.mail.put(e)
	})
	return nil
}

// enlist makes a site that was found the run's next host.
func (r *driver) enlist(name string) {
	j := r.joiners.take(name)
	r.wanted[name] = anew(j.Found)
	r.aside(r.carryHost(r.addHost(j.Found, j.attach)))
}

// dismiss closes sessions with hosts that were reached for an ask and not used.
func (r *driver) dismiss() {
	if left := r.joiners.takeAll(); len(left) > 0 {
		r.aside(func(context.Context) { reach.CloseAll(left) })
	}
}

// addHost makes the run's next host of one that was found.
func (r *driver) addHost(f reach.Found, attach link.Attach) *link.Conn {
	i := len(r.places.hosts())
	h := r.keeps(i, f, attach, func(fr *apiv1.Frame) error { return r.deliver(i, fr) })
	r.places.join(h)
	r.remains.Host(reported(h))
	return h
}

// keeps is what keeps a host's session on a connection.
func (r *driver) keeps(i int, f reach.Found, attach link.Attach, deliver func(*apiv1.Frame) error) *link.Conn {
	if f.Embedded() {
		attach = nil
	}
	return link.New(link.Config{Index: i, Name: f.Entry.Name, First: f.Session, Wait: f.Wait, Attach: attach, Timeout: r.cfg.NodeTimeout,
		Clock: r.clock, Deliver: deliver})
}

// reported is a host as the run's report has it.
func reported(h *link.Conn) report.Host {
	is := h.First.Opened.GetHost()
	address := ""
	if h.First.Addr.IsValid() { // else the agent is in this process
		address = h.First.Addr.String()
	}
	return report.Host{Name: h.Name, Node: is.GetNode(), Address: address, Arch: is.GetArch(), Agent: is.GetVersion(),
		Slots: int(is.GetSlots()), CPUs: int(is.GetCpus()), GPUs: int(is.GetGpus()), Answered: h.First.Since}
}

// unseen is when a host went that no launcher saw go: before all that its peers' ranks did for it.
const unseen = time.Duration(1)

// carryHost keeps a host's session on a connection until it is over.
func (r *driver) carryHost(h *link.Conn) func(context.Context) {
	return func(life context.Context) {
		if p := r.predecessor; p != nil && p.gone[h.Name] != nil {
			c := p.gone[h.Name]
			if c.Ending {
				r.mail.put(run.Frame{Host: h.Index, Frame: (&apiv1.Ending{Why: c.Error()}).Frame(), At: unseen})
			}
			r.mail.put(run.Ended{Host: h.Index, Lost: &model.Lost{Told: c.Told, Since: unseen, Why: "it was not handed over: " + c.Error()}})
			return
		}
		r.mail.put(run.Ended{Host: h.Index, Lost: h.Run(life)})
	}
}

// places is the run's roster for any goroutine, with the connections of its hosts. The loop alone changes it.
type places struct {
	list atomic.Pointer[[]*link.Conn] // by index
	now  atomic.Pointer[model.Roster]
}

func newPlaces() *places {
	p := &places{}
	p.list.Store(&[]*link.Conn{})
	p.now.Store(&model.Roster{})
	return p
}

// hosts are all hosts that the run has or had, by index.
func (p *places) hosts() []*link.Conn { return *p.list.Load() }

// who is who is where.
func (p *places) who() model.Roster { return *p.now.Load() }

// join adds a host, whose index must be the next.
func (p *places) join(h *link.Conn) {
	hosts := append(p.hosts(), h) // beyond what readers of the older slice see
	p.list.Store(&hosts)
}

// know takes the roster as it is from now on.
func (p *places) know(who model.Roster) { p.now.Store(&who) }
