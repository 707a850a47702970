// Package run is the logic of a run, from the launch of its first job to the end of its last process: events in, orders out. PURE.
//
//	frames of hosts, hosts lost ─┐                                  ┌─▶ Send: frames to hosts, Finish
//	signals of the user, timers  ├─Step(now, event)─▶ Run ─orders─┼─▶ Say: lines for the user, Set: timers
//	hosts reached, files read ───┘                                  └─▶ Reach, ReadHosts, Grow ...: answered by events
//
// A run begins with one job, and ranks may spawn others (launcher/spawn has their order), on the run's hosts and on hosts that join
// for it. Each process has an id that stays its own; frames, fences and exits are of ids, whatever the job (roster.go):
//
//	ids          0 1 2 3 | 4 5 | 6       hosts  0: w0   1: w1   2: w7, which joined
//	job          0       | 1   | 2       users  know id 5 as "rank 1 of spawned job 1", its lines
//	host of id   0 0 1 1 | 1 2 | 0              as "[1.1] "
//
//	rank ─SpawnRequest─▶ Run: place, join hosts ─Launch{job, base}─▶ every host, also those that
//	     ◀─SpawnResult─ once all of it runs, or why not               get none of its processes
//
// All jobs are one run: it ends when every process has, and a rank that fails in any of them ends
// it. A job that cannot be started as a whole is no failure: what did start is ended.
//
// A rank and the first job move through these states (states.go):
//
//	created ─started─▶ running ─exited─▶ exited
//	   ├─start-failed─▶ start-failed       (created, running ─host lost─▶ lost)
//
//	launching ─▶ wiring ─▶ running ─▶ done
//	    └──────────┴─────────┴─failed─▶ stopping ─▶ done
//
// Fences and names are launcher/exchange, whose fault a failure is launcher/verdict, who waits for whom launcher/holdup, where
// frameworks meet launcher/attendance, whether it hangs launcher/stall, whether libraries go together launcher/mixture: all are pure, too.
//
// Concurrency: a Run belongs to one goroutine. Orders are carried out in their order, before the next event but for the answers
// of these very orders; what has come at once ends with a Turn.
//
// The package reaches no host, reads no clock and writes nothing; output of ranks does not pass here.
package run

import (
	"fmt"
	"time"

	"github.com/mpiup/mpiup/gpu"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/frameworks"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/network"
	"github.com/mpiup/mpiup/launcher/exchange"
	"github.com/mpiup/mpiup/launcher/placement"
	"github.com/mpiup/mpiup/launcher/spawn"
	"github.com/mpiup/mpiup/launcher/verdict"
)

// Run is one run, from the launch of its first job to the end of the last process. New makes one.
type Run struct {
	cfg *Config
	now Now
	*orders
	*roster

	sites    *sites
	brief    briefing
	spawns   *spawn.Queue
	growing  *spawn.Order // waits for Grown
	overJobs int          // spawned jobs that are over
	active   int          // hosts whose connection has not ended
	hungry   map[int]bool // ranks that get standard input and do not run yet
	starred  bool         // the star was spoken of
	gone     gone
	alone    alone
	meet     attending
	inquiry  inquiry
	hang     hang
	exchange *exchange.Exchange
	verdict  verdict.Case
	phase    string // of the first fault
	signals  signalState
	leaving  bool      // the ranks have got SIGTERM and have TermGrace
	stopped  time.Time // when the ranks were told to end; zero: they were not
}

// Now is the time of an event: Wall as programs on this host have it, Clock as silence is counted (wire.Clock).
type Now struct {
	Wall  time.Time
	Clock time.Duration
}

// New is a run that is about to launch. Start begins it.
func New(cfg Config) *Run {
	r := &Run{cfg: &cfg, orders: &orders{}, roster: &roster{}, exchange: exchange.New(), hungry: map[int]bool{}, signals: signalState{pid: cfg.PID}}
	r.sites = &sites{roster: r.roster, self: cfg.Self}
	r.brief = briefing{cfg: r.cfg, orders: r.orders, roster: r.roster, sites: r.sites}
	r.gone = gone{orders: r.orders, roster: r.roster, pmix: r.brief.pmix()}
	r.meet = attending{orders: r.orders, roster: r.roster}
	r.alone = alone{orders: r.orders, roster: r.roster, pmi: cfg.PMI}
	r.inquiry = inquiry{orders: r.orders, roster: r.roster, mute: cfg.Exec != nil || cfg.PMI == apiv1.Pmi_PMI_NONE}
	r.hang = hang{orders: r.orders, roster: r.roster, cfg: r.cfg, inquiry: &r.inquiry}
	r.spawns = spawn.New(spawn.Config{Oversubscribe: cfg.Policy.Oversubscribe, Files: cfg.SpawnFiles, PerHost: apiv1.MaxProcs})
	if len(cfg.Plan.Warnings) > 0 { // they were said when it was made
		r.noticed = map[string]bool{moreRanks: true}
	}
	for _, id := range cfg.Input {
		r.hungry[id] = true
	}
	r.job = jobLaunching
	for _, s := range cfg.Sites {
		r.sites.list = append(r.sites.list, &site{Site: s, host: -1})
	}
	first := &jobRun{plan: cfg.Plan, apps: cfg.Apps}
	for _, h := range cfg.Hosts {
		i := r.addHost(h)
		first.hosts = append(first.hosts, i)
		for _, s := range r.sites.list {
			if s.Name == h.Name {
				s.host = i
			}
		}
	}
	for _, a := range cfg.Apps {
		first.exports = append(first.exports, a.Env)
	}
	r.addJob(first)
	return r
}

// Start launches the first job.
func (r *Run) Start(now Now) []Order {
	r.now = now
	if r.cfg.Timeout > 0 {
		r.set(Limit, max(r.cfg.Timeout-now.Wall.Sub(r.cfg.Begun), 0))
	}
	if every := r.cfg.hangEvery(); every > 0 {
		r.set(Hang, every)
	}
	r.brief.launch(r.jobs[0])
	r.warnVersions(0)
	return r.take()
}

// Step takes an event and says what is to be done.
func (r *Run) Step(now Now, e Event) []Order {
	r.now = now
	switch e := e.(type) {
	case Frame:
		r.onFrame(e)
	case Ended:
		r.hostEnded(e)
	case Turn:
		r.gone.tell()
		r.judge()
	case Signal:
		r.signal(e.Number)
	case Expired:
		r.expired(e.Timer)
	case Unwritten:
		f := verdict.Fault{Event: verdict.NotWritten, Node: -1, ID: -1, Text: e.Text}
		if e.Reader {
			f.Event = verdict.ReaderGone
		}
		r.fail(f)
	case NotCopied:
		r.fail(verdict.Fault{Event: verdict.NotCopied, ID: -1, Node: -1, Text: e.Text})
	case Refused:
		r.nonsense(e.Host, e.Err)
	case HostsRead:
		r.spawns.HostsRead(e.Targets, e.Err)
		r.serveSpawns()
	case Reached:
		r.joined(e)
	case Grown:
		r.grown(e.Err)
	case Cancelled:
		r.stop("the launcher ends", false)
	case Over:
		r.job, _ = r.job.next(jobEnded)
		r.alone.warn(r.meet.meets)
		r.meet.sayTrainedAlone()
	}
	return r.take()
}

func (r *Run) take() []Order {
	list := r.list
	r.list = nil
	return list
}

func (r *Run) expired(t Timer) {
	switch t {
	case Limit:
		r.timeUp()
	case Missing:
		r.meet.sayMissing(r.now.Wall)
	case Lone:
		r.meet.sayLone()
	case Hang:
		r.set(Hang, r.cfg.hangEvery())
		if !r.leaving && r.hang.look(r.now.Clock) {
			r.inquired()
		}
	case Answers:
		r.inquired()
	case Grace: // the ranks have had their time after our INT or TERM
		r.timeToGo()
	case Quiet:
		r.say("stopping the ranks: %s", r.sentence())
	case Room:
		r.spawns.Late()
		r.serveSpawns()
		r.judge()
	case Bound:
		r.abandon()
	}
}

// Active is how many hosts have a connection still; the run is over when none has.
func (r *Run) Active() int { return r.active }

// State is where the first job is.
func (r *Run) State() string { return r.job.String() }

// Phase is where it was when something went wrong first.
func (r *Run) Phase() string { return r.phase }

// HostsOf are the hosts of all processes, by id.
func (r *Run) HostsOf() []int { return r.of }

// PID is a process's on its host; 0 where it is not known.
func (r *Run) PID(id int) int { return int(r.ranks[id].pid) }

// FirstHosts are the hosts of the first job, by index.
func (r *Run) FirstHosts() []int { return r.jobs[0].hosts }

// Verdict is what went wrong so far.
func (r *Run) Verdict() *verdict.Case { return &r.verdict }

// Hear hands what ranks wrote to the verdict, when all output has come.
func (r *Run) Hear(words func(id int) verdict.Said) {
	r.verdict.Hear(len(r.ranks), words, r.stopped, func(id int) verdict.Fault { return r.about(verdict.Raised, r.hostOf(id), id) })
}

// sendOut sends what came of an event, in order.
func (r *Run) sendOut(frames []exchange.Out) {
	for _, o := range frames {
		r.send(o.Host, o.Frame)
	}
}

// addHost makes one that was reached a host of the run, and returns its index.
func (r *Run) addHost(h Host) int {
	r.hosts = append(r.hosts, &host{Host: h})
	r.active++
	return len(r.hosts) - 1
}

// finish says that nothing more is expected of a host.
func (r *Run) finish(h int) {
	if !r.hosts[h].finished {
		r.hosts[h].finished = true
		r.give(Finish{h})
	}
}

// move moves the first job.
func (r *Run) move(e jobEvent) {
	if next, ok := r.job.next(e); ok {
		r.job = next
		r.debug("job", "state", next.String(), "after", r.now.Wall.Sub(r.cfg.Begun))
	}
}

// fail notes a fault.
func (r *Run) fail(f verdict.Fault) {
	if !r.verdict.Any() {
		r.phase = r.job.String()
	}
	f.At = max(f.At, 0)
	if f.At == 0 {
		f.At = r.now.Clock
	}
	f.Command = r.cfg.Exec != nil
	r.verdict.Add(f)
	r.debug("fault", "what", f.Sentence())
}

// nonsense is an agent that does not keep to the protocol.
func (r *Run) nonsense(h int, err error) {
	r.fail(verdict.Fault{Event: verdict.Internal, Host: r.hosts[h].Name, Node: h, ID: -1, Text: fmt.Sprintf("host %s: %v", r.hosts[h].Name, err)})
}

// about is the beginning of a fault of one process.
func (r *Run) about(what verdict.Event, h, id int) verdict.Fault {
	return verdict.Fault{Event: what, Host: r.hosts[h].Name, Node: h, ID: id, Process: r.process(id), Piped: !r.cfg.Pty}
}

// sentence is the cause as it stands.
func (r *Run) sentence() string {
	if f, ok := r.verdict.Cause(); ok {
		return f.Sentence()
	}
	return "as mpiup was told"
}

// StallConfig is what is done about a run that hangs (launcher/stall).
type StallConfig struct {
	After time.Duration // no rank has worked for so long; 0: nobody looks
	Init  time.Duration // since the start of the ranks, and some wait for others in MPI_Init; 0: nobody looks
	Abort bool          // the run ends, with exit code 110; else it is said
	Alone bool          // the only rank of a run counts too: it may wait for a user
}

// Config is what a run is to be.
type Config struct {
	// As the user has it: launcher.Config has the same fields, and says what they mean.
	Apps                            []job.App
	Policy                          placement.Policy
	ReportBindings                  bool
	KeepOn, Recover, Linger, Expand bool
	Nodes, Node                     int
	Timeout, Grace, TermGrace       time.Duration
	Stall                           StallConfig
	PMI                             apiv1.Pmi
	Universe                        int
	NoTopologyHint, WorkerLogs      bool
	Net                             network.Wish
	MPIPorts                        network.Ports
	GPUs                            gpu.Wish
	Frameworks                      frameworks.Set
	Explain                         int
	Fabric                          *apiv1.Fabric
	Window                          int

	Pty        bool        // ranks write to terminals
	SpawnFiles bool        // hostfiles are read that ranks name when they spawn
	Verbose    bool        // what is no warning is said, too
	Exec       *apiv1.Exec // how the agent is to run the command; nil: a run
	Version    string      // of this build
	PID        int         // ours, for the sentence that says how to go on

	ID     string    // of the run, in all its sessions
	Number uint64    // of this incarnation, in every Launch
	Proof  []byte    // our signature under it, for agents that tell others; nil: none
	Begun  time.Time // when Run was called
	Plan   *job.Plan // of the first job
	Hosts  []Host    // of Plan.Hosts
	Sites  []Site    // hosts that jobs may be placed on
	Input  []int     // ranks that get our standard input
	Files  []*apiv1.CopyFile
	Copied []uint32 // by app: 1 + index in Files of the program itself; 0, or none: hosts have it

	Namespace func() string                     // a new name of a job in PMIx, hard to guess
	Self      func(name string) bool            // the name means this very host
	Errno     func(n int32) (name, text string) // of Linux's error numbers
}

// Values of Config.Universe that are no numbers. They concern libraries of PMI-1 and PMI-2; those of PMIx are told
// all slots.
const (
	UniverseGiven   = 0  // the slots, where all were given
	UniverseUnknown = -1 // Hydra's INFINITE, and what it says of itself
	UniverseSystem  = -2 // Hydra's SYSTEM: the numbers of hosts, 1 where there is none
)
