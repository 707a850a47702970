package launcher

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/awake"
	"github.com/mpiup/mpiup/internal/identity"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/internal/wire"
	"github.com/mpiup/mpiup/launcher/hosts"
	"github.com/mpiup/mpiup/launcher/iof"
	"github.com/mpiup/mpiup/launcher/link"
	"github.com/mpiup/mpiup/launcher/placement"
	"github.com/mpiup/mpiup/launcher/reach"
	"github.com/mpiup/mpiup/launcher/report"
	"github.com/mpiup/mpiup/launcher/run"
	"github.com/mpiup/mpiup/launcher/run/phases"
	"github.com/mpiup/mpiup/launcher/streams"
	"github.com/mpiup/mpiup/launcher/survey"
	"github.com/mpiup/mpiup/launcher/verdict"
)

// driver is what a run has to do with the world: it reaches hosts, hands what comes to the run's logic (launcher/run), and
// carries out its orders.
type driver struct {
	*planner
	clock  *wire.Clock
	opener *reach.Opener
	places *places
	pids   pids
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
	back    credits
	status  *iof.Status // below the ranks' output; nil: none
	joiners joiners

	copier *streams.Copier // nil: nothing is copied
	came   []hosts.Wanted  // hosts that came, for which the ranks were ended; watch writes it until it returns
	spares []*link.Conn    // hosts without ranks that are held until ranks are started again

	unblock context.CancelFunc // output is waited for no longer

	// The rest belongs to the goroutine of loop.
	run    *run.Run // nil: nothing is to be started
	alarms *awake.Alarms
	cores  map[int]job.Crash // by id
}

func newDriver(cfg Config) *driver {
	r := &driver{planner: &planner{cfg: &cfg, begun: time.Now(), sources: &streams.Files{}, phase: "gathering"},
		identity: cfg.Identity, clock: wire.NewClockAt(before), mail: &mailbox{wake: make(chan struct{}, 1)}, cores: map[int]job.Crash{},
		alarms: awake.NewAlarms(int(run.Timers), int(run.Limit), int(run.Hang), int(run.Renewal))}
	r.planner.say = r.say
	r.course = phases.New(phases.Config{Wish: r.cfg.wish(), MaxRestarts: cfg.MaxRestarts, Beside: cfg.Beside})
	if cfg.Explain > 0 { // nothing of the user's runs
		cfg.Report.Kept = ""
	}
	r.remains = report.New(cfg.Report, report.Report{Mpiup: cfg.Version, Command: os.Args, Launcher: cfg.Hostname, Begun: r.begun}, r.cfg.Log)
	r.dial = func(r *reach.Reach, hosts int) link.Attach { return reach.NewDialer(r.Identity, hosts).Attach }
	return r
}

// before is what a run's clock begins with: what hosts tell of the time before this launcher has a time too.
const before = 48 * time.Hour

// newNamespace is a job's name in PMIx, of 128 random bits: who knows it was told by the job.
func newNamespace() string { return "mpiup-" + reach.RandomHex(16) }

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

// report notes a job in the run's report.
func (r *driver) report(o run.Place) {
	programs, ranks := make([]report.Program, len(o.Apps)), make([]report.Rank, o.Job.Size())
	for i, a := range o.Apps {
		programs[i] = report.Program{Argv: a.Argv, Env: slices.Clone(a.Env)}
	}
	for i, p := range o.Job.Plan.Placements {
		ranks[i] = report.Rank{Job: o.Job.Number, Rank: int(p.Rank), Host: r.places.hosts()[o.Job.Hosts[p.Host]].Name, Program: p.App, CPUs: p.CPUs.String()}
	}
	text := fmt.Sprintf("%d ranks on %s: %s", len(ranks), visible.Count(len(o.Job.Hosts), "host"), filepath.Base(o.Apps[0].Argv[0]))
	r.remains.Launched(r.opener.Run, programs, ranks, text)
}

// hear hands what ranks wrote to the verdict, when all output has come.
func (r *driver) hear() {
	if r.sink != nil && r.exec == nil {
		r.run.Hear(r.words)
	}
}

// words are what a process wrote that may tell why it failed.
func (r *driver) words(id int) verdict.Said {
	tail, _ := r.sink.Tail(id)
	return saidBy(r.sink.Words(id), tail)
}

// wordsSoFar is the same of a process that may go on.
func (r *driver) wordsSoFar(id int) verdict.Said {
	tail, _ := r.sink.Tail(id)
	return saidBy(r.sink.WordsSoFar(id), tail)
}

// saidBy is what was heard of a process, and its last lines, as the verdict reads them.
func saidBy(w iof.Words, tail []string) verdict.Said {
	said := verdict.Said{Last: []string{w.Fatal}, Early: w.Early, Began: w.Began, Gone: w.Gone, Mute: w.Mute, After: w.After}
	if !w.Gone {
		said.First = w.First
	}
	if !w.Past {
		said.Last = append(said.Last, tail...)
	}
	for _, e := range w.Raised {
		said.Raised = append(said.Raised, verdict.Exception{Text: e.Text, Where: e.Where, Call: e.Call, Own: e.Own, Deep: e.Deep, Piped: e.Piped, Link: e.Link, At: e.At, Old: e.Old, Printed: e.Printed})
	}
	return said
}

// missedBy is the file that a process has missed by its last words; "": none.
func (r *driver) missedBy(id int) string {
	if r.exec != nil || r.sink == nil || !r.run.Verdict().Any() {
		return ""
	}
	dir := ""
	if len(r.cfg.Apps) == 1 {
		dir = r.cfg.Apps[0].Wdir
	}
	return verdict.MissingFile(r.words(id), dir)
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
	if r.course.Again != nil {
		tellRestart(r)
	}
	if r.cfg.Preflight && r.predecessor == nil && (r.course.Again == nil || len(r.course.Again.Replaced) > 0) {
		if err := r.preflight(ctx, found); err != nil {
			reach.CloseAll(found)
			return err
		}
	}
	if r.cfg.DryRun {
		reach.CloseAll(found)
		if r.cfg.Picture != "-" {
			if _, err := fmt.Fprint(r.cfg.Stdout, visible.Text(placement.Render(r.plan, r.cfg.Apps))); err != nil {
				return reach.Unwritten(err)
			}
		}
		return r.picture(ctx, found)
	}
	if r.cfg.MapOfOpenMPI {
		if _, err := fmt.Fprint(r.cfg.Stdout, visible.Text(placement.JobMap(r.plan, r.cfg.Policy))); err != nil {
			reach.CloseAll(found)
			return reach.Unwritten(err)
		}
	} else if r.cfg.ShowMap {
		fmt.Fprint(r.cfg.Stderr, visible.Text(placement.Render(r.plan, r.cfg.Apps)))
	}
	if r.predecessor == nil && r.course.Again == nil {
		r.sayWithheld(found)
	}
	if r.cfg.Loss.Hold > 0 {
		if err := apart(found); err != nil {
			reach.CloseAll(found)
			return err
		}
	}
	r.number = number(found, r.said)
	r.proof = r.prove()
	if err := r.prepare(found, opener); err != nil {
		reach.CloseAll(found)
		return err
	}
	return r.exec.raw(r.say, func() error { return r.carry(ctx, life, cancel) })
}

// sayWithheld says which of this process's variables ranks will not have.
func (r *driver) sayWithheld(found []reach.Found) {
	who := "ranks"
	if r.exec != nil {
		who = "commands"
	}
	for _, text := range reach.Withheld(r.cfg.Unsent, found, who, r.cfg.Log.Enabled(context.Background(), slog.LevelInfo)) {
		r.say("%s", text)
	}
}

// mailbox is the loop's queue. Its senders, readers of connections, must not block; what it
// holds is bounded by what ranks do (output, the bulk, does not pass here).
type mailbox struct {
	wake chan struct{} // capacity 1

	mu    sync.Mutex
	items []run.Event // guarded by mu
}

func (m *mailbox) put(e run.Event) {
	m.mu.Lock()
	m.items = append(m.items, e)
	m.mu.Unlock()
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

func (m *mailbox) take() []run.Event {
	m.mu.Lock()
	defer m.mu.Unlock()
	items := m.items
	m.items = nil
	return items
}

// deliver takes a frame from host h's connection, on its reading goroutine. Output goes on
// from here; all else to the loop. It returns no error: a connection cannot be resumed out of
// a frame that makes no sense, the loop ends the job over it.
func (r *driver) deliver(h int, f *apiv1.Frame) error {
	switch b := f.Body.(type) {
	case *apiv1.Frame_Output:
		o := b.Output
		if r.places.who().Owns(h, o.Rank) && (o.Stream == apiv1.Stream_STDOUT || o.Stream == apiv1.Stream_STDERR) {
			r.sink.Write(int(o.Rank), job.Stream(o.Stream), o.Data, o.Partial, time.Unix(0, o.TimeNs))
			return nil
		}
	case *apiv1.Frame_Started:
		if r.places.who().Owns(h, b.Started.Rank) {
			r.pids.note(int(b.Started.Rank), int(b.Started.Pid))
		}
	case *apiv1.Frame_Progress:
		if r.places.who().Owns(h, b.Progress.Rank) {
			r.sink.Told(int(b.Progress.Rank), b.Progress.Data)
			return nil
		}
	case *apiv1.Frame_Seats:
		r.remains.Seats(r.places.hosts()[h].Name, survey.MachineName(b.Seats), survey.SeatsOf(b.Seats), func() placement.Machine { return survey.MachineOf(b.Seats) })
		return nil
	case *apiv1.Frame_OutputEnd:
		if r.places.who().Owns(h, b.OutputEnd.Rank) {
			r.sink.End(int(b.OutputEnd.Rank))
		}
	case *apiv1.Frame_Credit:
		if r.places.who().Owns(h, b.Credit.Rank) && r.input != nil {
			r.input.Grant(int(b.Credit.Rank), int(b.Credit.Bytes))
			return nil
		}
	case *apiv1.Frame_CopyCredit:
		if b.CopyCredit.Job == 0 {
			if r.copier != nil {
				r.copier.Grant(h, int(min(b.CopyCredit.Bytes, apiv1.CopyWindow)))
			}
			return nil
		}
	}
	at, known := r.predecessor.at(h, time.Duration(min(f.AgeMs, uint64(before/time.Millisecond)))*time.Millisecond)
	if !known {
		at = r.clock.Now()
	}
	r.mail.put(run.Frame{Host: h, Frame: f, At: at})
	return nil
}
