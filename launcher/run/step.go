package run

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/launcher/exchange"
	"github.com/mpiup/mpiup/launcher/report"
	"github.com/mpiup/mpiup/launcher/slow"
	"github.com/mpiup/mpiup/launcher/spawn"
	"github.com/mpiup/mpiup/launcher/verdict"
)

// New is a run that is about to launch. Start begins it.
func New(cfg Config) *Run {
	all := shared{&orders{noticed: map[string]bool{}}, &roster{}}
	cfg.Preempt.Signal = cmp.Or(cfg.Preempt.Signal, job.SIGTERM)
	r := &Run{cfg: &cfg, shared: all, hungry: map[int]bool{}, signals: signalState{pid: cfg.PID, termAs: cfg.Preempt.Signal, command: cfg.Exec != nil}}
	r.exchange = exchange.New(cfg.Asked, r.send)
	r.succession = succession{shared: all, cfg: r.cfg, offered: cfg.Adopted}
	r.sites = &sites{roster: r.roster, self: cfg.Self}
	r.verdict.Bare = cfg.Bare
	r.verdict.Here = cfg.Here
	r.verdict.OneProgram = len(cfg.Apps) == 1
	r.brief = briefing{cfg: r.cfg, shared: all, sites: r.sites}
	r.gone = gone{shared: all, pmix: r.brief.pmix()}
	r.meet = attending{shared: all, warned: map[uint32]bool{}, endedWell: map[uint32]int{}}
	r.alone = alone{shared: all, pmi: cfg.PMI}
	r.inquiry = inquiry{shared: all, mute: cfg.Exec != nil || cfg.PMI == job.NoProtocol}
	r.flights = flights{shared: all, verdict: &r.verdict}
	r.stalls = stalls{shared: all, cfg: r.cfg, inquiry: &r.inquiry, flights: &r.flights, slow: slow.Watch{Window: cfg.watchWindow()}}
	r.spawns = spawn.New(spawn.Config{Policy: cfg.Policy, Files: cfg.SpawnFiles, PerHost: apiv1.MaxProcs})
	if len(cfg.Plan.Warnings) > 0 { // they were said when it was made
		r.noticed[moreRanks] = true
	}
	for _, id := range cfg.Input {
		r.hungry[id] = true
	}
	for _, s := range cfg.Sites {
		r.sites.list = append(r.sites.list, &site{Site: s, host: -1})
	}
	first, hosts := &jobRun{apps: cfg.Apps}, []int(nil)
	for _, h := range cfg.Hosts {
		i := r.addHost(h)
		hosts = append(hosts, i)
		for _, s := range r.sites.list {
			if s.Name == h.Name {
				s.host = i
			}
		}
	}
	for _, a := range cfg.Apps {
		first.exports = append(first.exports, a.Env)
	}
	r.addJob(first, cfg.Plan, hosts)
	return r
}

// Start launches the first job.
func (r *Run) Start(now Now) []Order {
	r.begin(now)
	r.brief.launch(r.jobs[0])
	r.warnVersions(0)
	return r.take()
}

// Adopt begins a run whose ranks another launcher has started: its hosts tell what has become of them, each a Resumed first.
func (r *Run) Adopt(now Now) []Order {
	r.begin(now)
	r.jobs[0].told = r.brief.describe(r.jobs[0])
	r.succession.begin()
	return r.take()
}

// begin starts the clocks.
func (r *Run) begin(now Now) {
	r.now = now
	if r.cfg.Timeout > 0 {
		r.set(Limit, max(r.cfg.Timeout-now.Wall.Sub(r.cfg.Begun), 0))
	}
	if every := r.cfg.hangEvery(); every > 0 {
		r.set(Hang, every)
	}
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
		r.noteSignal(e.Number)
	case Resized:
		r.resize(e.Rows, e.Columns)
	case Expired:
		r.expired(e.Timer)
	case Unwritten:
		r.onUnwritten(e)
	case NotCopied:
		r.fail(verdict.Fault{Event: verdict.NotCopied, ID: -1, Node: -1, Text: e.Text, Errno: e.Errno})
	case Watched:
		f := verdict.Fault{Event: verdict.TimedOut, Limit: verdict.RuleLimit, ID: -1, Node: -1, Text: e.Text}
		switch {
		case r.job >= jobLeaving:
		case !e.Ends:
			r.say("%s", e.Text)
		case e.Hangs:
			f.Limit = verdict.WatchLimit
			r.giveUp(f)
		default:
			r.fail(f)
		}
	case Refused:
		r.nonsense(e.Host, e.Err)
	case HostsRead:
		r.spawns.HostsRead(e.Targets, e.Err)
		r.serveSpawns()
	case Reached:
		r.joined(e)
	case Grown:
		r.grown(e.Err)
	case Came:
		r.came(e)
	case SpareLost:
		r.say("spare %s is lost: %s", e.Host, e.Why)
	case Missed:
		r.onMissed(e)
	case Cancelled:
		if e.Fault != nil {
			r.fail(*e.Fault)
			r.judge()
		}
		r.stop("the launcher ends", false)
	case Over:
		r.failUnwritten()
		r.move(jobEnded)
		if line := r.stalls.slow.End(r.jobs[0].Size(), r.slowNames()); line != "" {
			r.say("%s", line)
		}
		r.judgeCulled()
		if f, ok := r.verdict.Cause(); !ok || !f.Uncalled { // else it is said that they did not call MPI_Init
			r.judgeAlone()
		}
		r.meet.sayTrainedAlone()
	}
	return r.take()
}

// judgeAlone fails a run whose ranks were each alone in MPI, or says that they may have been.
func (r *Run) judgeAlone() {
	if r.cfg.AloneOK {
		return
	}
	sentence, ranks := r.alone.failure(r.meet.meets)
	if sentence == "" || r.verdict.Any() {
		r.alone.warn(r.meet.meets)
		return
	}
	r.fail(verdict.Fault{Event: verdict.Alone, Node: -1, ID: -1, Ranks: ranks, Text: sentence})
}

func (r *Run) take() []Order {
	list := r.list
	r.list = nil
	return list
}

func (r *Run) expired(t Timer) {
	switch t {
	case Limit:
		r.giveUp(verdict.Fault{Event: verdict.TimedOut, ID: -1, Node: -1, Text: r.cfg.Timeout.String()})
	case Missing:
		r.meet.sayMissing(r.now.Wall)
	case Lone:
		r.meet.sayLone()
	case Hang:
		r.set(Hang, r.cfg.hangEvery())
		if r.job != jobLeaving && r.stalls.look(r.now.Clock) {
			r.inquired()
		}
	case Renewal:
		r.succession.renew(r.now.Wall)
	case Answers:
		r.inquired()
	case Grace: // the ranks have had their time after our INT, or after a TERM to us or to an agent
		why := r.sentence()
		if r.signals.first != 0 {
			why = "the launcher got " + job.SignalName(r.signals.first)
		}
		r.stop(why, r.job == jobLeaving)
	case Quiet:
		r.say("stopping the ranks: %s", r.sentence())
	case Room:
		r.spawns.Late()
		r.serveSpawns()
		r.judge()
	case Bound:
		r.abandon()
	case Files:
		r.filesLate()
	case Unread:
		r.failUnwritten()
		r.judge()
	}
}

// rankOf is the rank that a frame speaks of, if it speaks of one.
func rankOf(f *apiv1.Frame) (uint32, bool) {
	switch b := f.Body.(type) {
	case *apiv1.Frame_Output:
		return b.Output.Rank, true
	case *apiv1.Frame_Started:
		return b.Started.Rank, true
	case *apiv1.Frame_StartFailed:
		return b.StartFailed.Rank, true
	case *apiv1.Frame_OutputEnd:
		return b.OutputEnd.Rank, true
	case *apiv1.Frame_Exited:
		return b.Exited.Rank, true
	case *apiv1.Frame_Aborted:
		return b.Aborted.Rank, true
	case *apiv1.Frame_Control:
		return b.Control.Rank, true
	case *apiv1.Frame_WireupFailed:
		return b.WireupFailed.Rank, true
	case *apiv1.Frame_Credit:
		return b.Credit.Rank, true
	}
	return 0, false
}

// onFrame does what a host's frame asks for.
func (r *Run) onFrame(e Frame) {
	if rank, ok := rankOf(e.Frame); ok && !r.who.Owns(e.Host, rank) {
		r.nonsense(e.Host, fmt.Errorf("a frame about rank %d, which is not there", rank))
		return
	}
	if err := r.frame(e); err != nil {
		r.nonsense(e.Host, err)
	}
	r.idle(e.Host)
}

func (r *Run) frame(e Frame) error {
	h := e.Host
	switch b := e.Frame.Body.(type) {
	case *apiv1.Frame_Started:
		return r.onStarted(h, b.Started)
	case *apiv1.Frame_StartFailed:
		return r.onStartFailed(h, b.StartFailed)
	case *apiv1.Frame_Exited:
		return r.onExited(h, b.Exited, e.At)
	case *apiv1.Frame_OutputEnd:
		r.onOutputEnd(h, b.OutputEnd)
	case *apiv1.Frame_Aborted:
		return r.onAborted(h, b.Aborted, e.At)
	case *apiv1.Frame_Control:
		return r.onControl(h, b.Control)
	case *apiv1.Frame_Waits:
		if r.onFiles(h, b.Waits) {
			return nil
		}
		if b.Waits.Id == r.inquiry.id && r.inquiry.what == whoSlows {
			r.stalls.slow.Clock(r.hosts[h].Name, r.now.Wall, b.Waits.AskedNs, b.Waits.AnsweredNs)
		}
		done, err := r.inquiry.hear(h, b.Waits)
		if done {
			r.inquired()
		}
		return err
	case *apiv1.Frame_ContainerMemory:
		r.onMemory(h, b.ContainerMemory, e.At)
	case *apiv1.Frame_Activity:
		r.memories.note(h, b.Activity.Memory, b.Activity.MemoryLimit, e.At)
		return r.stalls.hear(r.now.Clock, h, b.Activity)
	case *apiv1.Frame_Waited:
		return r.stalls.waited(r.now, h, b.Waited)
	case *apiv1.Frame_Met:
		if b.Met.Loaded != "" {
			r.brief.loaded(b.Met.Framework)
		}
		return r.meet.hear(r.now.Wall, h, b.Met)
	case *apiv1.Frame_Flight:
		return r.flights.hear(h, b.Flight)
	case *apiv1.Frame_WireupFailed:
		return r.onWireupFailed(h, b.WireupFailed, e.At)
	case *apiv1.Frame_Chosen:
		return r.onChosen(h, b.Chosen)
	case *apiv1.Frame_Notice:
		if m := b.Notice; m.Warning || r.cfg.Verbose { // however many hosts say it, it is said as the first one's
			r.once(m.Text, "host "+r.hosts[h].Name+": "+m.Text)
		}
	case *apiv1.Frame_Ending:
		r.give(Note{report.Stopping, r.hosts[h].Name, b.Ending.Why})
		r.onEnding(h, b.Ending, e.At)
	case *apiv1.Frame_Closed:
		r.onClosed(h, b.Closed, e.At)
	case *apiv1.Frame_FenceEnter:
		r.sayStar()
		wired, wrong := r.exchange.Enter(h, b.FenceEnter)
		if wired {
			r.wired = true
			r.move(jobWired)
		}
		return r.torn(wrong)
	case *apiv1.Frame_Resumed:
		return r.onResumed(h, b.Resumed)
	case *apiv1.Frame_NameRequest:
		if b.NameRequest.Op == apiv1.NameOp_NAME_PUBLISH {
			r.succession.withdraw("a rank has published a name")
		}
		r.exchange.Name(h, b.NameRequest)
	case *apiv1.Frame_FetchRequest:
		r.exchange.Fetch(h, b.FetchRequest)
	case *apiv1.Frame_FetchResult:
		r.exchange.Answered(h, b.FetchResult)
	case *apiv1.Frame_SpawnRequest:
		return r.onSpawn(h, b.SpawnRequest)
	case *apiv1.Frame_Event:
		r.gone.forward(h, b.Event)
	case *apiv1.Frame_Rendezvous:
		return r.rendezvous(h, b.Rendezvous)
	case *apiv1.Frame_Credit: // of input, from a host whose rank gets none
	default:
		return fmt.Errorf("a frame %T, which is not for a launcher", b)
	}
	return nil
}

// onResumed: a host tells how it stands, and then what the launcher before this one was told.
func (r *Run) onResumed(h int, m *apiv1.Resumed) error {
	if err := r.succession.resumed(h, m); err != nil {
		return err
	}
	r.give(Note{report.Resumed, r.hosts[h].Name, fmt.Sprintf("%d ms without launcher", m.LostMs)})
	wired, err := r.exchange.Passed(h, m.Fences)
	r.succession.wired = r.succession.wired || wired
	r.succession.heard(h)
	return r.torn(err)
}

// torn ends a run whose ranks wait in a barrier that others have left.
func (r *Run) torn(err error) error {
	var t *exchange.Torn
	if !errors.As(err, &t) {
		return err
	}
	set, _, _ := strings.Cut(t.Set, "#")
	ids, _ := idset.Parse(set) // the exchange has read it
	r.fail(verdict.Fault{Event: verdict.Orphaned, Node: -1, ID: -1, Text: fmt.Sprintf("the barrier of %s was answered on host %s and not on host %s",
		r.named(ids), r.hosts[t.Told].Name, r.hosts[t.Waits].Name)})
	return nil
}
