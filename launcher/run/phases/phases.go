// Package phases is a run from the search for its hosts to the end of its last attempt. PURE.
//
// What is told moves it, and it says what is to be done next; who carries that out tells what came of it. An attempt at running the ranks is
// launcher/run's, which is thrown away whole when they start again.
//
// What is to be done, and what tells what came of it:
//
//	seek    │ Sought ─▶ gather │ Sought ─▶ end
//	gather  │ Gathered ─▶ gather │ Held ─▶ adopt │ Gathered ─▶ place │ Gathered ─▶ end │ Held ─▶ end
//	adopt   │ Adopted ─▶ gather │ Adopted ─▶ attempt │ Adopted ─▶ end
//	place   │ placed ─▶ attempt
//	attempt │ Attempted ─▶ rest │ Attempted ─▶ end
//	rest    │ Rested ─▶ gather
//
// Which hosts take part, and which ranks they get:
//
//	what the command line says, hosts that are named ──Needs, Needed──▶ hosts to be reached
//	hosts that answer ──Places, Plan──▶ a rank's place
//	restarts so far, how long the ranks ran ──Next──▶ a pause, or no more restarts
//	hosts of the last attempt, hosts that answer ──Refill, AsMany──▶ hosts of the next one
//
//	attempt 1          attempt 2            attempt 3
//	w0  ranks 0-3      w0  ranks 0-3        w0  ranks 0-3
//	w1  ranks 4-7      w2  ranks 4-7        w1  ranks 4-7      w1 is back, and w2 was lost
//	w2  a spare        w1  lost
//
// A host keeps the ranks that it had. One that was lost, or does not answer, is replaced by whatever answers first: a host that has no ranks, or its
// own next incarnation. An elastic job has as many ranks as the hosts that are there have room for.
//
// Concurrency: a Run belongs to one goroutine, but for Choice, which only reads.
//
// It reaches no host and waits for nothing. Whether a failure is one that a new start may mend is launcher/verdict's.
package phases

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/launcher/run/model"
	"github.com/mpiup/mpiup/launcher/verdict"
)

// Do is what is to be done next.
type Do int

// What is to be done.
const (
	Seek    Do = iota // find the hosts
	Gather            // reach Want
	Adopt             // take over the run At
	Place             // place the ranks on those of Choice, with Seat
	Attempt           // launcher/run has the ranks
	Rest              // until Again.Begins
	End               // as Failure says, or as the last attempt has ended
)

// Order is what is to be done.
type Order struct {
	Do      Do
	Want    []model.Wanted
	All     bool // with Gather: each of them
	Look    bool // with Gather: and others that are found now
	Pause   bool // with Gather: before, for a moment
	At      int
	Choice  Choice
	Say     []string
	Failure *Failure
}

// Failure ends a command before its verdict: an exit code and what to say.
type Failure struct {
	Code   int
	Lines  []string
	Outrun bool // another launcher has the run, which goes on
	// Away is a host of the job whose pod does not run, as far as its name or its port tell; "": there is none.
	Away string
}

func (f *Failure) Error() string { return fmt.Sprint(f.Lines) }

// Again is a new start of the ranks: what it is to know of the attempt before.
type Again struct {
	Number   int // 1: the first
	Begins   time.Time
	Pause    time.Duration // between the two
	Why      verdict.Verdict
	Grown    string // the hosts for which the ranks of an elastic job were ended; empty: they had failed
	Had      int    // ranks before
	Vain     int    // how often in a row ranks were ended for hosts that then brought the job no rank
	Replaced []model.Replaced

	seats []Seat
	size  int // of an elastic job: as many ranks are to be started
}

// Config is what a Run is made of.
type Config struct {
	Wish
	MaxRestarts int
	Beside      time.Duration // ranks may start again so long before those on a host that is silent have surely ended
}

// Run is a run. New makes one.
type Run struct {
	Known    []model.Wanted  // all hosts, spares too, as they are found again
	Spare    map[string]bool // hosts that get no ranks
	Shy      map[string]bool // agents for which an elastic job ended its ranks, and which did not join it then
	Again    *Again          // nil: the ranks have not been started again
	Restarts int             // how often they have

	cfg   Config
	count Count
	vain  int // how often the run could not be taken over
}

// New is a run that is about to seek its hosts.
func New(cfg Config) *Run {
	return &Run{cfg: cfg, count: Count{Max: cfg.MaxRestarts}, Spare: map[string]bool{}, Shy: map[string]bool{}}
}

// Failures is how often the ranks were started again for a failure.
func (r *Run) Failures() int { return r.count.Done }

// Sought takes the hosts that the run may have.
func (r *Run) Sought(all []model.Wanted) Order {
	r.Known = all
	o := Order{Do: Gather, Want: all, All: !r.cfg.Elastic.On()}
	if o.All {
		var err error
		if o.Want, err = r.cfg.Needed(all); err != nil {
			return r.end(job.ExitUsage, err.Error())
		}
	}
	return o
}

// Choice is which of some hosts take part. begins: an elastic job may begin with them, if nobody else comes.
func (r *Run) Choice(answers []Answer) (c Choice, begins bool) {
	if !r.cfg.Elastic.On() {
		if r.Again == nil {
			return Choice{Enough: true}, false
		}
		return r.cfg.Refill(r.Again.seats, answers), false
	}
	target, seats := cmp.Or(r.cfg.Elastic.Begin, r.cfg.Elastic.Max), []Seat(nil)
	if r.Again != nil {
		target, seats = r.Again.size, r.Again.seats
	}
	c = r.cfg.AsMany(seats, target, answers)
	return c, c.Sum >= r.cfg.Elastic.Min
}

// Gathered is what came of the hosts that were to be reached.
type Gathered struct {
	Answers []Answer
	Lines   []string // why others are not here
	Late    bool     // nobody else is waited for, and an elastic job may begin
	Ended   bool     // this round was ended by its time
	Over    bool     // so is the wait for hosts
	Found   bool     // hosts are found one by one: others may be found
	Within  string   // as it is told: "5m0s (--wait)"
}

// Gathered goes on with those that are here.
func (r *Run) Gathered(g Gathered) Order {
	c, begins := r.Choice(g.Answers)
	elastic := r.cfg.Elastic.On()
	switch {
	case c.Enough || begins && g.Late:
		if elastic {
			r.Known = nil
			for _, a := range g.Answers {
				r.Known = append(r.Known, a.Wanted)
			}
		}
		return Order{Do: Place, Choice: c}
	case elastic && (g.Over || !g.Ended && !g.Found):
		within := ""
		if g.Over {
			within = " that answered within " + g.Within
		}
		return r.lacks(g.Lines, fmt.Sprintf("the hosts%s have room for %s, and --min-np is %d", within, visible.Count(c.Sum, "rank"), r.cfg.Elastic.Min))
	case !elastic && (g.Over || !g.Ended): // what no waiting changes
		var lost []string
		for i, at := range c.Answers {
			if at < 0 {
				lost = append(lost, r.Again.seats[i].Host)
			}
		}
		return r.lacks(g.Lines, fmt.Sprintf("within %s no host came for %s", g.Within, strings.Join(lost, ", ")))
	}
	return Order{Do: Gather, Want: r.Known, Look: g.Found, Pause: !g.Ended}
}

// lacks ends a run for which hosts do not suffice: as its last attempt ended, if that failed.
func (r *Run) lacks(lines []string, text string) Order {
	if r.Again != nil {
		text = "the ranks were not started again: " + text
	}
	o := r.end(job.ExitHosts, append(lines, text)...)
	if r.Again != nil && r.Again.Grown == "" {
		o.Say, o.Failure = o.Failure.Lines, nil
	}
	return o
}

// end ends the run.
func (r *Run) end(code int, lines ...string) Order {
	return Order{Do: End, Failure: &Failure{Code: code, Lines: lines}}
}

// First takes the hosts of a run's first attempt as they are found again, and returns those that may get ranks: all but the last, of which as many
// are spares as the user says.
func (r *Run) First(all []model.Wanted) []model.Wanted {
	r.Known = all
	ranked := len(all) - r.cfg.Spares
	for _, w := range all[ranked:] {
		r.Spare[w.Entry.Name] = true
	}
	return all[:ranked]
}

// maxVain is how often a run is met that no host hands over: once or twice it may be about to end.
const maxVain = 3

// Held takes the runs that a host holds for another launcher, of which it is to be one.
func (r *Run) Held(host string, runs []Held, own Held, hold bool) Order {
	at, why, outrun := mine(host, runs, own, hold)
	if why != "" {
		code := job.ExitUsage
		if outrun {
			code = job.ExitPreempted
		}
		o := r.end(code, why)
		o.Failure.Outrun = outrun
		return o
	}
	return Order{Do: Adopt, At: at}
}

// Adopted takes what came of a takeover: of a run whose ranks had been started again so often. any: a host at least was handed over. tired: nobody
// waits for hosts any more.
func (r *Run) Adopted(any, tired bool, restarts int, launcher string, lines []string) Order {
	if any {
		r.Restarts, r.count.Done = restarts, max(r.count.Done, restarts)
		return Order{Do: Attempt}
	}
	if r.vain++; tired || r.vain == maxVain {
		return r.end(job.ExitConnect, append(lines, fmt.Sprintf("the run of launcher %s could not be taken over", launcher))...)
	}
	o := Order{Do: Gather, All: true, Pause: true}
	o.Want, _ = r.cfg.Needed(r.Known) // as before
	return o
}

// Seat gives the hosts of a choice their ranks, and says which spares come in. Answers are those of the choice, in its order.
func (r *Run) Seat(c Choice, answers []Answer) (seated []job.Host, say []string) {
	r.Known = slices.Clone(r.Known)
	seated = Places(answers)
	for i, a := range answers {
		name := a.Entry.Name
		seated[i].Slots, seated[i].SlotsGiven = c.Ranks[i], true
		delete(r.Spare, name)
		if r.cfg.Elastic.On() {
			r.Known[c.Answers[i]] = a.Wanted
			continue
		}
		if !slices.ContainsFunc(r.Known, func(w model.Wanted) bool { return w.Entry.Name == name }) {
			r.Known = append(r.Known, a.Wanted)
		}
		if s := r.Again.seats[i]; name != s.Host {
			say = append(say, fmt.Sprintf("%s comes in for %s: %s", name, s.Host, s.Ranks.Named("rank")))
			r.Again.Replaced = append(r.Again.Replaced, model.Replaced{Host: s.Host, By: name, Ranks: s.Ranks.String()})
		}
	}
	return seated, say
}

// Outcome is how an attempt has ended.
type Outcome struct {
	At      time.Time
	Ran     time.Duration
	Ranks   int
	Seats   []Seat
	Left    time.Duration // ranks may run for so long
	On      string        // on this host
	Came    string        // the hosts for which the ranks were ended; empty: there are none
	Size    int           // of the job with them
	Cause   string        // a sentence; "": they did not fail
	Mends   bool          // what a new start may mend
	Refused string        // why it is none, if the user asked for restarts
	Why     verdict.Verdict
	Holdup  []string // of a stall that nobody will see any more
}

// Attempted decides whether the ranks start again.
func (r *Run) Attempted(o Outcome) (next Order) {
	next.Do = End
	done, most := r.count.Done, r.count.Max
	if o.Cause != "" && o.Refused != "" && done < most {
		next.Say = append(next.Say, fmt.Sprintf("the ranks do not start again (restart %d of %d): %s", done+1, most, o.Refused))
	}
	a := &Again{Number: r.Restarts + 1, Had: o.Ranks, size: o.Ranks, seats: o.Seats}
	switch ok := false; {
	case o.Cause != "" && o.Mends:
		if a.Pause, ok = r.count.Next(o.Ran); !ok {
			return next
		}
		a.Why = o.Why
	case o.Cause == "" && o.Came != "":
		a.Grown, a.size, a.Vain = o.Came, o.Size, r.Again.InVain(o.Ranks)
	default:
		return next
	}
	until := ""
	if a.Pause, until = Pause(a.Pause, o.Left, r.cfg.Beside, o.On); a.Pause > 0 {
		until = fmt.Sprintf(" in %v", a.Pause.Round(100*time.Millisecond)) + until
	}
	if a.Begins = o.At.Add(a.Pause); o.Cause != "" {
		next.Say = append(next.Say, fmt.Sprintf("%s; the ranks start again%s (restart %d of %d)", o.Cause, until, r.count.Done, most))
		next.Say = append(next.Say, o.Holdup...)
	} else {
		next.Say = append(next.Say, fmt.Sprintf("%s; the ranks start again%s, %d in place of %d", model.Came(o.Came), until, a.size, a.Had))
	}
	r.Again, r.Restarts, next.Do = a, a.Number, Rest
	return next
}

// Rested goes on after the pause.
func (r *Run) Rested() Order {
	return Order{Do: Gather, Want: r.Known}
}

// LookEvery is how often an elastic job looks for hosts that have come.
const LookEvery = 2 * time.Second

// UntilLook is how long ranks run at least before they are ended for hosts that have come. It doubles with each time that those brought nothing:
// a host that says that it has come, and under another name again, does not keep a job from its work.
func (a *Again) UntilLook(ranks int) time.Duration {
	const doublings = 9 // 17 minutes
	return LookEvery << min(a.InVain(ranks), doublings)
}

// InVain is how often in a row hosts had come for nothing, where this start brought the job to so many ranks.
func (a *Again) InVain(ranks int) int {
	if a == nil || a.Grown == "" || ranks > a.Had {
		return 0
	}
	return a.Vain + 1
}

// Ended is a sentence on how ranks had ended.
func (a *Again) Ended() string {
	if a.Grown != "" {
		return model.Came(a.Grown)
	}
	return strings.Join(a.Why.Evidence, "; ")
}
