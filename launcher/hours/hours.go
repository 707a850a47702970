// Package hours adds up where the time of a run's ranks goes. PURE.
//
//	phases, seats, starts, ends, steps, stalls ──▶ Book ──Told──▶ Spent   the report, metrics, and a sentence at the end
//	                                                └────Handed─▶ Account ──Takes──▶ the Book of the launcher that takes the run over
//
// Each moment of each rank of the command line's job goes into one cause (docs/report.md defines them), so that all causes add up to ranks × time.
//
// A Book belongs to one goroutine. It has no clock: times are handed in. It looks at nothing that others have not seen already.
package hours

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Stand is how a run stands, as those see it who drive it.
type Stand struct {
	Phase   string         // one of Phases
	Ranks   map[string]int // by state
	Hosts   int            // that it is connected with
	Quiet   time.Time      // since when no rank has shown work; zero: one does, or nobody looks
	Stalled bool           // that is a stall
	For     map[int]string // the host of each rank that the others wait for, where some are named
	Lost    float64        // the share of the time that these lose by it
	Step    time.Duration  // from one step of a training to the next, by calls of NCCL; 0: that does not show
}

// Phases are how far a run has come, in their order.
var Phases = []string{"gathering", "placing", "launching", "wiring", "running", "stopping", "done"}

// Spent is how much of the ranks' time one cause took, and of their hosts' GPUs.
type Spent struct {
	Cause string  `json:"cause"`
	Ranks float64 `json:"rank_s"`
	GPUs  float64 `json:"gpu_s,omitempty"`
}

// cause is what a rank's time goes into: each moment of each into one.
//
//	first attempt    waiting ──placed──▶ starting ──it runs──▶ init ──all have met──▶ before ──first step──▶ running ⇄ slow, stalled
//	told to end      ending, which becomes restarting when the ranks are to start again, else over
//	next attempts    restarting ──placed──▶ starting ...; the first step says from where on the attempt before is lost
//	a rank has ended over
type cause uint8

const (
	waiting cause = iota
	starting
	inInit
	before
	works
	stalled
	slowed
	lost
	restarting
	over
	quiet  // works, unless it becomes a stall
	ending // over, unless the ranks start again
	causes
)

// causeWords are the causes that are told: as programs read them, and as people do.
var causeWords = [quiet][2]string{
	{"waiting", "waiting for hosts"}, {"starting", "starting"}, {"init", "in MPI_Init"}, {"before-step", "before the first step"}, {"running", "running"},
	{"stalled", "stalled"}, {"slow", "waiting for a slow rank"},
	{"lost", "lost, since it was done again"}, {"restarting", "restarting"}, {"over", "over before others"},
}

// share is of whom: so many ranks, and so many thousandths of GPUs.
type share struct{ ranks, gpus int64 }

func (s *share) add(o share, times int64) {
	s.ranks, s.gpus = s.ranks+o.ranks*times, s.gpus+o.gpus*times
}

// ledger is milliseconds by cause.
type ledger [causes]share

// seat is a rank's place in the attempt.
type seat struct {
	share
	host          string
	started, over bool
}

// Book adds up where the time of the first job's ranks goes. Begin comes first. Times are whole milliseconds since the run began, so that sums are exact.
type Book struct {
	begun     time.Time
	at        int64 // up to which all is accounted for
	closed    bool  // nothing is spent any more
	spent     ledger
	seats     []seat // by rank; nil: no attempt has placed its ranks yet
	wait      int64  // of each rank, before the first one has
	inherited bool   // the ranks were another launcher's: they run, and have made steps

	phase                 string
	all, live, made, done share // of the seats; made: not started yet
	steps                 bool  // ranks' lines tell steps
	stepped               bool  // in this attempt
	quiet, stalls         bool
	slow                  share // live ones that the others wait for
	by                    int64 // thousandths of the time that those lose by it

	redone redone
}

// redone finds what is done again, by the steps that one rank of each attempt tells.
type redone struct {
	teller int // whose steps count; -1: nobody has told any in this attempt
	marks  []mark
	every  int // so many steps of the teller make a mark
	count  int
}

// mark is when a step was told, and what had been worked until then.
type mark struct {
	step         float64
	works, slows share
}

// maxMarks bounds the marks: when there are more, each second one stays.
const maxMarks = 2000

// Begin begins the book of a run.
func (h *Book) Begin(at time.Time) { h.begun, h.phase = at, Phases[0] }

// Watched says that ranks' lines tell steps.
func (h *Book) Watched() { h.steps = true }

// Close ends the book: nothing is spent any more.
func (h *Book) Close(at time.Time) {
	h.Enter(at, Phases[len(Phases)-1])
	h.Advance(at)
	h.closed = true
}

// Advance accounts for the time until at.
func (h *Book) Advance(at time.Time) {
	now := at.Sub(h.begun).Milliseconds()
	long := now - h.at
	if long <= 0 || h.closed { // the clock was set back, or all is over
		return
	}
	h.at = now
	if h.seats == nil {
		h.wait += long
		return
	}
	add := func(c cause, s share) { h.spent[c].add(s, long) }
	switch h.phase {
	case "stopping", "done":
		add(over, h.done)
		add(ending, share{h.all.ranks - h.done.ranks, h.all.gpus - h.done.gpus})
		return
	case "gathering", "placing", "restarting":
		add(restarting, h.all)
		return
	}
	add(over, h.done)
	add(starting, h.made)
	switch {
	case h.phase != "running":
		add(inInit, h.live)
	case h.steps && !h.stepped:
		add(before, h.live)
	case h.stalls:
		add(stalled, h.live)
	case h.quiet:
		add(quiet, h.live)
	default:
		wait := share{(h.live.ranks - h.slow.ranks) * long * h.by / 1000, (h.live.gpus - h.slow.gpus) * long * h.by / 1000}
		h.spent[slowed].add(wait, 1)
		add(works, h.live)
		h.spent[works].add(wait, -1)
	}
}

// turn moves all of one cause to another.
func (h *Book) turn(from, to cause) {
	h.spent[to].add(h.spent[from], 1)
	h.spent[from] = share{}
}

// Enter notes a phase.
func (h *Book) Enter(at time.Time, phase string) {
	if phase == h.phase {
		return
	}
	h.Advance(at)
	h.phase = phase
	switch phase {
	case "gathering":
		h.turn(ending, restarting)
		h.turn(quiet, works)
	case "stopping", "done":
		if !h.stalls {
			h.turn(quiet, works)
		}
	}
}

// Stands notes how the run stands.
func (h *Book) Stands(at time.Time, s Stand) {
	h.Advance(at)
	is, live := !s.Quiet.IsZero(), share{}
	switch {
	case s.Stalled && is:
		h.turn(quiet, stalled)
	case !is:
		h.turn(quiet, works)
	}
	h.quiet, h.stalls, h.by = is, s.Stalled && is, 0
	for rank := range s.For {
		if rank < len(h.seats) && h.seats[rank].started && !h.seats[rank].over {
			live.add(h.seats[rank].share, 1)
		}
	}
	if h.slow = live; live.ranks > 0 {
		h.by = int64(1000*min(max(s.Lost, 0), 1) + 0.5)
	}
	h.Enter(at, s.Phase)
}

// Placed gives an attempt's ranks their seats: the host of each. gpus is how many a host has, which count for its ranks in equal parts.
func (h *Book) Placed(at time.Time, hosts []string, gpus func(host string) int) {
	h.Advance(at)
	h.seats, h.all, h.live, h.done, h.slow, h.by = make([]seat, len(hosts)), share{}, share{}, share{}, share{}, 0
	h.stepped, h.quiet, h.stalls, h.redone.teller = false, false, false, -1
	on, had := map[string]int64{}, map[string]int64{}
	for _, name := range hosts {
		on[name]++
	}
	for i, name := range hosts {
		units, n, k := int64(max(gpus(name), 0))*1000, on[name], had[name]
		h.seats[i] = seat{share: share{1, units*(k+1)/n - units*k/n}, host: name}
		h.all.add(h.seats[i].share, 1)
		had[name]++
	}
	h.made = h.all
	if h.inherited {
		h.spent[works].add(h.all, h.wait)
		h.made, h.live, h.stepped = share{}, h.all, true
		for i := range h.seats {
			h.seats[i].started = true
		}
	} else {
		h.spent[waiting].add(h.all, h.wait)
	}
	h.wait, h.inherited = 0, false
}

// Started notes that a rank runs.
func (h *Book) Started(at time.Time, id int) {
	if id < len(h.seats) && !h.seats[id].started && !h.seats[id].over {
		h.Advance(at)
		h.seats[id].started = true
		h.made.add(h.seats[id].share, -1)
		h.live.add(h.seats[id].share, 1)
	}
}

// Ended notes that a rank is over.
func (h *Book) Ended(at time.Time, id int) {
	if id >= len(h.seats) || h.seats[id].over {
		return
	}
	h.Advance(at)
	h.slow, h.by = share{}, 0 // until the next Stand, which knows who is left
	s := &h.seats[id]
	if s.over = true; s.started {
		h.live.add(s.share, -1)
	} else {
		h.made.add(s.share, -1)
	}
	h.done.add(s.share, 1)
}

// Point notes that a line of a rank has told how far it is. Only the steps of one rank of each attempt count, the first that tells any. Those from the
// first step of an attempt on were done before, where the attempt before was further.
func (h *Book) Point(at time.Time, id int, step float64, counts bool) {
	h.Advance(at)
	h.stepped = true
	if !counts || h.redone.teller >= 0 && h.redone.teller != id {
		return
	}
	if h.redone.teller < 0 {
		h.redone.teller = id
		if at := slices.IndexFunc(h.redone.marks, func(m mark) bool { return m.step >= step }); at >= 0 {
			m := h.redone.marks[at]
			for of, had := range map[cause]share{works: m.works, slowed: m.slows} {
				gone := share{h.spent[of].ranks - had.ranks, h.spent[of].gpus - had.gpus}
				h.spent[lost].add(gone, 1)
				h.spent[of] = had
			}
			h.redone.marks = h.redone.marks[:at]
		}
	}
	if h.redone.count++; h.redone.count < h.redone.every || len(h.redone.marks) > 0 && step <= h.redone.marks[len(h.redone.marks)-1].step {
		return
	}
	h.redone.count = 0
	h.redone.marks = append(h.redone.marks, mark{step, h.spent[works], h.spent[slowed]})
	if len(h.redone.marks) < maxMarks {
		return
	}
	h.redone.every = 2 * max(h.redone.every, 1)
	for i := range maxMarks / 2 {
		h.redone.marks[i] = h.redone.marks[2*i]
	}
	h.redone.marks = h.redone.marks[:maxMarks/2]
}

// Told is what was spent until now, of causes that took any.
func (h *Book) Told() (list []Spent) {
	if h.seats == nil {
		return nil
	}
	spent := h.settled()
	for c, words := range causeWords {
		if s := spent[c]; s.ranks > 0 {
			list = append(list, Spent{words[0], float64(s.ranks) / 1000, float64(s.gpus) / 1e6})
		}
	}
	return list
}

// settled is what was spent, were the run to go on no more.
func (h *Book) settled() ledger {
	sum := *h
	sum.turn(quiet, works)
	sum.turn(ending, over)
	return sum.spent
}

// Account is what was spent, as one launcher leaves it to the next: milliseconds of ranks, and thousandths of them of GPUs, by cause.
type Account map[string][2]int64

// Handed is the account of a moment.
func (h *Book) Handed(at time.Time) Account {
	h.Advance(at)
	a, spent := Account{}, h.settled()
	for c, words := range causeWords {
		if s := spent[c]; s.ranks > 0 {
			a[words[0]] = [2]int64{s.ranks, s.gpus}
		}
	}
	return a
}

// Takes goes on with what another launcher left at a time: since then its ranks have run.
func (h *Book) Takes(begun, left time.Time, a Account) {
	if h.inherited = true; len(a) == 0 {
		return
	}
	h.begun, h.at, h.wait = begun, left.Sub(begun).Milliseconds(), 0
	for c, words := range causeWords {
		s := a[words[0]]
		h.spent[c] = share{max(s[0], 0), max(s[1], 0)}
	}
}

// Gone notes that all ranks of a host are.
func (h *Book) Gone(at time.Time, host string) {
	for id, s := range h.seats {
		if s.host == host {
			h.Ended(at, id)
		}
	}
}

// Sentence is where the time of the ranks of a run went that took so long; "" where nothing is to be said: it was short, or most of it was work.
func Sentence(list []Spent, took time.Duration) string {
	const (
		short = 60   // seconds
		most  = 0.90 // of the time, that work takes where nothing is said
		least = 0.005
	)
	sum, ran := Spent{}, 0.0
	for _, s := range list {
		sum.Ranks, sum.GPUs = sum.Ranks+s.Ranks, sum.GPUs+s.GPUs
		if s.Cause == causeWords[works][0] {
			ran = s.Ranks
		}
	}
	if took.Seconds() < short || sum.Ranks <= 0 || ran >= most*sum.Ranks {
		return ""
	}
	text := inHours(sum.Ranks, "rank")
	if sum.GPUs > 0 {
		text += " (" + inHours(sum.GPUs, "GPU") + ")"
	}
	rest := slices.DeleteFunc(slices.Clone(list), func(s Spent) bool { return s.Cause == causeWords[works][0] || s.Ranks < least*sum.Ranks })
	slices.SortStableFunc(rest, func(a, b Spent) int { return int(b.Ranks - a.Ranks) })
	parts := []string{fmt.Sprintf("%.0f %% running", 100*ran/sum.Ranks)}
	for _, s := range rest {
		parts = append(parts, fmt.Sprintf("%.0f %% %s", 100*s.Ranks/sum.Ranks, Words(s.Cause)))
	}
	return "of " + text + ": " + strings.Join(parts, ", ")
}

// Words are a cause as people read it.
func Words(cause string) string {
	for _, w := range causeWords {
		if w[0] == cause {
			return w[1]
		}
	}
	return cause
}

// inHours is a time of many in a unit in which it has a few digits.
func inHours(seconds float64, of string) string {
	if seconds < 3600 {
		return fmt.Sprintf("%.3g %s-minutes", seconds/60, of)
	}
	return fmt.Sprintf("%.3g %s-hours", seconds/3600, of)
}
