package phases

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/hostlist"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/launcher/report"
	"github.com/mpiup/mpiup/launcher/run"
	"github.com/mpiup/mpiup/launcher/run/model"
	"github.com/mpiup/mpiup/launcher/verdict"
	"github.com/mpiup/mpiup/test/golden"
)

// Each file of testdata plays whole runs, from the search for hosts to the end, attempts and all, without a host, a clock or a goroutine: what
// is done next, and what is said, is indented below each line. go test -update writes that anew.
//
//	run RANKS [spares=N] [restarts=N] [elastic=MIN:BEGIN:MAX] [hold]     a run that is about to seek
//	sought NAME...                                                     its hosts
//	answers NAME:SLOTS NAME:tried NAME:not... [ended] [over] [late] [found]   who is here, was asked in vain, has not answered
//	held HOST LAUNCHER mine|other [taken]                              a host holds ranks of a launcher that is lost
//	adopted RANKS-PER-HOST NAME... | vain                              what came of a takeover
//	seat | rested                                                      what was ordered is done; seat begins an attempt
//	start ID | exit ID CODE | ours ID | end ID | ending NAME | lost NAME TEXT | gone NAME | resumed NAME | came NAME SIZE    what the attempt is told
//	turn | attempted [AFTER]                                           at its end
//
// The drawing in the package's comment is of what they play.
func TestScripts(t *testing.T) {
	played, players := map[move]bool{}, 0
	golden.Play(t, func(t *testing.T, out *strings.Builder) func(string) {
		players++
		s := &script{t: t, out: out, played: played, now: run.Now{Wall: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Clock: time.Hour}}
		return func(line string) {
			words := strings.Fields(line)
			s.do(words[0], words[1:])
			s.addUp()
		}
	})
	var table []golden.Move
	for _, m := range slices.SortedFunc(maps.Keys(played), func(a, b move) int {
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to), strings.Compare(a.told, b.told))
	}) {
		table = append(table, golden.Move{From: done[m.from], Event: m.told, To: done[m.to]})
	}
	if files, _ := filepath.Glob("testdata/*.txt"); players == len(files) { // else only some were asked for
		golden.Drawing(t, "phases.go", "What is to be done, and what tells what came of it:", table)
	}
}

// move is from what was to be done, by what was told, to what is to be done next.
type move struct {
	from Do
	told string
	to   Do
}

var done = [...]string{"seek", "gather", "adopt", "place", "attempt", "rest", "end"}

type script struct {
	t       *testing.T
	played  map[move]bool
	doing   Do
	out     *strings.Builder
	now     run.Now
	cfg     Config
	hold    bool
	course  *Run
	answers []Answer
	choice  Choice
	plan    *job.Plan
	attempt *run.Run

	rec       report.Recorder // of the run, whose clock goes on at each command
	at, seats time.Time       // now, and since when this attempt's ranks have theirs
	want      time.Duration   // of all ranks, in attempts before
}

func (s *script) number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

// host is the index of one that has ranks.
func (s *script) host(name string) int {
	return slices.IndexFunc(s.plan.Hosts, func(h job.Host) bool { return h.Name == name })
}

func (s *script) do(command string, args []string) {
	frame := func(h int, f *apiv1.Frame) { s.step(run.Frame{Host: h, Frame: f, At: s.now.Clock}) }
	of := func(f *apiv1.Frame) {
		id := s.number(args[0])
		frame(s.plan.Placements[id].Host, f)
	}
	switch command {
	case "run":
		s.begin(args)
	case "sought":
		var all []model.Wanted
		for _, name := range args {
			all = append(all, model.Wanted{Entry: hostlist.Entry{Name: name}})
		}
		s.take("Sought", s.course.Sought(all))
	case "answers":
		s.gathered(args)
	case "held":
		own := Held{Command: []byte("mine"), Text: "mine"}
		h := Held{Launcher: args[1], Command: []byte(args[2]), Text: args[2], Taken: len(args) > 3, Left: time.Minute}
		s.take("Held", s.course.Held(args[0], []Held{h}, own, s.hold))
	case "vain":
		s.take("Adopted", s.course.Adopted(false, false, 0, "l0", nil))
	case "adopted":
		s.answers = nil
		for _, name := range args[1:] {
			s.answers = append(s.answers, answer(name, s.number(args[0])))
		}
		s.take("Adopted", s.course.Adopted(true, false, 0, "l0", nil))
		s.begun(Places(s.answers), s.answers, true)
	case "seat":
		s.seat()
	case "rested":
		s.take("Rested", s.course.Rested())
	case "start":
		of((&apiv1.Started{Rank: uint32(s.number(args[0])), Pid: 7}).Frame())
	case "exit":
		of((&apiv1.Exited{Rank: uint32(s.number(args[0])), Code: int32(s.number(args[1])), Pmi: apiv1.PmiState_PMI_FINALIZED}).Frame())
	case "ours":
		of((&apiv1.Exited{Rank: uint32(s.number(args[0])), Signal: job.SIGTERM, StoppedByUs: true, Pmi: apiv1.PmiState_PMI_FINALIZED}).Frame())
	case "end":
		of((&apiv1.OutputEnd{Rank: uint32(s.number(args[0]))}).Frame())
	case "ending":
		frame(s.host(args[0]), (&apiv1.Ending{Why: "its pod is taken away"}).Frame())
	case "resumed":
		frame(s.host(args[0]), (&apiv1.Resumed{LostMs: 4000}).Frame())
	case "lost":
		s.step(run.Ended{Host: s.host(args[0]), Lost: &model.Lost{Why: strings.Join(args[1:], " "), Since: s.now.Clock}})
	case "gone":
		s.step(run.Ended{Host: s.host(args[0])})
	case "came":
		s.step(run.Came{Hosts: args[0], Size: s.number(args[1])})
	case "turn":
		s.step(run.Turn{})
	case "attempted":
		s.attempted(args)
	default:
		s.t.Fatalf("%s is no command", command)
	}
}

func (s *script) begin(args []string) {
	s.cfg = Config{Wish: Wish{Apps: []job.App{{Argv: []string{"a.out"}, N: s.number(args[0])}}, PerHost: 64}}
	s.hold = slices.Contains(args, "hold")
	for _, a := range args[1:] {
		switch name, value, _ := strings.Cut(a, "="); name {
		case "spares":
			s.cfg.Spares = s.number(value)
		case "restarts":
			s.cfg.MaxRestarts = s.number(value)
		case "elastic":
			n := strings.Split(value, ":")
			s.cfg.Elastic = job.Elastic{Min: s.number(n[0]), Begin: s.number(n[1]), Max: s.number(n[2])}
			s.cfg.Apps[0].N = 0
		}
	}
	s.course, s.attempt, s.plan, s.doing = New(s.cfg), nil, nil, Seek
	s.at = s.now.Wall
	s.seats, s.want, s.rec = s.at, 0, report.Recorder{}
	s.rec.Begin(report.Report{Begun: s.at})
}

func answer(name string, slots int) Answer {
	return Answer{Wanted: model.Wanted{Entry: hostlist.Entry{Name: name}}, Host: &model.Host{Name: name, Stated: name, Slots: slots}}
}

func (s *script) gathered(args []string) {
	g := Gathered{Within: "5m0s (--wait)"}
	for _, a := range args {
		name, what, is := strings.Cut(a, ":")
		switch {
		case !is:
			*map[string]*bool{"ended": &g.Ended, "over": &g.Over, "late": &g.Late, "found": &g.Found}[a] = true
		case what == "tried" || what == "not":
			g.Answers = append(g.Answers, Answer{Wanted: model.Wanted{Entry: hostlist.Entry{Name: name}}, Tried: what == "tried"})
		default:
			g.Answers = append(g.Answers, answer(name, s.number(what)))
		}
	}
	s.answers = g.Answers
	s.take("Gathered", s.course.Gathered(g))
}

// seat places the ranks and begins an attempt.
func (s *script) seat() {
	var chosen []Answer
	var seated []job.Host
	if s.choice.Answers == nil {
		for i := range s.course.First(s.course.Known) {
			chosen = append(chosen, s.answers[i])
		}
		seated = Places(chosen)
	} else {
		for _, at := range s.choice.Answers {
			chosen = append(chosen, s.answers[at])
		}
		var say []string
		seated, say = s.course.Seat(s.choice, chosen)
		s.say(say)
	}
	s.played[move{s.doing, "placed", Attempt}] = true
	s.doing = Attempt
	s.begun(seated, chosen, false)
}

func (s *script) begun(seated []job.Host, hosts []Answer, adopted bool) {
	w := s.cfg.Wish
	w.Apps = slices.Clone(w.Apps)
	if s.cfg.Elastic.On() {
		w.Apps[0].N = s.choice.Sum
	}
	if s.plan != nil {
		s.want += s.at.Sub(s.seats) * time.Duration(len(s.plan.Placements))
		s.rec.Restart(s.at, report.Restart{})
		s.seats = s.at
	}
	var err error
	if s.plan, err = w.Plan(seated); err != nil {
		s.t.Fatalf("%v, after\n%s", err, s.out)
	}
	cfg := run.Config{Wishes: run.Wishes{Apps: w.Apps, MaxRestarts: s.cfg.MaxRestarts}, Grace: 5 * time.Second, TermGrace: 25 * time.Second, Begun: s.now.Wall, ID: "run",
		Plan: s.plan, Adopted: adopted, Namespace: func() string { return "n" }, Self: func(string) bool { return false }, Errno: func(int32) (string, string) { return "", "" }}
	for i, h := range s.plan.Hosts {
		cfg.Hosts, cfg.Sites = append(cfg.Hosts, *hosts[i].Host), append(cfg.Sites, model.Site{Host: h})
	}
	fmt.Fprintf(s.out, "  ranks on")
	for i, ranks := range s.plan.On() {
		fmt.Fprintf(s.out, " %s: %v", s.plan.Hosts[i].Name, ranks)
	}
	fmt.Fprintln(s.out)
	var ranks []report.Rank
	for i, p := range s.plan.Placements {
		ranks = append(ranks, report.Rank{Rank: i, Host: s.plan.Hosts[p.Host].Name})
		s.rec.Rank(ranks[i])
	}
	s.rec.Places(s.at, ranks)
	if s.attempt = run.New(cfg); adopted {
		s.orders(s.attempt.Adopt(s.now))
	} else {
		s.orders(s.attempt.Start(s.now))
	}
}

func (s *script) step(e run.Event) { s.orders(s.attempt.Step(s.now, e)) }

// orders shows what users and hosts are told of an attempt.
func (s *script) orders(list []run.Order) {
	for _, o := range list {
		switch o := o.(type) {
		case run.Started:
			s.rec.Started(s.at, o.ID, o.PID)
		case run.Exited:
			s.rec.Ended(s.at, o.ID, "")
		case run.Note:
			s.rec.Event(s.at, report.Event{Kind: o.Kind, Host: o.Host})
		case run.Say:
			s.say([]string{o.Line})
		case run.Send:
			if stop := o.Frame.GetStop(); stop != nil {
				fmt.Fprintf(s.out, "  %s stop: %s\n", s.plan.Hosts[o.Host].Name, stop.Why)
			}
		}
	}
}

// attempted tells how the attempt has ended.
func (s *script) attempted(args []string) {
	s.step(run.Over{})
	o := Outcome{At: s.now.Wall, Ranks: len(s.plan.Placements)}
	if len(args) > 0 {
		o.Ran, _ = time.ParseDuration(args[0])
	}
	if cause, bad := s.attempt.Verdict().Cause(); bad {
		o.Cause = cause.Sentence()
		o.Mends, o.Refused = s.attempt.Verdict().Again()
		o.Why, _ = s.attempt.Verdict().Verdict(verdict.Circumstances{})
	}
	if came, grows := s.attempt.Grows(); grows {
		o.Came, o.Size = came.Hosts, came.Size
	}
	losses := s.attempt.Losses()
	for i, ranks := range s.plan.On() {
		o.Seats = append(o.Seats, Seat{Host: s.plan.Hosts[i].Name, Ranks: ranks, Lost: losses[i] != nil})
	}
	next := s.course.Attempted(o)
	if s.attempt = nil; next.Do == Rest {
		s.rec.Enter(s.at, "gathering")
	}
	s.take("Attempted", next)
}

// addUp lets time pass, and sees that the ranks' time is accounted for, over all attempts.
func (s *script) addUp() {
	if s.plan == nil {
		return
	}
	s.at = s.at.Add(time.Duration(1+len(s.out.String())%977) * time.Millisecond)
	if s.attempt != nil {
		s.rec.Stands(s.at, s.attempt.Stand())
	}
	sum := 0.0
	for _, spent := range s.rec.Report(report.Report{Ended: s.at}).Spent {
		sum += spent.Ranks
	}
	if want := s.want + s.at.Sub(s.seats)*time.Duration(len(s.plan.Placements)); math.Abs(sum-want.Seconds()) > 1e-6 {
		s.t.Fatalf("%v rank-seconds are accounted for, want %v, after\n%s", sum, want.Seconds(), s.out)
	}
}

func (s *script) say(lines []string) {
	for _, l := range lines {
		fmt.Fprintf(s.out, "  say %s\n", l)
	}
}

// take shows what is to be done next, by what was told.
func (s *script) take(told string, o Order) {
	s.played[move{s.doing, told, o.Do}] = true
	s.doing = o.Do
	if s.say(o.Say); o.Failure != nil {
		fmt.Fprintf(s.out, "  %d %s\n", o.Failure.Code, strings.Join(o.Failure.Lines, "\n  "))
	}
	s.choice = o.Choice
	text := done[o.Do]
	for _, w := range o.Want {
		text += " " + w.Entry.Name
	}
	if o.All {
		text += ", all of them"
	}
	if o.Look {
		text += ", and who is found now"
	}
	if o.Pause {
		text += ", after a moment"
	}
	if o.Do == Rest {
		text += fmt.Sprintf(" %v", s.course.Again.Pause)
	}
	fmt.Fprintf(s.out, "  %s\n", text)
}
