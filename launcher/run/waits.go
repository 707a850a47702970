package run

import (
	"fmt"
	"strings"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/launcher/holdup"
	"github.com/mpiup/mpiup/launcher/stall"
	"github.com/mpiup/mpiup/launcher/verdict"
)

// inquiry asks all hosts who waits for whom: when one of them says that its ranks have waited for long, and
// at --timeout.
type inquiry struct {
	shared
	mute bool // ranks are offered neither PMI nor PMIx

	id      uint64
	open    map[int]bool // hosts that have not answered; nil: none is under way
	last    bool         // the time limit waits for it
	picture holdup.Picture
	said    int // notices so far
	what    question
}

// question is what an inquiry is for.
type question uint8

const (
	whoWaits question = iota
	whetherStalled
	whetherInInit
)

const (
	answerBound = 2 * time.Second // for all hosts together
	dumpBound   = 5 * time.Second // likewise, where agents ask for dumps of flight recorders first
	longWait    = 60 * time.Second
	maxHoldups  = 8 // notices of one run
)

// ask asks every host with ranks, for a bounded time. done: there is none to be waited for.
func (q *inquiry) ask(what question) (done bool) {
	q.id++
	q.what = what
	q.open, q.picture = map[int]bool{}, holdup.Picture{}
	dumps := what == whetherStalled || q.last
	for _, h := range q.live() {
		if q.hosts[h].running > 0 {
			q.open[h] = true
			q.send(h, (&apiv1.AskWaits{Id: q.id, Flight: dumps}).Frame())
		}
	}
	bound := answerBound
	if dumps {
		bound = dumpBound
	}
	q.set(Answers, bound)
	return len(q.open) == 0
}

// forHang says that an inquiry is under way because the run seems to hang.
func (q *inquiry) forHang() bool { return q.open != nil && q.what != whoWaits }

// asking says that the run waits for answers at the end of its time.
func (q *inquiry) asking() bool { return q.last && q.open != nil }

// hear takes a host's answer, or its word that ranks there have waited for long. done: all have answered.
func (q *inquiry) hear(h int, m *apiv1.Waits) (done bool, err error) {
	switch {
	case m.Id == 0:
		return q.open == nil && q.said < maxHoldups && q.job != jobStopping && q.ask(whoWaits), nil
	case m.Id != q.id || !q.open[h]:
		return false, nil // too late
	}
	report, err := HoldupOf(m)
	q.picture.Add(report, q.own(h))
	delete(q.open, h)
	return len(q.open) == 0, err
}

// HoldupOf is a host's answer as far as it keeps to the protocol; what does not is an error.
func HoldupOf(m *apiv1.Waits) (report holdup.Report, err error) {
	if report.Silent, err = idset.Parse(m.GetSilent()); err != nil {
		return report, err
	}
	for _, w := range m.GetWaits() {
		ids, _, _ := strings.Cut(w.Set, "#")
		sets, err := parseIDs(ids, w.Entered)
		if err != nil {
			return report, err
		}
		report.Open = append(report.Open, holdup.Barrier{Name: w.Set, Of: sets[0], Entered: sets[1], Age: time.Duration(w.Seconds) * time.Second})
	}
	return report, nil
}

// end makes words of what the hosts have answered until now: they are said, or where the time is up they are returned, for
// the verdict. ok: there was an inquiry, and it was the last one.
func (q *inquiry) end() (lines []string, ok bool) {
	if q.open == nil {
		return nil, false
	}
	q.give(Unset{Answers})
	q.open = nil
	words := holdup.Run{Names: q.named, Name: q.where}
	if !q.mute {
		words.Running = q.running()
	}
	if !q.last {
		lines, _ := q.picture.Waiting(words, longWait)
		for _, l := range lines {
			q.say("%s", l)
		}
		q.said += min(len(lines), 1)
		return nil, false
	}
	lines, culprit := q.picture.All(words)
	if culprit >= 0 {
		lines = append(lines, fmt.Sprintf("give it more time (--timeout), or look where it is: on %[1]s gdb -p %[2]d, or py-spy dump --pid %[2]d",
			q.hosts[q.of[culprit]].Name, q.ranks[culprit].pid))
	}
	return lines, true
}

// activityEvery is how often agents look whether ranks work; 0: they do not. Commands, and ranks that are no job, do not
// wait for each other.
func (c *Config) activityEvery() time.Duration {
	if c.Stall.After == 0 || c.Exec != nil || c.Explain != 0 || c.Linger {
		return 0
	}
	return stall.Interval(c.Stall.After)
}

// hangEvery is how often it is looked whether the run hangs; 0: never.
func (c *Config) hangEvery() time.Duration {
	every := c.activityEvery()
	if c.Stall.Init == 0 || c.Exec != nil || c.Explain != 0 || c.Linger {
		return every
	}
	init := max(c.Stall.Init/8, 100*time.Millisecond)
	if every == 0 {
		return init
	}
	return min(every, init)
}

// hang is what is known of whether the run hangs.
type hang struct {
	shared
	cfg     *Config
	inquiry *inquiry
	flights *flights

	watch   stall.Watch
	told    bool          // of the stall that lasts
	notices int           // so far
	begun   time.Duration // Clock time when all ranks ran; 0: not yet
	inInit  bool          // it was asked who waits in MPI_Init
}

// hear takes what a host tells of its ranks.
func (g *hang) hear(now time.Duration, h int, m *apiv1.Activity) error {
	sets, err := parseIDs(m.Works, m.Busy, m.Idle)
	if err != nil {
		return err
	}
	report := stall.Report{Works: sets[0], Busy: sets[1], Idle: sets[2]}
	const most, long = 16, 160
	for _, p := range m.Places[:min(len(m.Places), most)] {
		ids, err := idset.Parse(p.GetIds())
		if err != nil {
			return err
		}
		report.Places = append(report.Places, stall.Place{Where: fmt.Sprintf("%.*s", long, p.GetWhere()), IDs: ids})
	}
	g.watch.Hear(now, g.own(h), report)
	return nil
}

// look asks all hosts who waits for whom when the run seems to hang. done: there is none to be waited for.
func (g *hang) look(now time.Duration) (done bool) {
	running := g.running()
	if g.job == jobStopping || g.inquiry.open != nil || running.Empty() || len(g.ranks) == 1 && !g.cfg.Stall.Alone {
		return false
	}
	if g.begun == 0 && running.Len() == len(g.ranks) {
		g.begun = now
	}
	_, stalled := g.watch.Look(now, g.cfg.Stall.After, running, stall.Absent{})
	stalled = stalled && g.cfg.Stall.After > 0
	g.told = g.told && stalled
	const most = 3 // notices of one run
	switch {
	case g.cfg.Stall.Init > 0 && !g.inInit && g.begun > 0 && now-g.begun >= g.cfg.Stall.Init:
		return g.inquiry.ask(whetherInInit)
	case stalled && !g.told && (g.notices < most || g.cfg.Stall.Abort):
		return g.inquiry.ask(whetherStalled)
	}
	return false
}

// conclude says that the run hangs, or returns the fault that ends it, where every host has borne that out. A host that does not
// answer is another matter.
func (g *hang) conclude(now time.Duration) (f *verdict.Fault, lines []string) {
	q := g.inquiry
	all := len(q.open) == 0
	q.give(Unset{Answers})
	q.open = nil
	if !all {
		return nil, nil
	}
	names := stall.Names{Ranks: g.named, Rank: func(id int) string {
		return fmt.Sprintf("%s on %s (pid %d)", g.rankName(id), g.hosts[g.of[id]].Name, g.ranks[id].pid)
	}}
	running := g.running()
	silent, late := q.picture.Missing(running)
	absent := stall.Absent{Silent: silent, Late: late}
	f = &verdict.Fault{Event: verdict.TimedOut, ID: -1, Node: -1}
	var sentence string
	if q.what == whetherInInit {
		g.inInit = true
		if silent.Empty() {
			return nil, nil
		}
		f.Limit, f.Text, lines = verdict.InitLimit, g.cfg.Stall.Init.String(), stall.Uninitialized(absent, running).Lines(names)
		sentence = f.Sentence()
	} else {
		s, stalled := g.watch.Look(now, g.cfg.Stall.After, running, absent)
		if !stalled {
			return nil, nil
		}
		g.told = true
		if away := g.flights.away(); len(away) > 0 {
			s.Odd = nil
			for _, a := range away {
				lines = append(lines, a.Sentence())
			}
		} else {
			lines = s.Lines(names)
		}
		f.Limit, f.Text = verdict.StallLimit, g.cfg.Stall.After.String()
		sentence = s.Sentence(names)
	}
	if g.cfg.Stall.Abort {
		return f, lines
	}
	g.notices++
	g.say("%s", sentence)
	for _, l := range lines {
		g.say("%s", l)
	}
	g.say("see where each rank is: mpiup stacks; --on-stall abort ends such a run; more: mpiup help hangs")
	return nil, nil
}
