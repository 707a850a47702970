package launcher

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mpiup/mpiup/internal/hostlist"
	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/launcher/hosts"
	"github.com/mpiup/mpiup/launcher/link"
	"github.com/mpiup/mpiup/launcher/reach"
	"github.com/mpiup/mpiup/launcher/remains/report"
	"github.com/mpiup/mpiup/launcher/restart"
	"github.com/mpiup/mpiup/launcher/run"
	"github.com/mpiup/mpiup/launcher/verdict"
)

// Ranks that are started again (launcher/restart) are a run of their own: other sessions with agents, another job for MPI, and
// nothing that is late can be taken for theirs. What goes on is the command line, its time, its report and its streams.

// retrial is a restart: what it is to know of the attempt that failed.
type retrial struct {
	number   int // 1: the first restart
	failures int // of the restarts, those after a failure
	since    time.Time
	pause    time.Duration // between the two
	seats    []restart.Seat
	ranks    []idset.Set // of each seat
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
	count := restart.Count{Max: r.cfg.MaxRestarts}
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
func follows(ctx context.Context, r *driver, count *restart.Count, ran time.Duration) *driver {
	if ctx.Err() != nil {
		return nil
	}
	a := &retrial{number: r.restarted() + 1, since: time.Now(), ranks: r.plan.On(), had: len(r.plan.Placements)}
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
	for i, l := range r.run.Losses() {
		h := r.plan.Hosts[i].Name
		a.seats = append(a.seats, restart.Seat{Host: h, Ranks: a.ranks[i].Len(), Lost: l.Lost})
		if d := l.Since + r.cfg.Lease + unread + r.cfg.Grace - r.clock.Now(); l.Unsure && d > left {
			left, last = d, h
		}
	}
	a.pause, until = rests(a.pause, left, r.cfg.Beside, last)
	return until
}

// rests is how long ranks wait to start again that would wait for pause, where those of a host may run for left, and the user lets
// them run beside each other for beside.
func rests(pause, left, beside time.Duration, host string) (longer time.Duration, until string) {
	longer = max(pause, left-beside)
	switch {
	case longer < left:
		return longer, fmt.Sprintf(", and for up to %v those of %s may run beside them and write what they write (--restart-beside)", (left - longer).Round(time.Second), host)
	case longer > pause:
		return longer, fmt.Sprintf(", when those of %s have ended by their lease (--launcher-timeout)", host)
	}
	return pause, ""
}

// round is how long the known hosts are waited for before others are looked for, where hosts are found one by one.
const round = 3 * time.Second

// rally finds hosts for the ranks that are to start again, and places them: each host of the last attempt keeps its ranks, and one
// that is gone is replaced.
func (r *planner) rally(ctx, life context.Context) ([]reach.Found, *reach.Opener, error) {
	rest := time.NewTimer(time.Until(r.again.begins()))
	defer rest.Stop()
	select {
	case <-rest.C:
	case <-ctx.Done():
		return nil, nil, r.unrested(ctx)
	}
	if r.cfg.Elastic.On() {
		return r.muster(ctx, life, r.hosts)
	}
	opener, want := r.opens(), r.hosts
	for {
		within, cancel := ctx, context.CancelFunc(func() {})
		if r.cfg.Discovers() {
			within, cancel = context.WithTimeout(ctx, round)
		}
		found, lines := r.cfg.Rally(within, life, want, func(have []reach.Answer) bool { _, ok := r.cast(want, have); return ok }, opener)
		ended := within.Err() != nil
		cancel()
		cast, ok := r.cast(want, tried(found))
		if ok {
			found, err := r.seat(found, cast)
			return found, opener, err
		}
		reach.CloseAll(found)
		if ctx.Err() != nil || !ended { // what no waiting changes
			return nil, nil, r.impatient(ctx, r.lacks(cast, lines))
		}
		want = r.joinedBy(r.hosts, r.cfg.Seen(ctx))
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

// joinedBy is hosts that the run knows, and others that are found now.
func (r *planner) joinedBy(known []hosts.Wanted, seen *hosts.Set) []hosts.Wanted {
	want := slices.Clone(known)
	if seen == nil {
		return want
	}
	at := map[netip.AddrPort]bool{}
	for _, w := range want {
		for _, a := range w.Fixed {
			at[a], at[netip.AddrPortFrom(a.Addr(), 0)] = true, true
		}
		if a, err := netip.ParseAddr(w.Entry.Name); w.Bare && err == nil {
			at[netip.AddrPortFrom(a, 0)] = true
		}
	}
	for _, w := range seen.Hosts {
		name, _ := netip.ParseAddr(w.Entry.Name)
		if len(w.Fixed) > 0 && !at[w.Fixed[0]] || w.Bare && !at[netip.AddrPortFrom(name, 0)] {
			want = append(want, w)
		}
	}
	return want
}

// cast is which of the hosts takes which seat.
func (r *planner) cast(want []hosts.Wanted, have []reach.Answer) (cast []int, ok bool) {
	return restart.Cast(r.again.seats, r.answers(want, have), r.cfg.Policy.Oversubscribe)
}

// answers are the hosts as launcher/restart takes them.
func (r *planner) answers(want []hosts.Wanted, have []reach.Answer) []restart.Answer {
	answers := make([]restart.Answer, len(want))
	for i, w := range want {
		answers[i] = restart.Answer{Host: w.Entry.Name, Here: have[i].Session != nil, Tried: have[i].Tried, Slots: w.Entry.Slots}
		if s := have[i].Session; s != nil {
			answers[i].Slots = r.room(HostOf(w, link.Slots(s.Opened.Host), 0))
			if name := s.Opened.Host.GetName(); w.Bare && name != "" {
				answers[i].Host = name
			}
		}
	}
	return answers
}

// seat places the ranks on the hosts that were cast, each with as many as the seat had, and lets the others go but for spares.
func (r *planner) seat(found []reach.Found, cast []int) (have []reach.Found, err error) {
	r.enter("placing")
	var want []hosts.Wanted
	seated := make([]job.Host, len(cast))
	for i, at := range cast {
		f, s := found[at], r.again.seats[i]
		if name := f.Session.Opened.Host.GetName(); f.Bare && name != "" {
			f.Wanted = hosts.Wanted{Entry: hostlist.Entry{Name: name}, Fixed: []netip.AddrPort{f.Session.Addr}}
		}
		if !slices.ContainsFunc(r.hosts, func(w hosts.Wanted) bool { return w.Entry.Name == f.Entry.Name }) {
			r.hosts = append(slices.Clone(r.hosts), f.Wanted)
		}
		delete(r.spare, f.Entry.Name)
		have, want, found[at] = append(have, f), append(want, f.Wanted), reach.Found{}
		if f.Entry.Name != s.Host {
			r.say("%s comes in for %s: %s", f.Entry.Name, s.Host, r.again.ranks[i].Named("rank"))
			r.again.replaced = append(r.again.replaced, report.Replaced{Host: s.Host, By: f.Entry.Name, Ranks: r.again.ranks[i].String()})
		}
	}
	all := r.allocation(want, have)
	copy(seated, all)
	for i := range seated {
		seated[i].Slots, seated[i].SlotsGiven = r.again.seats[i].Ranks, true
	}
	for _, f := range found {
		if f.Session != nil && r.spare[f.Entry.Name] {
			have = append(have, f)
		} else {
			reach.CloseAll([]reach.Found{f})
		}
	}
	if err := r.place(seated, have); err != nil {
		return nil, err
	}
	r.know(want, all, have)
	r.enter("launching")
	return have, nil
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
