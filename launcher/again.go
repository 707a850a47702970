package launcher

import (
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
	"github.com/mpiup/mpiup/launcher/reach"
	"github.com/mpiup/mpiup/launcher/report"
	"github.com/mpiup/mpiup/launcher/run/model"
	"github.com/mpiup/mpiup/launcher/run/phases"
	"github.com/mpiup/mpiup/launcher/verdict"
)

// Ranks that are started again (launcher/run/phases) are a run of their own: other sessions with agents, another job for MPI, and
// nothing that is late can be taken for theirs. What goes on is the command line, its time, its report and its streams.

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
		if err := c.wish().Check(c.Recover || c.Linger, c.Nodes); err != nil {
			return reach.Failf(job.ExitUsage, "%v", err)
		}
		return nil
	case c.Recover || c.Linger:
		return reach.Failf(job.ExitUsage, "--max-restarts %d: this run goes on when ranks fail, so they are never started "+
			"again; leave one of the two out", c.MaxRestarts)
	case c.Nodes > 1:
		return reach.Failf(job.ExitUsage, "--max-restarts %d: each host starts ranks of its own, and those of the others "+
			"would not be started again with them; leave it out, or start all from one host", c.MaxRestarts)
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
	var last *driver
	for {
		begun := time.Now()
		err := r.all(ctx)
		if lack := (*unmanned)(nil); errors.As(err, &lack) {
			if r.course.Again.Grown != "" { // nothing had failed
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
		next := r.ended(ctx, time.Since(begun))
		if next.Do == phases.End {
			return r, nil
		}
		last, r = r, r.another(next)
		r.remains.Enter("gathering")
	}
}

// unread is how long an agent may put the end of a lease off (agent: pendingBound).
const unread = 10 * time.Second

// ended tells how this attempt has ended, and what is next.
func (r *driver) ended(ctx context.Context, ran time.Duration) phases.Order {
	if ctx.Err() != nil {
		return phases.Order{Do: phases.End}
	}
	o := phases.Outcome{At: time.Now(), Ran: ran, Ranks: len(r.plan.Placements), Holdup: r.run.Verdict().Holdup}
	if cause, bad := r.run.Verdict().Cause(); bad {
		why, _ := r.run.Verdict().Verdict(r.circumstances(cause))
		o.Cause = why.Reason()
		if o.Mends, o.Refused = r.run.Verdict().Again(); o.Mends {
			o.Why = why
		}
	}
	if came, grows := r.run.Grows(); grows {
		o.Came, o.Size = came.Hosts, came.Size
	}
	losses := r.run.Losses()
	for i, ranks := range r.plan.On() {
		h, l := r.plan.Hosts[i].Name, losses[i]
		o.Seats = append(o.Seats, phases.Seat{Host: h, Ranks: ranks, Lost: l != nil})
		if l != nil && l.Unsure {
			if d := l.Since + r.cfg.Lease + unread + r.cfg.Grace - r.clock.Now(); d > o.Left {
				o.Left, o.On = d, h
			}
		}
	}
	next := r.course.Attempted(o)
	if next.Do == phases.Rest && r.sink.MidLine() {
		fmt.Fprintln(r.cfg.Stderr)
	}
	for _, l := range next.Say {
		r.say("%s", l)
	}
	return next
}

// another is the attempt after r, which has ended.
func (r *driver) another(o phases.Order) *driver {
	next := newDriver(*r.cfg)
	next.identity, next.remains, next.dial = r.identity, r.remains, r.dial
	next.begun, next.phase, next.course, next.next = r.begun, "restarting", r.course, o
	for _, w := range r.came {
		if r.course.Again.Grown != "" && !slices.ContainsFunc(r.course.Known, func(k hosts.Wanted) bool { return k.Entry.Name == w.Entry.Name }) {
			r.course.Known = append(slices.Clone(r.course.Known), w)
		}
	}
	return next
}

// round is how long the known hosts are waited for before others are looked for, where hosts are found one by one.
const round = 3 * time.Second

// rest waits until ranks are to start again.
func (r *planner) rest(ctx context.Context) (phases.Order, error) {
	pause := time.NewTimer(time.Until(r.course.Again.Begins))
	defer pause.Stop()
	select {
	case <-pause.C:
		return r.course.Rested(), nil
	case <-ctx.Done():
	}
	what := fmt.Sprintf("in the pause before restart %d, after %s", r.course.Again.Number, r.course.Again.Ended())
	if cut := r.cut(ctx, what); cut != nil {
		return phases.Order{}, cut
	}
	return phases.Order{}, &unmanned{[]string{"the launcher was ended " + what}}
}

// assembleEnough reaches hosts until some suffice for an attempt.
func (r *planner) assembleEnough(ctx, life context.Context, want []hosts.Wanted, opener *reach.Opener, call lastCall) ([]reach.Found, phases.Order) {
	within, cancel := context.WithCancel(ctx)
	finds := r.cfg.Discovers()
	if finds {
		cancel()
		within, cancel = awake.Within(ctx, round)
	}
	if call.over.Err() == nil {
		defer context.AfterFunc(call.over, cancel)()
	}
	found, lines := r.cfg.AssembleEnough(within, life, want, func(have []reach.Found) bool {
		c, begins := r.course.Choice(answers(have))
		if begins && c.Settled {
			call.enough()
		}
		return c.Enough || begins && call.over.Err() != nil
	}, opener)
	g := phases.Gathered{Answers: answers(found), Lines: lines, Late: call.over.Err() != nil || errors.Is(context.Cause(ctx), errWaited),
		Ended: within.Err() != nil, Over: ctx.Err() != nil, Found: finds, Within: fmt.Sprintf("%v (%s)", r.cfg.Wait, r.cfg.WaitBy)}
	cancel()
	next := r.course.Gathered(g)
	if next.Do != phases.Place {
		reach.CloseAll(found)
	}
	return found, next
}

// seat gives the hosts that were chosen their ranks, keeps spares, and lets the others go.
func (r *planner) seat(found []reach.Found, c phases.Choice) (have []reach.Found, err error) {
	r.enter("placing")
	if c.Answers == nil {
		return r.first(found)
	}
	var answers []phases.Answer
	for _, at := range c.Answers {
		f := found[at]
		found[at] = reach.Found{}
		delete(r.course.Shy, f.Session.Opened.Host.GetIncarnation())
		a := phases.Answer{Wanted: f.Wanted, Host: r.hostOf(f)}
		f.Entry.Name = a.Name()
		if f.Bare || len(f.Fixed) > 0 {
			f.Wanted = anew(f)
		}
		a.Wanted = f.Wanted
		have, answers = append(have, f), append(answers, a)
	}
	seated, lines := r.course.Seat(c, answers)
	for _, l := range lines {
		r.say("%s", l)
	}
	for i := range answers { // as they are reached again
		answers[i].Wanted = anew(have[i])
	}
	for _, f := range found {
		if f.Session != nil && r.course.Spare[f.Entry.Name] {
			have = append(have, f)
		} else {
			reach.CloseAll([]reach.Found{f})
		}
	}
	if r.cfg.Elastic.On() {
		r.cfg.Apps = slices.Clone(r.cfg.Apps)
		r.cfg.Apps[0].N = c.Sum
	}
	if err = r.place(have, answers, seated); err == nil && r.cfg.Elastic.On() {
		r.saySize(seated, c.Sum)
	}
	return have, err
}

// tellRestart notes a restart, whose hosts are there.
func tellRestart(r *driver) {
	a := r.course.Again
	r.cfg.Metrics.Restarted(a.Why.Kind)
	r.remains.Restarted(report.Restart{Kind: a.Why.Kind, Why: a.Ended(), Pause: a.Pause.Seconds(), Ranks: len(r.plan.Placements), Replaced: a.Replaced})
	why := &a.Why
	if a.Grown != "" {
		why = nil
	}
	r.event(struct {
		Time     time.Time        `json:"time"`
		Event    string           `json:"event"`
		Restart  int              `json:"restart"`
		Most     int              `json:"max_restarts"`
		Pause    float64          `json:"pause_s"`
		Ranks    int              `json:"ranks"`
		Replaced []model.Replaced `json:"replaced,omitempty"`
		Came     string           `json:"came,omitempty"` // hosts for which they were ended
		Verdict  *verdict.Verdict `json:"verdict,omitempty"`
	}{time.Now().UTC(), "restart", a.Number, r.cfg.MaxRestarts, a.Pause.Seconds(), len(r.plan.Placements), a.Replaced, a.Grown, why})
}
