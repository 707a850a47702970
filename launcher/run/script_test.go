package run

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/launcher/hours"
	"github.com/mpiup/mpiup/launcher/placement"
	"github.com/mpiup/mpiup/launcher/report"
	"github.com/mpiup/mpiup/launcher/run/model"
	"github.com/mpiup/mpiup/launcher/spawn"
	"github.com/mpiup/mpiup/launcher/verdict"
	"github.com/mpiup/mpiup/test/golden"
)

// Each file of testdata holds runs: commands stand at the beginning of a line, the orders that follow are indented.
// go test -update writes the orders anew. Frames' texts stand last, and may have blanks.
//
//	run HOSTS RANKS [keepon recover linger pmix auto exec usr1 timeout=D stall=D init=D watch=D abort stacks input=IDS hold adopted]   a new run, of two slots a host
//	start ID | failed ID TEXT | exit ID CODE | killed ID SIGNAL | ours ID | cut ID | end ID  what a host says of a process
//	chose ID pmix|pmi1 | cull ID TARGETS [CODE] | control ID TARGETS SIGNAL [end]          what the host of a process says it speaks; what it does to others
//	abort ID CODE | unwired ID TEXT | stranded ID GONE | overfull ID | notice HOST TEXT | warn HOST TEXT
//	ending HOST TEXT | shutdown HOST TEXT | closed HOST TEXT | fenced HOST TEXT                            and of itself
//	long HOST | waits HOST SILENT [SET ENTERED]                                        who waits for whom
//	stacks HOST [ID=FRAME,FRAME...]... [TEXT]                                           where its ranks are; without the word in run, hosts say nothing of it
//	waited HOST ID=SECONDS...                                                          for how long its ranks have been in a collective over all; 0: in none
//	activity HOST WORKS BUSY IDLE                                                      what its ranks do; -: none
//	lost HOST TEXT | gone HOST | spare-lost NAME TEXT                                                       the end of its connection
//	signal NAME | expired TIMER | after DURATION | turn | over | unread | unwritten [ERRNO]
//	spawn ID PROGRAM PROCS [HOSTS] | reached NAME... | unreached TEXT | full TEXT      full: the next job's output has no place
//	resumed HOST MS [ID BYTES] [SET/EPOCH...] | enter HOST SET/EPOCH | publish HOST    of a run that was another launcher's
//	verdict | again                                                                       whether the ranks may start again
func TestScripts(t *testing.T) {
	golden.Play(t, func(t *testing.T, out *strings.Builder) func(string) {
		s := &script{t: t, out: out}
		return func(line string) {
			words := strings.Fields(line)
			s.do(words[0], words[1:])
			s.addUp()
		}
	})
}

type script struct {
	t    *testing.T
	out  *strings.Builder
	run  *Run
	now  Now
	full string // why there is no place for the output of the next job
	asks uint64
	tell bool // the script has what hosts say of stacks
	rec  report.Recorder
	at   time.Time // the recorder's clock, which goes on at each command
	size int
}

func (s *script) begin(args []string) {
	cfg := Config{Wishes: Wishes{PMI: job.PMI1, Apps: []job.App{{Argv: []string{"a.out"}, N: s.number(args[1])}}, Policy: placement.Policy{MapBy: placement.ByNode}}}
	s.tell = false
	for _, a := range args[2:] {
		name, value, _ := strings.Cut(a, "=")
		switch name {
		case "keepon":
			cfg.KeepOn = true
		case "recover":
			cfg.Recover, cfg.KeepOn = true, true
		case "linger":
			cfg.Linger = true
		case "usr1":
			cfg.Preempt.Signal = job.SIGUSR1
		case "pmix":
			cfg.PMI = job.PMIx
		case "auto":
			cfg.PMI = job.AutoProtocol
		case "exec":
			cfg.Exec = &apiv1.Exec{}
		case "timeout":
			cfg.Timeout, _ = time.ParseDuration(value)
		case "stall":
			cfg.Stall.After, _ = time.ParseDuration(value)
		case "init":
			cfg.Stall.Init, _ = time.ParseDuration(value)
		case "watch":
			cfg.Stall.Watch = true
			cfg.Stall.WatchWindow, _ = time.ParseDuration(value)
		case "abort":
			cfg.Stall.Abort = true
		case "stacks":
			s.tell = true
		case "hold":
			cfg.Hold = journal
		case "adopted":
			cfg.Adopted = true
		case "input":
			for id := range strings.SplitSeq(value, ",") {
				cfg.Input = append(cfg.Input, s.number(id))
			}
		default:
			s.t.Fatalf("run %s", a)
		}
	}
	var hosts []job.Host
	for i := range s.number(args[0]) {
		hosts = append(hosts, job.Host{Name: fmt.Sprintf("w%d", i), Slots: 2, SlotsGiven: true})
	}
	p := playing(s.t, cfg, hosts)
	s.run, s.now, s.asks = p.Run, Now{Wall: epoch, Clock: time.Millisecond}, 0
	s.rec, s.at, s.size = report.Recorder{}, epoch, s.number(args[1])
	s.rec.Begin(report.Report{Begun: epoch})
	for _, h := range hosts {
		s.rec.Host(report.Host{Name: h.Name, GPUs: gpus}, epoch)
	}
	if cfg.Adopted {
		s.take(s.run.Adopt(s.now))
	} else {
		s.take(s.run.Start(s.now))
	}
}

func (s *script) number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

// host is a host by its name or number.
func (s *script) host(text string) int { return s.number(strings.TrimPrefix(text, "w")) }

func (s *script) do(command string, args []string) {
	rest := func(n int) string { return strings.Join(args[min(n, len(args)):], " ") }
	of := func(f interface{ Frame() *apiv1.Frame }) {
		s.step(Frame{Host: s.run.who.HostOf(s.number(args[0])), Frame: f.Frame(), At: s.now.Clock})
	}
	from := func(f interface{ Frame() *apiv1.Frame }) {
		s.step(Frame{Host: s.host(args[0]), Frame: f.Frame(), At: s.now.Clock})
	}
	id := func() uint32 { return uint32(s.number(args[0])) }
	switch command {
	case "run":
		s.begin(args)
	case "start":
		of(&apiv1.Started{Rank: id(), Pid: int32(10 + id())})
	case "failed":
		of(&apiv1.StartFailed{Rank: id(), Text: rest(1)})
	case "exit":
		of(&apiv1.Exited{Rank: id(), Code: int32(s.number(args[1])), Pmi: apiv1.PmiState_PMI_FINALIZED})
	case "never":
		of(&apiv1.Exited{Rank: id(), Code: int32(s.number(args[1])), Pmi: apiv1.PmiState_PMI_NEVER})
	case "killed":
		of(&apiv1.Exited{Rank: id(), Signal: int32(s.number(args[1])), Pmi: apiv1.PmiState_PMI_FINALIZED})
	case "ours", "cut":
		n := map[string]int32{"ours": job.SIGTERM, "cut": job.SIGKILL}[command]
		of(&apiv1.Exited{Rank: id(), Signal: n, StoppedByUs: true, Pmi: apiv1.PmiState_PMI_FINALIZED})
	case "end":
		of(&apiv1.OutputEnd{Rank: id()})
	case "abort":
		of(&apiv1.Aborted{Rank: id(), Code: int32(s.number(args[1])), Id: 5})
	case "chose": // chose ID pmix|pmi1
		protocol := map[string]apiv1.Pmi{"pmix": apiv1.Pmi_PMI_PMIX, "pmi1": apiv1.Pmi_PMI_FD}[args[1]]
		p := s.run.who.Process(s.number(args[0]))
		of(&apiv1.Chosen{Job: uint32(p.Job), App: uint32(s.run.who.Placed(s.number(args[0])).App), Pmi: protocol})
	case "control":
		of(&apiv1.Control{Rank: id(), Targets: args[1], Signal: int32(s.number(args[2])), End: len(args) > 3})
	case "cull":
		of(&apiv1.Aborted{Rank: id(), Targets: args[1], Code: int32(s.number(cmp.Or(rest(2), "0")))})
	case "stranded":
		of(&apiv1.WireupFailed{Rank: id(), Text: "the barrier cannot end", Gone: args[1]})
	case "unwired":
		of(&apiv1.WireupFailed{Rank: id(), Text: rest(1)})
	case "overfull":
		of(&apiv1.WireupFailed{Rank: id(), Text: "a fence carries too much", Cause: apiv1.Stranding(job.StrandedByLimit)})
	case "notice", "warn":
		from(&apiv1.Notice{Text: rest(1), Warning: command == "warn"})
	case "ending":
		from(&apiv1.Ending{Why: rest(1)})
	case "shutdown":
		from(&apiv1.Ending{Why: rest(1), Shutdown: true})
	case "closed":
		from(&apiv1.Closed{Text: rest(1)})
	case "fenced":
		from(&apiv1.Closed{Text: rest(1), Refusal: apiv1.Refusal_REFUSAL_FENCED})
	case "long":
		from(&apiv1.Waits{})
	case "waits":
		w := &apiv1.Waits{Id: s.run.inquiry.id}
		if len(args) >= 4 {
			w.Waits = []*apiv1.Wait{{Set: args[2], Entered: args[3]}}
		}
		if len(args) == 5 {
			w.Waits[0].Seconds = uint32(s.number(args[4]))
		}
		if len(args) > 1 {
			w.Silent = strings.Trim(args[1], "-")
		}
		from(w)
	case "stacks":
		w := &apiv1.Waits{Id: s.run.inquiry.id}
		for i, a := range args[1:] {
			id, frames, ok := strings.Cut(a, "=")
			if !ok {
				w.Notes = []string{rest(1 + i)}
				break
			}
			n := s.number(id)
			w.Stacks = append(w.Stacks, &apiv1.ProcStack{Id: uint32(n), Pid: int32(10 + n), Means: "eu-stack", Frames: strings.Split(frames, ",")})
		}
		from(w)
	case "waited":
		m := &apiv1.Waited{AtNs: int64(s.now.Clock + time.Hour)}
		for _, a := range args[1:] {
			id, seconds, _ := strings.Cut(a, "=")
			w := &apiv1.RankWaited{Id: uint32(s.number(id)), State: apiv1.WatchState_WATCH_MEASURED, Seq: 7}
			if long := s.number(seconds); long > 0 {
				w.InsideNs, w.Call = m.AtNs-int64(time.Duration(long)*time.Second), "MPI_Allreduce"
			}
			m.Ranks = append(m.Ranks, w)
		}
		from(m)
	case "activity":
		ids := func(n int) string {
			if args[n] == "-" {
				return ""
			}
			return args[n]
		}
		from(&apiv1.Activity{Looked: 23, Works: ids(1), Busy: ids(2), Idle: ids(3)})
	case "resumed":
		m := &apiv1.Resumed{LostMs: uint64(s.number(args[1]))}
		words := args[2:]
		if len(words) > 1 && !strings.Contains(words[0], "/") {
			m.Dropped = append(m.Dropped, &apiv1.Dropped{Rank: uint32(s.number(words[0])), Bytes: uint64(s.number(words[1]))})
			words = words[2:]
		}
		for _, w := range words {
			m.Fences = append(m.Fences, strings.Replace(w, "/", " ", 1))
		}
		from(m)
	case "enter":
		set, epoch, _ := strings.Cut(args[1], "/")
		from(&apiv1.FenceEnter{Set: set, Epoch: uint64(s.number(epoch))})
	case "publish":
		from(&apiv1.NameRequest{Id: 1, Op: apiv1.NameOp_NAME_PUBLISH, Service: "s", Value: []byte("v")})
	case "lost":
		s.step(Ended{Host: s.host(args[0]), Lost: &model.Lost{Why: rest(1), Since: s.now.Clock}})
	case "told":
		s.step(Ended{Host: s.host(args[0]), Lost: &model.Lost{Told: true, Since: 1, Why: "it was not handed over"}})
	case "spare-lost":
		s.step(SpareLost{args[0], rest(1)})
	case "came":
		s.step(Came{Hosts: args[0], Size: 4})
	case "gone":
		s.step(Ended{Host: s.host(args[0])})
	case "signal":
		n := map[string]int{"INT": job.SIGINT, "TERM": job.SIGTERM, "TSTP": job.SIGTSTP, "CONT": job.SIGCONT, "USR1": job.SIGUSR1, "HUP": job.SIGHUP, "QUIT": job.SIGQUIT}[args[0]]
		s.step(Signal{n})
	case "expired":
		s.step(Expired{Timer(slices.Index(timerNames, args[0]))})
	case "after":
		d, err := time.ParseDuration(args[0])
		if err != nil {
			s.t.Fatal(err)
		}
		s.now.Wall, s.now.Clock = s.now.Wall.Add(d), s.now.Clock+d
	case "turn":
		s.step(Turn{})
	case "over":
		s.step(Over{})
	case "unread":
		s.step(Unwritten{Reader: true, Errno: "EPIPE", Text: "standard output: no"})
	case "unwritten":
		e := Unwritten{Text: "standard output: no"}
		if len(args) > 0 {
			e.Errno = args[0]
		}
		s.step(e)
	case "spawn":
		s.asks++
		app := &apiv1.SpawnApp{App: &apiv1.App{Argv: []string{args[1]}}, Procs: uint32(s.number(args[2])), Hosts: args[3:], MapBy: "slot"}
		of(&apiv1.SpawnRequest{Id: s.asks, Parent: id(), Apps: []*apiv1.SpawnApp{app}})
	case "reached":
		var e Reached
		for _, name := range args {
			e.Sites = append(e.Sites, model.Host{Name: name, Slots: 2, CPUs: 2})
		}
		s.step(e)
	case "unreached":
		s.step(Reached{Err: errors.New(rest(0))})
	case "full":
		s.full = rest(0)
	case "again":
		again, _ := s.run.Verdict().Again()
		fmt.Fprintf(s.out, "  %t\n", again)
	case "verdict":
		fmt.Fprintf(s.out, "  %d\n", s.run.Verdict().Exit())
		for _, l := range s.run.Verdict().Explain() {
			fmt.Fprintf(s.out, "  %s\n", l)
		}
		if v, bad := s.run.Verdict().Verdict(verdict.Circumstances{}); bad && v.Confidence != "" {
			who := v.Ranks
			if v.Rank != nil {
				who = fmt.Sprintf("%d on %s", *v.Rank, v.Host)
			}
			fmt.Fprintf(s.out, "  %s: %s\n", v.Confidence, who)
		}
		if v, _ := s.run.Verdict().Verdict(verdict.Circumstances{}); len(v.Stacks) > 0 {
			for _, k := range v.Stacks {
				fmt.Fprintf(s.out, "  %s\n", k.Sentence())
			}
		}
	default:
		s.t.Fatalf("%s is no command", command)
	}
}

// gpus is how many each host has: its ranks cannot share them evenly.
const gpus = 3

// addUp lets time pass, and sees that what the ranks' time went into is all of it, whatever has happened.
func (s *script) addUp() {
	s.t.Helper()
	s.at = s.at.Add(time.Duration(1+len(s.out.String())%977) * time.Millisecond)
	s.rec.Stands(s.at, s.run.Stand())
	on, sum := map[int]bool{}, hours.Spent{}
	for id := range s.size {
		on[s.run.who.HostOf(id)] = true
	}
	for _, spent := range s.rec.Report(report.Report{Ended: s.at}).Spent {
		sum.Ranks, sum.GPUs = sum.Ranks+spent.Ranks, sum.GPUs+spent.GPUs
	}
	long := s.at.Sub(epoch).Seconds()
	if ranks, all := long*float64(s.size), long*float64(gpus*len(on)); math.Abs(sum.Ranks-ranks) > 1e-6 || math.Abs(sum.GPUs-all) > 1e-6 {
		s.t.Fatalf("%d ranks for %v s: %v rank-seconds and %v GPU-seconds are accounted for, want %v and %v, after\n%s", s.size, long, sum.Ranks, sum.GPUs, ranks, all, s.out)
	}
}

func (s *script) step(e Event) { s.take(s.run.Step(s.now, e)) }

var timerNames = []string{"quiet", "grace", "bound", "room", "answers", "missing", "lone", "limit", "hang", "renewal", "unread"}

// take shows orders, but for what only a report has, and answers those that are answered at once.
func (s *script) take(orders []Order) {
	var answers []Event
	for _, o := range orders {
		line := ""
		s.record(o)
		switch o := o.(type) {
		case Send:
			line = fmt.Sprintf("w%d %s", o.Host, shown(o.Frame))
			if q := o.Frame.GetAskWaits(); q.GetStacks() != "" && !s.tell {
				answers = append(answers, Frame{Host: o.Host, Frame: (&apiv1.Waits{Id: q.Id}).Frame(), At: s.now.Clock})
			}
		case Say:
			line = "say " + o.Line
		case Set:
			line = fmt.Sprintf("set %s %v", timerNames[o.Timer], o.After)
		case Unset:
			line = "unset " + timerNames[o.Timer]
		case Finish:
			line = fmt.Sprintf("finish w%d", o.Host)
		case EndOutput:
			line = fmt.Sprintf("end output of %d", o.ID)
		case Feed:
			line = "feed"
		case Unblock:
			line = "unblock"
		case Grow:
			if answers = append(answers, Grown{}); s.full != "" {
				answers[len(answers)-1], s.full = Grown{errors.New(s.full)}, ""
			}
		case Place:
			var on []int
			for id, end := o.Job.IDs(); id < end; id++ {
				on = append(on, o.Roster.HostOf(id))
			}
			line = fmt.Sprintf("place job %d on %v", o.Job.Number, on)
		case ReadHosts:
			targets, err := spawn.Targets(o.Programs, nil)
			answers = append(answers, HostsRead{targets, err})
		case Reach:
			var has []string
			for _, h := range o.Has {
				has = append(has, fmt.Sprintf("w%d", h))
			}
			line = fmt.Sprintf("reach %v beside %v", o.Names, has)
		case Enlist:
			line = "enlist " + o.Site
		}
		if line != "" {
			fmt.Fprintf(s.out, "  %s\n", line)
		}
	}
	for _, e := range answers {
		s.step(e)
	}
}

// record notes an order as the launcher does (driver.do).
func (s *script) record(o Order) {
	switch o := o.(type) {
	case Place:
		if o.Job.Number > 0 {
			return
		}
		var ranks []report.Rank
		for i, p := range o.Job.Plan.Placements {
			ranks = append(ranks, report.Rank{Rank: i, Host: o.Job.Plan.Hosts[p.Host].Name})
			s.rec.Rank(ranks[i])
		}
		s.rec.Places(s.at, ranks)
	case Started:
		s.rec.Started(s.at, o.ID, o.PID)
	case NotStarted:
		s.rec.Ended(s.at, o.ID, o.Why)
	case Exited:
		s.rec.Ended(s.at, o.ID, "")
	case HostLost:
		s.rec.LostHost(s.at, s.at.Add(-o.Silent), o.Host, o.Why)
	case Note:
		s.rec.Event(s.at, report.Event{Kind: o.Kind, Host: o.Host, Text: o.Text})
	}
}

// shown is a frame in a line.
func shown(f *apiv1.Frame) string {
	switch b := f.Body.(type) {
	case *apiv1.Frame_Launch:
		l := b.Launch
		text := fmt.Sprintf("launch job %d from %d:", l.Job.Number, l.Job.Base)
		for _, p := range l.Procs {
			text += fmt.Sprintf(" %d", p.Rank)
		}
		if len(l.Procs) == 0 {
			text += " none here"
		}
		if n := l.Job.PreemptSignal; n != 0 && n != job.SIGTERM {
			text += fmt.Sprintf(", preempted by signal %d", n)
		}
		return text
	case *apiv1.Frame_AskWaits:
		if b.AskWaits.Stacks != "" {
			return "askstacks of " + b.AskWaits.Stacks
		}
	case *apiv1.Frame_Stop:
		if b.Stop.Now {
			return "stop at once: " + b.Stop.Why
		}
		return "stop: " + b.Stop.Why
	case *apiv1.Frame_Signal:
		text := fmt.Sprintf("signal %d to %v", b.Signal.Number, b.Signal.Ranks)
		if b.Signal.Once {
			text += " once"
		}
		return text
	case *apiv1.Frame_SpawnResult:
		return strings.TrimSpace(fmt.Sprintf("spawn result %d: job %d %s", b.SpawnResult.Id, b.SpawnResult.Job, b.SpawnResult.Error))
	case *apiv1.Frame_Gone:
		return fmt.Sprintf("gone %s code %d signal %d host %v wanted %v", b.Gone.Ids, b.Gone.Code, b.Gone.Signal, b.Gone.Host, b.Gone.Wanted)
	case *apiv1.Frame_Hold:
		if b.Hold.Withdrawn != "" {
			return "hold withdrawn: " + b.Hold.Withdrawn
		}
	case *apiv1.Frame_FenceResult:
		return strings.TrimSpace(fmt.Sprintf("fence %s/%d %s", b.FenceResult.Set, b.FenceResult.Epoch, b.FenceResult.Error))
	case *apiv1.Frame_JobOver:
		return fmt.Sprintf("job %d over, mute %v", b.JobOver.Job, b.JobOver.Mute)
	}
	name, _, _ := strings.Cut(strings.TrimPrefix(fmt.Sprintf("%T", f.Body), "*apiv1.Frame_"), " ")
	return strings.ToLower(strings.TrimPrefix(name, "*v1.Frame_"))
}

// journal is what another launcher needs, as hosts get it.
func journal(at time.Time) *apiv1.Hold {
	return &apiv1.Hold{Journal: []byte("journal"), SignedS: uint64(at.Unix())}
}
