package launcher

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mpiup/mpiup/internal/awake"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/launcher/hosts"
	"github.com/mpiup/mpiup/launcher/link"
	"github.com/mpiup/mpiup/launcher/reach"
	"github.com/mpiup/mpiup/launcher/report"
	"github.com/mpiup/mpiup/launcher/run"
	"github.com/mpiup/mpiup/launcher/run/choose"
	"github.com/mpiup/mpiup/launcher/verdict"
)

// Ranks that are started again (launcher/run/choose) are a run of their own: other sessions with agents, another job for MPI, and
// nothing that is late can be taken for theirs. What goes on is the command line, its time, its report and its streams.

// retrial is a restart: what it is to know of the attempt that failed.
type retrial struct {
	number   int // 1: the first restart
	failures int // of the restarts, those after a failure
	since    time.Time
	pause    time.Duration // between the two
	seats    []choose.Seat
	why      verdict.Verdict
	grown    string // the hosts for which the ranks of an elastic job were ended; empty: they had failed
	had      int    // ranks of the attempt
	size     int    // of an elastic job: as many ranks are to be started
	vain     int    // how often in a row ranks were ended for hosts that then brought the job no rank

	replaced []report.Replaced // once hosts are there
}

// begins is when hosts are sought.
func (a *retrial) begins() time.Time {
	if a == nil {
		return time.Now()
	}
	return a.since.Add(a.pause)
}

// inVain is how often in a row hosts had come for nothing, where this restart brought the job to so many ranks.
func (a *retrial) inVain(ranks int) int {
	if a == nil || a.grown == "" || ranks > a.had {
		return 0
	}
	return a.vain + 1
}

// times is how often ranks have been started again.
func (a *retrial) times() int {
	if a == nil {
		return 0
	}
	return a.number
}

// failure is why ranks had ended; nil: they had not failed.
func (a *retrial) failure() *verdict.Verdict {
	if a.grown != "" {
		return nil
	}
	return &a.why
}

// ended is a sentence on how ranks had ended.
func (a *retrial) ended() string {
	if a.grown != "" {
		return run.Came{Hosts: a.grown}.Sentence()
	}
	return strings.Join(a.why.Evidence, "; ")
}

// restarts refuses what cannot be done for ranks that are started again.
func (c *Config) restarts() error {
	switch {
	case c.Spares > 0 && c.MaxRestarts == 0:
		return reach.Failf(job.ExitUsage, "--spares %d: spares come in when ranks are started again; add --max-restarts", c.Spares)
	case c.Beside > 0 && c.MaxRestarts == 0 && !c.Elastic.On():
		return reach.Failf(job.ExitUsage, "--restart-beside %v: it is about ranks that start again; add --max-restarts", c.Beside)
	case c.MaxRestarts == 0 && !c.Elastic.On():
		return nil
	case c.StdinTarget != "none" && c.Stdin != nil && !isNull(c.Stdin):
		return reach.Failf(job.ExitUsage, "%s: what ranks have read of standard input cannot be read again; add < /dev/null, or --stdin none", c.restartedBy())
	case c.Elastic.On():
		return c.checkElastic()
	case c.Recover || c.Linger:
		return reach.Failf(job.ExitUsage, "--max-restarts %d: this run goes on when ranks fail, so they are never started again; leave one of the two out", c.MaxRestarts)
	case c.Nodes > 1:
		return reach.Failf(job.ExitUsage, "--max-restarts %d: each pod starts ranks of its own, and those of the others would not be started again with them; leave it out, or start all from one pod", c.MaxRestarts)
	}
	return nil
}

// shorten makes the lease no longer than the time in which a silent host is given up, where nobody said how long it is: ranks that
// start again wait for its end, and what lasts longer ends the attempt in any case.
func (c *Config) shorten() {
	if !c.LeaseSaid && (c.MaxRestarts > 0 || c.Elastic.On()) {
		c.Lease = min(c.Lease, c.NodeTimeout)
	}
}

// restartedBy is the option by which ranks start again.
func (c *Config) restartedBy() string {
	if c.MaxRestarts == 0 {
		return fmt.Sprintf("--min-np %d", c.Elastic.Min)
	}
	return fmt.Sprintf("--max-restarts %d", c.MaxRestarts)
}

// isNull says that a file is /dev/null.
func isNull(f *os.File) bool {
	var st unix.Stat_t
	return unix.Fstat(int(f.Fd()), &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev == unix.Mkdev(1, 3)
}

// unmanned is the lack of hosts for a restart.
type unmanned struct{ lines []string }

func (e *unmanned) Error() string { return strings.Join(e.lines, "; ") }

// attempts runs the ranks until they end well, or are not started again. It returns the last attempt that had ranks, or what
// ended an earlier one.
func attempts(ctx context.Context, r *driver) (*driver, error) {
	count := choose.Count{Max: r.cfg.MaxRestarts}
	var last *driver
	for {
		begun := time.Now()
		err := r.all(ctx)
		if lack := (*unmanned)(nil); errors.As(err, &lack) {
			if _, bad := last.run.Verdict().Cause(); !bad { // its ranks were ended for a host that came
				return r, &reach.Failure{Code: job.ExitHosts, Lines: lack.lines}
			}
			for _, l := range lack.lines {
				last.say("%s", l)
			}
			return last, nil
		}
		if err != nil || r.run == nil {
			return r, err
		}
		r.hear()
		if r.heir != nil {
			count.Done = max(count.Done, r.heir.journal.Restarts)
		}
		next := follows(ctx, r, &count, time.Since(begun))
		if next == nil {
			return r, nil
		}
		last, r = r, next
		r.cfg.Metrics.Phase("gathering")
	}
}

// unread is how long an agent may put the end of a lease off (agent: pendingBound).
const unread = 10 * time.Second

// follows is the attempt after r, which has ended; nil: there is none.
func follows(ctx context.Context, r *driver, count *choose.Count, ran time.Duration) *driver {
	if ctx.Err() != nil {
		return nil
	}
	a := &retrial{number: r.restarted() + 1, since: time.Now(), had: len(r.plan.Placements)}
	cause, bad := r.run.Verdict().Cause()
	came, grows := r.run.Grows()
	again, declined := r.run.Verdict().Again()
	if bad && declined != "" && count.Done < count.Max {
		r.say("the ranks do not start again (restart %d of %d): %s", count.Done+1, count.Max, declined)
	}
	switch {
	case bad && again:
		var ok bool
		if a.pause, ok = count.Next(ran); !ok {
			return nil
		}
		a.size = a.had
		a.why, _ = r.run.Verdict().Verdict(r.circumstances(cause))
	case !bad && grows:
		a.grown, a.size, a.vain = came.Hosts, came.Size, r.again.inVain(a.had)
	default:
		return nil
	}
	a.failures = count.Done
	until := vacate(r, a)
	if a.pause > 0 {
		until = fmt.Sprintf(" in %v", a.pause.Round(100*time.Millisecond)) + until
	}
	if r.sink.MidLine() {
		fmt.Fprintln(r.cfg.Stderr)
	}
	if bad {
		r.say("%s; the ranks start again%s (restart %d of %d)", cause.Sentence(), until, count.Done, count.Max)
		for _, l := range r.run.Verdict().Holdup { // of a stall that nobody will see any more
			r.say("%s", l)
		}
	} else {
		r.say("%s; the ranks start again%s, %d in place of %d", came.Sentence(), until, a.size, a.had)
	}
	next := newDriver(*r.cfg)
	next.identity, next.remains, next.dial = r.identity, r.remains, r.dial
	next.begun, next.phase, next.hosts, next.spare, next.shy, next.again = r.begun, "restarting", r.hosts, r.spare, r.shy, a
	if bad {
		return next
	}
	known := map[string]bool{}
	for _, w := range r.hosts {
		known[w.Entry.Name] = true
	}
	for _, w := range r.came {
		if !known[w.Entry.Name] {
			next.hosts = append(slices.Clone(next.hosts), w)
		}
	}
	return next
}

// vacate notes how the hosts of r went, and puts the next attempt off until none of them can have ranks any more, or until so long
// before as the user allows; it says why.
func vacate(r *driver, a *retrial) (until string) {
	var left time.Duration
	var last string // the host whose ranks may run for longest
	losses := r.run.Losses()
	for i, ranks := range r.plan.On() {
		h, l := r.plan.Hosts[i].Name, losses[i]
		a.seats = append(a.seats, choose.Seat{Host: h, Ranks: ranks, Lost: l.Lost})
		if d := l.Since + r.cfg.Lease + unread + r.cfg.Grace - r.clock.Now(); l.Unsure && d > left {
			left, last = d, h
		}
	}
	a.pause, until = choose.Rest(a.pause, left, r.cfg.Beside, last)
	return until
}

// round is how long the known hosts are waited for before others are looked for, where hosts are found one by one.
const round = 3 * time.Second

// goOn finds hosts for the ranks that are to start again, after their pause.
func (r *planner) goOn(ctx, life context.Context) ([]reach.Found, *reach.Opener, error) {
	rest := time.NewTimer(time.Until(r.again.begins()))
	defer rest.Stop()
	select {
	case <-rest.C:
	case <-ctx.Done():
		return nil, nil, r.unrested(ctx)
	}
	return r.rally(ctx, life, r.hosts)
}

// choice is which of some hosts take part.
func (r *planner) choice(answers []choose.Answer) choose.Choice {
	target, seats := cmp.Or(r.cfg.Elastic.Begin, r.cfg.Elastic.Max), []choose.Seat(nil)
	if r.again != nil {
		target, seats = r.again.size, r.again.seats
	}
	if r.cfg.Elastic.On() {
		return r.wish().Muster(seats, target, answers)
	}
	return r.wish().Cast(seats, answers)
}

// rally finds hosts for an attempt, and gives them ranks: of an elastic job as many as may be; else each host of the last attempt keeps its ranks,
// and one that is gone is replaced.
func (r *planner) rally(ctx, life context.Context, known []hosts.Wanted) ([]reach.Found, *reach.Opener, error) {
	opener, want, elastic := r.opens(), known, r.cfg.Elastic.On()
	call := &lastCall{after: r.cfg.Elastic.LastCall}
	defer call.done()
	for {
		within, cancel := context.WithCancel(ctx)
		if r.cfg.Discovers() {
			cancel()
			within, cancel = awake.Within(ctx, round)
		}
		call.renew(cancel)
		found, lines := r.cfg.Rally(within, life, want, func(have []reach.Answer) bool {
			c := r.choice(answers(want, have))
			most := elastic && c.Sum >= r.cfg.Elastic.Min
			if most && c.Settled {
				call.enough()
			}
			return c.Enough || most && call.over()
		}, opener)
		ended := within.Err() != nil
		cancel()
		have := make([]reach.Answer, len(want))
		for i, f := range found {
			have[i] = reach.Answer{Session: f.Session, Tried: true}
		}
		c := r.choice(answers(want, have))
		if c.Enough || elastic && c.Sum >= r.cfg.Elastic.Min && (call.over() || errors.Is(context.Cause(ctx), errWaited)) {
			if elastic {
				r.hosts = want
			}
			found, err := r.seat(found, c)
			return found, opener, err
		}
		reach.CloseAll(found)
		switch {
		case elastic && (ctx.Err() != nil || !ended && !r.cfg.Discovers()):
			return nil, nil, r.impatient(ctx, r.tooFew(ctx, lines, c.Sum))
		case !elastic && (ctx.Err() != nil || !ended): // what no waiting changes
			return nil, nil, r.impatient(ctx, r.lacks(c.Cast, lines))
		case !ended:
			link.Sleep(ctx, time.Second)
		}
		if want = known; r.cfg.Discovers() {
			if seen := r.cfg.Seen(ctx); seen != nil {
				want = choose.Joined(known, seen.Hosts)
			}
		}
	}
}

// unrested is the end of a run in the pause before its ranks would have started again.
func (r *planner) unrested(ctx context.Context) error {
	what := fmt.Sprintf("in the pause before restart %d, after %s", r.again.number, r.again.ended())
	cause := context.Cause(ctx)
	var sig reach.GotSignal
	switch {
	case errors.As(cause, &sig):
		return reach.Failf(sig.Status(false), "got %s %s", job.SignalName(int(sig)), what)
	case errors.Is(cause, errTimeout):
		return reach.Failf(job.ExitTimeout, "--timeout %v ran out %s", r.cfg.Timeout, what)
	}
	return &unmanned{[]string{"the launcher was ended " + what}}
}

// seat gives the hosts that were chosen their ranks, keeps spares, and lets the others go.
func (r *planner) seat(found []reach.Found, c choose.Choice) (have []reach.Found, err error) {
	r.enter("placing")
	elastic, answers := r.cfg.Elastic.On(), []choose.Answer(nil)
	r.hosts = slices.Clone(r.hosts)
	for i, at := range c.Cast {
		f := found[at]
		found[at] = reach.Found{}
		delete(r.shy, f.Session.Opened.Host.GetIncarnation())
		a := choose.Answer{Wanted: f.Wanted}
		a.Host = r.hostOf(f)
		f.Entry.Name = a.Name()
		if f.Bare || len(f.Fixed) > 0 {
			f.Wanted = anew(f)
		}
		if elastic {
			r.hosts[at] = f.Wanted
		} else if !slices.ContainsFunc(r.hosts, func(w hosts.Wanted) bool { return w.Entry.Name == f.Entry.Name }) {
			r.hosts = append(r.hosts, f.Wanted)
		}
		delete(r.spare, f.Entry.Name)
		a.Wanted = f.Wanted
		have, answers = append(have, f), append(answers, a)
		if elastic || f.Entry.Name == r.again.seats[i].Host {
			continue
		}
		s := r.again.seats[i]
		r.say("%s comes in for %s: %s", f.Entry.Name, s.Host, s.Ranks.Named("rank"))
		r.again.replaced = append(r.again.replaced, report.Replaced{Host: s.Host, By: f.Entry.Name, Ranks: s.Ranks.String()})
	}
	for _, f := range found {
		if f.Session != nil && r.spare[f.Entry.Name] {
			have = append(have, f)
		} else {
			reach.CloseAll([]reach.Found{f})
		}
	}
	seated := choose.Places(answers)
	for i := range seated {
		seated[i].Slots, seated[i].SlotsGiven = c.Ranks[i], true
	}
	if elastic {
		r.cfg.Apps = slices.Clone(r.cfg.Apps)
		r.cfg.Apps[0].N = c.Sum
	}
	for i := range answers { // as they are reached again
		answers[i].Wanted = anew(have[i])
	}
	if err = r.place(have, answers, seated); err == nil && elastic {
		r.saySize(seated, c.Sum)
	}
	return have, err
}

// lacks says for which hosts nobody came.
func (r *planner) lacks(cast []int, lines []string) error {
	var lost []string
	for i, at := range cast {
		if at < 0 {
			lost = append(lost, r.again.seats[i].Host)
		}
	}
	return &unmanned{append(lines, fmt.Sprintf("the ranks were not started again: within %v (%s) no host came for %s", r.cfg.Wait, r.cfg.WaitBy, strings.Join(lost, ", ")))}
}

// tellRestart notes a restart, whose hosts are there.
func tellRestart(r *driver) {
	a := r.again
	r.cfg.Metrics.Restarted(a.why.Kind)
	r.remains.Restarted(report.Restart{Kind: a.why.Kind, Why: a.ended(), Pause: a.pause.Seconds(), Ranks: len(r.plan.Placements), Replaced: a.replaced})
	r.event(struct {
		Time     time.Time         `json:"time"`
		Event    string            `json:"event"`
		Restart  int               `json:"restart"`
		Most     int               `json:"max_restarts"`
		Pause    float64           `json:"pause_s"`
		Ranks    int               `json:"ranks"`
		Replaced []report.Replaced `json:"replaced,omitempty"`
		Came     string            `json:"came,omitempty"` // hosts for which they were ended
		Verdict  *verdict.Verdict  `json:"verdict,omitempty"`
	}{time.Now().UTC(), "restart", a.number, r.cfg.MaxRestarts, a.pause.Seconds(), len(r.plan.Placements), a.replaced, a.grown, a.failure()})
}
