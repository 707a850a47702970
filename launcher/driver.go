package launcher

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/identity"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/internal/wire"
	"github.com/mpiup/mpiup/launcher/copies"
	"github.com/mpiup/mpiup/launcher/iof"
	"github.com/mpiup/mpiup/launcher/link"
	"github.com/mpiup/mpiup/launcher/placement"
	"github.com/mpiup/mpiup/launcher/reach"
	"github.com/mpiup/mpiup/launcher/remains"
	"github.com/mpiup/mpiup/launcher/remains/report"
	"github.com/mpiup/mpiup/launcher/run"
	"github.com/mpiup/mpiup/launcher/streams"
	"github.com/mpiup/mpiup/launcher/verdict"
)

// driver is what a run has to do with the world: it reaches hosts, hands what comes to the run's logic (launcher/run), and
// carries out its orders.
type driver struct {
	*planner
	clock  *wire.Clock
	opener *reach.Opener
	places *places
	// dial makes the way to hosts that join later (reach.NewDialer, but in tests); identity is what they
	// are spoken to with, which a run of the embedded agent alone does without.
	dial     func(r *reach.Reach, hosts int) link.Attach
	identity *identity.Identity
	// aside starts f on a goroutine that the run waits for; life ends with the run.
	aside   func(f func(life context.Context))
	sink    *iof.Sink
	input   *streams.Input // nil: nobody gets standard input
	feed    chan struct{}  // closed when every rank that gets it runs
	mail    *mailbox
	remains *remains.Keeper
	back    credits

	copier *copies.Copier // nil: nothing is copied

	unblock context.CancelFunc // output is waited for no longer

	// The rest belongs to the goroutine of loop.
	run    *run.Run // nil: nothing is to be started
	timers [run.Timers]*time.Timer
	over   bool // nothing that comes is for the run any more
}

func newDriver(cfg Config) *driver {
	r := &driver{planner: &planner{cfg: &cfg, begun: time.Now(), sources: &copies.Sources{}, phase: "gathering"},
		identity: cfg.Identity, clock: wire.NewClock(0), mail: newMailbox()}
	r.planner.say = r.say
	r.remains = remains.New(cfg.Report, report.Report{Mpiup: cfg.Version, Command: os.Args, Launcher: cfg.Hostname, Begun: r.begun}, r.cfg.Say, r.cfg.Log)
	r.dial = func(r *reach.Reach, hosts int) link.Attach { return reach.NewDialer(r.Identity, hosts).Attach }
	return r
}

// prepare makes the run and its parts from the plan: host connections, output, input.
func (r *driver) prepare(have []reach.Found, o *reach.Opener) error {
	byName := map[string]reach.Found{}
	for _, f := range have {
		byName[f.Entry.Name] = f
	}
	r.opener, r.places = o, newPlaces()
	if err := r.prepareOutput(); err != nil {
		return err
	}
	input, err := r.prepareInput()
	if err != nil {
		return err
	}
	cfg := r.cfg.forRun()
	cfg.ID, cfg.Number, cfg.Proof, cfg.Begun, cfg.Plan, cfg.PID = o.Run, r.number, r.proof, r.begun, r.plan, os.Getpid()
	cfg.Input, cfg.Files, cfg.Namespace, cfg.Errno = input, r.sources.Announced(), newNamespace, errno
	for i := range r.cfg.Apps {
		cfg.Copied = append(cfg.Copied, r.sources.Program(i))
	}
	if r.exec != nil {
		cfg.Exec = r.exec.asked()
	}
	attach := r.dial(&r.cfg.Reach, len(r.plan.Hosts))
	for _, h := range r.plan.Hosts {
		f := byName[h.Name]
		r.addHost(f, attach)
		for _, s := range r.sites {
			if s.Entry.Name == h.Name {
				s.host = len(cfg.Hosts)
			}
		}
		cfg.Hosts = append(cfg.Hosts, hostFor(f))
		delete(byName, h.Name)
	}
	for i := range cfg.Hosts {
		cfg.Hosts[i].Meets = meetsAt(i, r.places.hosts())
	}
	for _, s := range r.sites {
		cfg.Sites = append(cfg.Sites, run.Site{Host: s.Host, Stated: s.stated, Local: s.Local})
	}
	for _, unused := range byName {
		reach.CloseAll([]reach.Found{unused})
	}
	r.run = run.New(cfg)
	return nil
}

// hostFor is what the run knows of a host.
func hostFor(f reach.Found) run.Host {
	o := f.Session.Opened
	return run.Host{Name: f.Entry.Name, Stated: o.Host.GetName(), Version: o.Version, Ports: o.MeetingPorts}
}

// errno are name and text of one of Linux's error numbers.
func errno(n int32) (name, text string) {
	return unix.ErrnoName(unix.Errno(n)), unix.Errno(n).Error()
}

// newNamespace is a job's name in PMIx, of 128 random bits: who knows it was told by the job.
func newNamespace() string {
	var b [16]byte
	rand.Read(b[:])
	return "mpiup-" + hex.EncodeToString(b[:])
}

// addHost makes a host of the run from one that was found, and returns its index.
func (r *driver) addHost(f reach.Found, attach link.Attach) int {
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
	r.remains.Host(reported(h))
	return i
}

// say prints one line of mpiup's own.
func (r *driver) say(format string, args ...any) {
	r.cfg.Say(format, args...)
	r.remains.Event(report.Said, "", fmt.Sprintf(format, args...))
}

// send queues a frame for a host, on any goroutine. One that is too large ends the job: the host would wait for it.
func (r *driver) send(h int, f *apiv1.Frame) {
	if err := r.places.hosts()[h].Send(f); err != nil {
		r.mail.put(run.Refused{Host: h, Err: err})
	}
}

// step hands an event to the run, and carries out what it orders.
func (r *driver) step(e run.Event) { r.carryOut(r.run.Step(r.now(), e)) }

func (r *driver) now() run.Now { return run.Now{Wall: time.Now(), Clock: r.clock.Now()} }

// carryOut carries out orders one after the other; what comes of them is the run's next.
func (r *driver) carryOut(orders []run.Order) {
	var answers []run.Event
	for _, o := range orders {
		if e := r.do(o); e != nil {
			answers = append(answers, e)
		}
	}
	for _, e := range answers {
		r.step(e)
	}
}

// do carries out one order. The answer is nil, or comes at once.
func (r *driver) do(order run.Order) (answer run.Event) {
	switch o := order.(type) {
	case run.Send:
		if err := r.places.hosts()[o.Host].Send(o.Frame); err != nil {
			return run.Refused{Host: o.Host, Err: err}
		}
	case run.Say:
		r.say("%s", o.Line)
	case run.Print:
		fmt.Fprintln(r.cfg.Stderr, o.Line)
	case run.Log:
		r.cfg.Log.Log(context.Background(), o.Level, o.Text, o.Attrs...)
	case run.Set:
		r.timers[o.Timer].Reset(o.After)
	case run.Unset:
		r.timers[o.Timer].Stop()
	case run.Finish:
		r.places.hosts()[o.Host].Finish()
	case run.EndOutput:
		r.sink.End(o.ID)
	case run.NoInput:
		if r.input != nil {
			r.input.Gone(o.ID)
		}
	case run.Feed:
		close(r.feed)
	case run.NoCopies:
		if o.Host < 0 {
			r.copier.Gone()
		} else {
			r.copier.Gone(o.Host)
		}
	case run.Unblock:
		r.unblock()
	case run.Started:
		r.exec.started()
		r.remains.Started(o.Process, o.PID)
	case run.NotStarted:
		r.remains.NotStarted(o.Process, o.Why)
	case run.Exited:
		r.remains.Ended(o.Process, o.Exit)
	case run.Silent:
		r.remains.Last(o.Process, r.sink.Tail(o.ID))
	case run.Note:
		r.remains.Event(o.Kind, o.Host, o.Text)
	case run.Grow:
		return run.Grown{Err: r.sink.Grow(o.Procs)}
	case run.Place:
		r.places.grow(o.Hosts)
		r.back.grow(len(o.Hosts), o.Window)
		r.report(o)
	case run.ReadHosts:
		r.readHosts(o.Programs)
	case run.Reach:
		return r.join(o)
	case run.Enlist:
		r.enlist(o.Site)
	case run.Dismiss:
		r.dismiss()
	}
	return nil
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

// report notes a job in the run's report.
func (r *driver) report(o run.Place) {
	programs, ranks := make([]report.Program, len(o.Apps)), make([]report.Rank, len(o.Hosts))
	for i, a := range o.Apps {
		programs[i] = report.Program{Argv: a.Argv, Env: slices.Clone(a.Env)}
	}
	for i, p := range o.Plan.Placements {
		ranks[i] = report.Rank{Job: o.Job, Rank: int(p.Rank), Host: r.places.hosts()[o.Hosts[i]].Name, Program: p.App, CPUs: p.CPUs.String()}
	}
	r.remains.Launched(r.opener.Run, programs, ranks, fmt.Sprintf("%d ranks on %s: %s", len(o.Hosts), reach.HostCount(len(o.Plan.Hosts)), filepath.Base(o.Apps[0].Argv[0])))
}

// hear hands what ranks wrote to the verdict, when all output has come.
func (r *driver) hear() {
	if r.sink != nil && r.exec == nil {
		r.run.Hear(r.words)
	}
}

// words are what a process wrote that may tell why it failed.
func (r *driver) words(id int) verdict.Said {
	w := r.sink.Words(id)
	said := verdict.Said{First: w.First, Last: append([]string{w.Fatal}, r.sink.Tail(id)...)}
	for _, e := range w.Raised {
		said.Raised = append(said.Raised, verdict.Exception{Text: e.Text, Chained: e.Chained, At: e.At})
	}
	return said
}

// all is the sequence: hosts, plan, launch, loop. An error ends it before the job has a
// verdict.
func (r *driver) all(ctx context.Context) error {
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	found, opener, err := r.gather(ctx, life)
	defer r.sources.Close()
	if err != nil {
		return err
	}
	if r.cfg.Preflight {
		if err := r.preflight(ctx, found); err != nil {
			reach.CloseAll(found)
			return err
		}
	}
	if r.cfg.DryRun {
		reach.CloseAll(found)
		if _, err := fmt.Fprint(r.cfg.Stdout, visible.Text(placement.Render(r.plan, r.cfg.Apps))); err != nil {
			return reach.Failf(job.ExitOutput, "standard output: %v", err)
		}
		return nil
	}
	if r.cfg.MapOfOpenMPI {
		if _, err := fmt.Fprint(r.cfg.Stdout, visible.Text(placement.JobMap(r.plan, r.cfg.Policy))); err != nil {
			reach.CloseAll(found)
			return reach.Failf(job.ExitOutput, "standard output: %v", err)
		}
	} else if r.cfg.ShowMap {
		fmt.Fprint(r.cfg.Stderr, visible.Text(placement.Render(r.plan, r.cfg.Apps)))
	}
	r.number = number(found, r.said)
	r.proof = r.prove()
	if err := r.prepare(found, opener); err != nil {
		reach.CloseAll(found)
		return err
	}
	return r.exec.raw(func() error { return r.carry(ctx, life, cancel) })
}
