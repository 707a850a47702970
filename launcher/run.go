package launcher

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"syscall"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/identity"
	"github.com/mpiup/mpiup/internal/incarnation"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/internal/wire"
	"github.com/mpiup/mpiup/launcher/copies"
	"github.com/mpiup/mpiup/launcher/exchange"
	"github.com/mpiup/mpiup/launcher/hosts"
	"github.com/mpiup/mpiup/launcher/iof"
	"github.com/mpiup/mpiup/launcher/link"
	"github.com/mpiup/mpiup/launcher/placement"
	"github.com/mpiup/mpiup/launcher/quorum"
	"github.com/mpiup/mpiup/launcher/reach"
	"github.com/mpiup/mpiup/launcher/remains"
	"github.com/mpiup/mpiup/launcher/remains/report"
	"github.com/mpiup/mpiup/launcher/spawn"
	"github.com/mpiup/mpiup/launcher/streams"
	"github.com/mpiup/mpiup/launcher/verdict"
)

// run is one job's life here. After start, the fields below "loop" belong to the goroutine of
// loop.
type run struct {
	cfg    Config
	exec   *ExecConfig // nil: a run
	begun  time.Time
	clock  *wire.Clock
	plan   *job.Plan // of the first job
	number uint64    // of this incarnation, in every Launch
	proof  []byte    // our signature under it, for agents that tell others; nil: none
	opener *reach.Opener
	places *places
	// dial makes the way to hosts that join later (newDialer, but in tests); identity is what they
	// are spoken to with, which a run of the embedded agent alone does without.
	dial     func(r *reach.Reach, hosts int) link.Attach
	identity *identity.Identity
	// aside starts f on a goroutine that the run waits for; life ends with the run.
	aside func(f func(life context.Context))
	sink  *iof.Sink

	remains *remains.Keeper
	input   *streams.Input // nil: nobody gets standard input
	feed    chan struct{}  // closed when every rank that gets it runs
	mail    *mailbox
	back    credits

	sources *copies.Sources
	copier  *copies.Copier // nil: nothing is copied

	unblock context.CancelFunc // output is waited for no longer

	// loop
	job      jobState
	jobs     []*jobRun
	ranks    []rankInfo // by id
	at       []hostState
	sites    []*site
	spawns   *spawn.Queue
	overJobs int          // spawned jobs that are over
	active   int          // hosts whose connection has not ended
	hungry   map[int]bool // ranks that get standard input and do not run yet
	noticed  map[string]bool
	alone    alone
	went     []*apiv1.Gone // not told yet
	starred  bool          // the star was spoken of
	exchange *exchange.Exchange
	verdict  verdict.Case
	phase    string // the job's, when the first fault was reported
	signals  signalState
	inquiry  inquiry
	meet     attending
	leaving  bool      // the ranks have got SIGTERM and have TermGrace
	stopped  time.Time // when the ranks were told to end; zero: they were not
	timers   struct{ quiet, grace, bound, room, answers, missing, lone *time.Timer }
}

// rankInfo is what is known of one process.
type rankInfo struct {
	state  rankState
	output bool // its output has begun and not ended
	wanted bool // another process has it ended: that is no failure
	pid    int32
}

// Run starts a job, waits for its end, prints the last lines and returns the exit code of
// docs/exit-codes.md. It blocks until all it started has ended. When ctx ends, the ranks are
// stopped as by SIGTERM.
func Run(ctx context.Context, cfg Config) int { return runJob(ctx, cfg, nil) }

// runJob is Run, or Exec where exec is not nil.
func runJob(ctx context.Context, cfg Config, exec *ExecConfig) int {
	cfg.Fill()
	r := newRun(cfg)
	r.exec = exec
	err := r.all(ctx)
	if err != nil {
		if exec != nil {
			return exec.failed(End(&r.cfg.Reach, err))
		}
		return r.early(err)
	}
	r.hear()
	cause, bad := r.verdict.Cause()
	if !bad {
		r.remains.Leave(nil, 0)
		r.remains.Seal(r.cfg.Stderr, nil, 0)
		return 0
	}
	if exec != nil && cause.Event == verdict.Ended { // the command's own exit code says all
		return exec.status(cause)
	}
	var tail []string
	if r.sink != nil && (cause.Event == verdict.Ended || cause.Event == verdict.Aborted || cause.Event == verdict.Raised) {
		tail = r.sink.Tail(cause.ID)
	}
	if r.sink != nil && r.sink.MidLine() {
		fmt.Fprintln(r.cfg.Stderr)
	}
	if exec != nil {
		return exec.failed(last(&r.cfg.Reach, r.verdict.Exit(), r.verdict.Explain(), tail))
	}
	return r.final(cause, tail)
}

// hear hands what ranks wrote to the verdict, when all output has come.
func (r *run) hear() {
	if r.sink != nil && r.exec == nil {
		r.verdict.Hear(len(r.ranks), r.words, r.stopped, func(id int) verdict.Fault { return r.about(verdict.Raised, r.places.hostOf(id), id) })
	}
}

// words are what a process wrote that may tell why it failed.
func (r *run) words(id int) verdict.Said {
	w := r.sink.Words(id)
	said := verdict.Said{First: w.First, Last: append([]string{w.Fatal}, r.sink.Tail(id)...)}
	for _, e := range w.Raised {
		said.Raised = append(said.Raised, verdict.Exception{Text: e.Text, Chained: e.Chained, At: e.At})
	}
	return said
}

func newRun(cfg Config) *run {
	r := &run{cfg: cfg, identity: cfg.Identity, begun: time.Now(), clock: wire.NewClock(0), mail: newMailbox(), sources: &copies.Sources{}, noticed: map[string]bool{}}
	r.signals.pid = os.Getpid()
	r.remains = remains.New(cfg.Report, report.Report{Mpiup: cfg.Version, Command: os.Args, Launcher: cfg.Hostname, Begun: r.begun}, r.cfg.Say, r.cfg.Log)
	r.spawns = spawn.New(spawn.Config{Oversubscribe: cfg.Policy.Oversubscribe, Files: cfg.SpawnFiles != "", PerHost: apiv1.MaxProcs})
	r.dial = func(r *reach.Reach, hosts int) link.Attach { return reach.NewDialer(r.Identity, hosts).Attach }
	return r
}

// all is the sequence: hosts, plan, launch, loop. An error ends it before the job has a
// verdict.
func (r *run) all(ctx context.Context) error {
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

// carry launches and stays with the job until its end; what it starts has ended when it
// returns.
func (r *run) carry(ctx, life context.Context, cancel context.CancelFunc) error {
	var parts, sink, input sync.WaitGroup
	defer func() {
		parts.Wait()
		for _, e := range r.mail.take() {
			if e.do != nil { // hosts that joined too late
				e.do()
			}
		}
	}()
	defer cancel()
	r.aside = func(f func(context.Context)) { parts.Go(func() { f(life) }) }
	parts.Go(func() { r.clock.Run(life, r.tickHosts) })
	sinkCtx, unblock := context.WithCancel(life)
	r.unblock = unblock
	defer unblock()
	sink.Go(func() { _ = r.sink.Run(sinkCtx) }) // each error came through Broken
	r.launchJob(r.jobs[0])
	r.startCopy()
	r.warnVersions(0)
	for _, h := range r.places.hosts() {
		r.aside(r.carryHost(h))
	}
	inputCtx, endInput := context.WithCancel(life)
	if r.input != nil {
		input.Go(func() {
			select {
			case <-r.feed:
			case <-inputCtx.Done():
				return
			}
			if err := r.input.Run(inputCtx); err != nil {
				r.say("%v; the ranks see its end", err)
			}
		})
	}
	r.loop(ctx)
	endInput()
	input.Wait()
	r.job, _ = r.job.next(jobEnded)
	r.sink.Close()
	r.flush(&sink)
	r.sayAlone()
	r.sayTrainedAlone()
	return nil
}

// flush waits until all output is written. A reader that does not read is waited for as by any
// program, until a second INT or TERM.
func (r *run) flush(sink *sync.WaitGroup) {
	done := make(chan struct{})
	go func() { sink.Wait(); close(done) }()
	for {
		select {
		case <-done:
			return
		case s := <-r.cfg.Signals:
			if s == syscall.SIGINT || s == syscall.SIGTERM {
				r.unblock()
			}
		}
	}
}

// gather finds, reaches and places; r.plan stands when it returns.
func (r *run) gather(ctx, life context.Context) ([]reach.Found, *reach.Opener, error) {
	if len(r.cfg.Apps) == 0 {
		return nil, nil, reach.Failf(job.ExitUsage, "no program was given")
	}
	var err error
	if r.sources, err = copies.Open(r.cfg.Apps); err != nil {
		return nil, nil, reach.Failf(job.ExitUsage, "%v", err)
	}
	ctx, cancel := r.patience(ctx)
	defer cancel()
	r.cfg.Need = r.needs()
	set, err := r.cfg.Find(ctx)
	if err != nil {
		return nil, nil, r.impatient(ctx, err)
	}
	want, err := r.needed(set)
	if err != nil {
		return nil, nil, err
	}
	opener := reach.NewOpener(&r.cfg.Reach)
	if r.exec == nil {
		opener.Wish, opener.Ports, opener.Within = machineWish(r.cfg.Policy), r.meetingPorts(), r.cfg.MPIPorts.String()
	}
	found, err := r.cfg.Assemble(ctx, life, want, opener)
	if err != nil {
		return nil, nil, r.exec.stranger(r.impatient(ctx, err))
	}
	r.move(jobGathered)
	if reach.Christen(found) {
		for i, f := range found {
			set.Hosts[i] = f.Wanted
		}
	}
	hosts := r.allocation(set.Hosts, found)
	r.plan, err = placement.Place(hosts, r.cfg.Apps, r.cfg.Policy)
	if err != nil {
		reach.CloseAll(found)
		return nil, nil, reach.Failf(job.ExitUsage, "%v", err)
	}
	if err := placement.Startable(r.plan, apiv1.MaxProcs); err != nil {
		reach.CloseAll(found)
		return nil, nil, reach.Failf(job.ExitUsage, "%v", err)
	}
	if err := checkTools(r.cfg.Apps, len(r.plan.Placements)); err != nil {
		reach.CloseAll(found)
		return nil, nil, reach.Failf(job.ExitUsage, "%v", err)
	}
	if n := len(r.plan.Placements); r.cfg.Explain > n {
		reach.CloseAll(found)
		return nil, nil, reach.Failf(job.ExitUsage, "--explain %d: the job has ranks 0 to %d", r.cfg.Explain-1, n-1)
	}
	r.sayCrowded(r.plan)
	r.sayUnbound()
	r.sites = newSites(set.Hosts, hosts, found)
	r.move(jobPlaced)
	return found, opener, nil
}

// needs is what the command line asks of hosts that are found one by one.
func (r *run) needs() quorum.Need {
	ranks := 0
	for _, app := range r.cfg.Apps {
		if ranks += app.N; app.N == 0 { // one a slot, of as many as there are
			ranks = 0
			break
		}
	}
	told, why := r.cfg.Count()
	n := quorum.Of(told, why, ranks, r.cfg.Policy.PerNode)
	n.All, n.Beyond = r.cfg.Policy.MapBy == placement.ByNode, r.cfg.Policy.Oversubscribe
	return n
}

// checkTools refuses a tool that is to start the program of a rank which the job does not have.
func checkTools(apps []job.App, size int) error {
	for _, a := range apps {
		for _, t := range a.Tools {
			if t.Ranks.Last() >= size {
				return fmt.Errorf("%s is to start rank %d (--wrap), and the job has ranks 0 to %d", t.Argv[0], t.Ranks.Last(), size-1)
			}
		}
	}
	return nil
}

// needed are the hosts that get ranks. Where all slots were given, that is known before any
// host is asked; and so is a plan that cannot be.
func (r *run) needed(set *hosts.Set) ([]hosts.Wanted, error) {
	for _, w := range set.Hosts {
		if !w.Entry.Given {
			return set.Hosts, nil
		}
	}
	policy, ok := early(r.cfg.Policy)
	if !ok {
		return set.Hosts, nil
	}
	plan, err := placement.Place(r.allocation(set.Hosts, nil), r.cfg.Apps, policy)
	if err != nil {
		return nil, reach.Failf(job.ExitUsage, "%v", err)
	}
	ranked := map[string]bool{}
	for _, h := range plan.Hosts {
		ranked[h.Name] = true
	}
	var want []hosts.Wanted
	for _, w := range set.Hosts {
		if ranked[w.Entry.Name] {
			want = append(want, w)
		}
	}
	return want, nil
}

// allocation is the hosts as placement takes them; agents' own counts are taken where no slots
// were given.
func (r *run) allocation(want []hosts.Wanted, have []reach.Found) []job.Host {
	agents := map[string]reach.Found{}
	for _, f := range have {
		agents[f.Entry.Name] = f
	}
	hosts := make([]job.Host, len(want))
	for i, w := range want {
		f, ok := agents[w.Entry.Name]
		if !ok {
			hosts[i] = HostOf(w, nil)
			continue
		}
		a := f.Session.Opened.Host
		hosts[i] = HostOf(w, a)
		hosts[i].Layout, hosts[i].NearGPUs = layoutOf(f, r.cfg.Log), nearGPUs(a.GpuUnits, r.cfg.gpuWish())
	}
	return hosts
}

// HostOf is a host as placement takes it; agent is nil where it has not been asked.
func HostOf(w hosts.Wanted, agent *apiv1.HelloReply) job.Host {
	h := job.Host{Name: w.Entry.Name, Slots: w.Entry.Slots, SlotsGiven: w.Entry.Given, CPUs: int(agent.GetCpus())}
	if agent != nil && !h.SlotsGiven {
		h.Slots = max(int(agent.Slots), 1)
	}
	return h
}

// number is this incarnation's fencing number: the one it has, or the next after all that any
// reached agent knows. Agents may lie: only what we said ourselves is our own, and of the others' word a number comes that no
// agent refuses; how far it is above what they know is bounded by each for itself (agent/lives).
func number(hosts []reach.Found, said func(number uint64, proof []byte) bool) uint64 {
	var own, highest uint64
	for _, h := range hosts {
		o := h.Session.Opened
		highest = max(highest, min(o.HighestNumber, incarnation.MaxNumber-1))
		if o.OwnNumber > own && o.OwnNumber <= incarnation.MaxNumber && said(o.OwnNumber, o.OwnProof) {
			own = o.OwnNumber
		}
	}
	if own > 0 {
		return own
	}
	return highest + 1
}

// said tells whether a launcher of this incarnation, which is one of our container, has signed a number.
func (r *run) said(number uint64, proof []byte) bool {
	if r.cfg.Identity == nil { // no agent but our own
		return true
	}
	kind, text := incarnation.NumberClaim(number, r.cfg.Incarnation)
	who, err := r.cfg.Identity.Verify(kind, text, proof)
	return err == nil && identity.Require(who, identity.RoleLauncher) == nil
}

// prove signs the number. Without a signature other agents are not told of it, which only a launcher that comes
// after us and reaches none of ours could miss.
func (r *run) prove() []byte {
	if r.cfg.Identity == nil {
		return nil
	}
	kind, text := incarnation.NumberClaim(r.number, r.cfg.Incarnation)
	proof, err := r.cfg.Identity.Sign(kind, text)
	if err != nil {
		r.cfg.Log.Info("the number is not signed", "cause", err)
	}
	return proof
}

// say prints one line of mpiup's own.
func (r *run) say(format string, args ...any) {
	r.cfg.Say(format, args...)
	r.remains.Event(report.Said, "", fmt.Sprintf(format, args...))
}

// notice shows what an agent says, once, however many hosts say it, as the first one's. What is no
// warning is for -v.
func (r *run) notice(h int, m *apiv1.Notice) {
	if !m.Warning && !r.cfg.Log.Enabled(context.Background(), slog.LevelInfo) {
		return
	}
	r.once(m.Text, "host "+r.host(h).Name+": "+m.Text)
}

// once says line, unless something of the same key was said.
func (r *run) once(key, line string) {
	const most = 64
	if r.noticed[key] || len(r.noticed) >= most {
		return
	}
	r.noticed[key] = true
	r.say("%s", line)
}

// sayCrowded passes on what a plan says of hosts with more ranks than CPUs, once for all jobs of the run: each that is
// spawned counts more of them.
func (r *run) sayCrowded(p *job.Plan) {
	for _, w := range p.Warnings {
		r.once("more ranks than CPUs", w)
	}
}

// sentence is the cause as it stands.
func (r *run) sentence() string {
	if f, ok := r.verdict.Cause(); ok {
		return f.Sentence()
	}
	return "as mpiup was told"
}
