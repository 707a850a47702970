package run

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mpiup/mpiup/docs"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/launcher/hang"
	"github.com/mpiup/mpiup/launcher/slow"
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
	picture hang.Picture
	said    int // notices so far
	what    question
	look    look
}

// question is what an inquiry is for.
type question uint8

const (
	whoWaits question = iota
	whetherStalled
	whetherInInit
	whereTheyAre
	whoIsAway // likewise, since one has waited in vain
	whySlow   // likewise, of who makes the others wait
	whoSlows
)

const (
	answerBound = 2 * time.Second // for all hosts together
	dumpBound   = 5 * time.Second // likewise, where agents ask for dumps of flight recorders first
	lookBound   = 5 * time.Second // likewise, for stacks
	lookPause   = time.Second     // between two looks
	longWait    = 60 * time.Second
	maxHoldups  = 8 // notices of one run
	maxNotes    = 3 // of a look
)

// ask asks every host with ranks, for a bounded time. done: there is none to be waited for.
func (q *inquiry) ask(what question) (done bool) {
	q.id++
	q.what = what
	q.open, q.picture = map[int]bool{}, hang.Picture{}
	dumps := what == whetherStalled || what == whoSlows || q.last
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

// hear takes a host's answer, or its word that ranks there have waited for long. done: all have answered.
func (q *inquiry) hear(h int, m *apiv1.Waits) (done bool, err error) {
	switch {
	case m.Id == 0:
		return q.open == nil && q.said < maxHoldups && q.job != jobStopping && q.ask(whoWaits), nil
	case m.Id != q.id || !q.open[h]:
		return false, nil // too late
	case q.what >= whereTheyAre:
		q.look.hear(q.shared, h, m)
	}
	report, err := hang.BarriersOf(m, len(q.ranks))
	q.picture.Add(report, q.who.On(h))
	delete(q.open, h)
	return len(q.open) == 0, err
}

// close ends an inquiry. all: every host has answered.
func (q *inquiry) close() (all bool) {
	all = len(q.open) == 0
	q.give(Unset{Answers})
	q.open = nil
	return all
}

// words are how barriers are told of.
func (q *inquiry) words() hang.Words {
	words := hang.Words{Places: q.places(), Names: q.named, Name: q.where}
	if !q.mute {
		words.Running = q.running()
	}
	return words
}

// tell says who has been waited for for long.
func (q *inquiry) tell() {
	lines := q.picture.Waiting(q.words(), longWait)
	for _, l := range lines {
		q.say("%s", l)
	}
	q.said += min(len(lines), 1)
}

// look is at where ranks are, before a run is ended that hangs or whose time is up. A second one bears out what the first tells of who is
// waited for.
//
//	who waits ──▶ stacks of the odd ones and of others ──▶ all wait for some in one call of MPI? a second later: still? ──▶ the run ends
type look struct {
	hung  *verdict.Fault // the run ends by it, unless it goes on meanwhile; nil: its time is up
	stall hang.Stall     // where it ends by one
	blame hang.Blame
	lines []string                                       // of the verdict
	tell  func(seen []hang.Stack) (hang.Blame, []string) // both once more, by what stacks show

	begun   time.Duration // Clock time
	asked   idset.Set
	all     bool // asked are all that run
	found   []hang.Stack
	notes   []string
	seen    []hang.Stack // at the first look
	outside hang.Outside // by the first look
	again   idset.Set    // that are looked at once more
	mixed   hang.Calls   // in which ranks wait for each other, by each look so far; nil: they do not
}

// hear takes what a host tells of those that it was asked for.
func (l *look) hear(s shared, h int, m *apiv1.Waits) {
	stacks, notes := hang.StacksOf(m, l.asked.Intersect(s.who.On(h)))
	for _, k := range stacks {
		at := s.who.Process(k.ID)
		k.Number, k.Rank, k.Host = uint32(at.Job), uint32(at.Rank), s.hosts[h].Name
		l.found = append(l.found, k)
	}
	for _, n := range notes {
		if len(l.notes) < maxNotes && !slices.ContainsFunc(l.notes, func(l string) bool { return strings.HasSuffix(l, ": "+n) }) {
			l.notes = append(l.notes, "where ranks of "+s.hosts[h].Name+" are: "+n)
		}
	}
}

// askStacks asks the hosts of processes where these are. done: there is none to be waited for.
func (q *inquiry) askStacks(what question, ids idset.Set, bound time.Duration) (done bool) {
	q.id++
	q.what, q.open = what, map[int]bool{}
	q.look.asked, q.look.found = ids, nil
	own := map[int]idset.Set{}
	for id := range ids.All() {
		s := own[q.who.HostOf(id)]
		s.Add(id)
		own[q.who.HostOf(id)] = s
	}
	for _, h := range q.live() {
		if ids := own[h]; !ids.Empty() {
			q.open[h] = true
			q.send(h, (&apiv1.AskWaits{Id: q.id, Stacks: ids.String(), WithinMs: uint32(q.within(what, bound).Milliseconds())}).Frame())
		}
	}
	q.set(Answers, bound)
	return len(q.open) == 0
}

// within is how long agents may look, so that what they have comes in time: 0 is as long as they like.
func (q *inquiry) within(what question, bound time.Duration) time.Duration {
	if what != whoIsAway {
		return 0
	}
	return max(bound-bound/8, time.Millisecond) // the way there and back
}

// unanswered are the hosts that have not answered.
func (q *inquiry) unanswered() string {
	var names []string
	for _, h := range slices.Sorted(maps.Keys(q.open)) {
		names = append(names, q.hosts[h].Name)
	}
	return hang.Some(names)
}

// left is how much of the time for looks there is.
func (l *look) left(now time.Duration) time.Duration { return l.begun + lookBound - now }

// activityEvery is how often agents look whether ranks work; 0: they do not. Commands, and ranks that are no job, do not
// wait for each other.
func (c *Config) activityEvery() time.Duration {
	if c.Stall.After == 0 || c.Exec != nil || c.Explain != 0 || c.Linger {
		return 0
	}
	return hang.Interval(c.Stall.After)
}

// memoryEvery is how often agents look at their containers' memory; 0: they do not. What a host used just before it was gone is the only trace
// of why.
func (c *Config) memoryEvery() time.Duration {
	if c.Exec != nil || c.Explain != 0 {
		return 0
	}
	return time.Second
}

// hangEvery is how often it is looked whether the run hangs; 0: never.
func (c *Config) hangEvery() time.Duration {
	if c.Exec != nil || c.Explain != 0 || c.Linger {
		return 0
	}
	return hang.LookEvery(c.activityEvery(), c.Stall.Init)
}

// stalls is what is known of whether the run hangs.
type stalls struct {
	shared
	cfg     *Config
	inquiry *inquiry
	flights *flights
	slow    slow.Watch // who makes the others wait
	second  hang.Opinions
	known   []docs.Known // of the ranks' libraries: that they are known to hang

	watch   hang.Watch
	told    bool          // of the stall that lasts
	doubted time.Duration // Clock time when it was last doubted that the stall that lasts ends the run; 0: never
	notices int           // so far
	begun   time.Duration // Clock time when all ranks ran; 0: not yet
	asked   time.Duration // Clock time when it was last asked who waits in MPI_Init; 0: never
	inInit  bool          // nobody is missing there any more, or it was said who is
}

// hear takes what a host tells of its ranks.
func (g *stalls) hear(now time.Duration, h int, m *apiv1.Activity) error {
	report, err := m.Seen(len(g.ranks))
	if err != nil {
		return err
	}
	own := g.who.On(h)
	g.watch.Hear(now, own, report)
	g.give(Seen{report.Works.Intersect(own), report.Busy.Intersect(own), report.Idle.Intersect(own), g.hosts[h].Name, m.Memory, m.MemoryLimit})
	return nil
}

// look asks all hosts who waits for whom when the run seems to hang. done: there is none to be waited for.
func (g *stalls) look(now time.Duration) (done bool) {
	running := g.running()
	if g.job == jobStopping || g.inquiry.open != nil || running.Empty() || len(g.ranks) == 1 && !g.cfg.Stall.Alone {
		return false
	}
	if g.begun == 0 && running.Len() == len(g.ranks) {
		g.begun = now
	}
	_, stalled := g.watch.Look(now, g.cfg.Stall.After, running)
	stalled = stalled && g.cfg.Stall.After > 0
	if g.told = g.told && stalled; !stalled {
		g.doubted = 0
	}
	const most = 3 // notices of one run
	switch {
	case g.cfg.Stall.Init > 0 && !g.inInit && g.begun > 0 && now-max(g.begun, g.asked) >= g.cfg.Stall.Init:
		return g.inquiry.ask(whetherInInit)
	case stalled && !g.told && (g.notices < most || g.cfg.Stall.Abort), stalled && g.doubted > 0 && now-g.doubted >= g.cfg.Stall.After:
		return g.inquiry.ask(whetherStalled)
	}
	return false
}

// facts are what is known of who is waited for.
func (g *stalls) facts(now, quiet time.Duration) hang.Facts {
	g.inquiry.picture.In(g.slow.Calls())
	return hang.Facts{Running: g.running(), Places: g.places(), Barriers: &g.inquiry.picture, Mute: g.inquiry.mute,
		Records: &g.flights.records, Watch: &g.watch, Now: now, Quiet: quiet}
}

// names are how odd ones out are told of.
func (r *roster) names() hang.Names {
	return hang.Names{Ranks: r.named, Rank: func(id int) string {
		return fmt.Sprintf("%s on %s (pid %d)", r.rankName(id), r.hosts[r.who.HostOf(id)].Name, r.ranks[id].pid)
	}}
}

// still says that the run hangs as it did before it was looked at, and those who are waited for run.
func (g *stalls) still(now time.Duration, f *verdict.Fault, b hang.Blame) bool {
	running := g.running()
	if ids := b.IDs(); f.Limit == verdict.InitLimit {
		return ids.Overlaps(running)
	}
	_, stalled := g.watch.Look(now, g.cfg.Stall.After, running)
	return stalled
}

// conclude says that the run hangs, or returns the fault that ends it and who is waited for, where every host has borne that out. A host
// that does not answer is another matter.
func (g *stalls) conclude(now time.Duration) (f *verdict.Fault, s hang.Stall, blame hang.Blame) {
	q := g.inquiry
	if !q.close() {
		return nil, s, blame
	}
	facts := g.facts(now, g.cfg.Stall.After)
	f = &verdict.Fault{Event: verdict.TimedOut, ID: -1, Node: -1}
	if q.what == whetherInInit {
		age := g.cfg.Stall.Init // of those who wait: a rank may come late, and others later still
		if g.asked == 0 {
			age = 0
		}
		g.asked = now
		if blame = facts.InInit(age); len(blame.Odd) == 0 {
			g.inInit = q.picture.Silent(facts.Running).Empty()
			return nil, s, blame
		}
		g.inInit = true
		f.Limit, f.Text = verdict.InitLimit, g.cfg.Stall.Init.String()
		if !g.cfg.Stall.Abort {
			g.notice(f.Sentence(), hang.AbortEnds, blame)
			return nil, s, blame
		}
		return f, s, blame
	}
	s, stalled := g.watch.Look(now, g.cfg.Stall.After, facts.Running)
	if !stalled {
		return nil, s, blame
	}
	blame = g.blame(facts)
	f.Limit, f.Text = verdict.StallLimit, g.cfg.Stall.After.String()
	if why := s.Doubt(); !g.cfg.Stall.Abort || why != "" {
		g.doubt(now, s, blame, why)
		return nil, s, blame
	}
	g.told = true
	return f, s, blame
}

// doubt tells of a stall that does not end the run, once while it lasts. why is for a run that was to be ended; it is looked at again after
// as long.
func (g *stalls) doubt(now time.Duration, s hang.Stall, blame hang.Blame, why string) {
	first := g.doubted == 0
	g.told = true
	if g.cfg.Stall.Abort {
		g.doubted = now
	}
	if !first {
		return
	}
	g.notice(s.Sentence(g.names()), s.Ends(), blame)
	if g.cfg.Stall.Abort {
		g.say("--on-stall abort does not end the run: %s", why)
	}
}

// notice says that the run hangs, and what --on-stall abort would do.
func (g *stalls) notice(sentence, ends string, blame hang.Blame) {
	g.notices++
	g.say("%s", sentence)
	for _, l := range blame.Lines(g.names()) {
		g.say("%s", l)
	}
	more := "see where each rank is: mpiup stacks"
	if !g.cfg.Stall.Abort {
		more += ends
	}
	g.say("%s; more: mpiup help hangs", more)
}
