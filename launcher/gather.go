package launcher

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"syscall"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/identity"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/launcher/copies"
	"github.com/mpiup/mpiup/launcher/hosts"
	"github.com/mpiup/mpiup/launcher/link"
	"github.com/mpiup/mpiup/launcher/placement"
	"github.com/mpiup/mpiup/launcher/quorum"
	"github.com/mpiup/mpiup/launcher/reach"
	"github.com/mpiup/mpiup/launcher/run"
)

// planner finds the hosts of a run, and places its first job on them.
type planner struct {
	cfg     *Config
	exec    *ExecConfig // nil: a run
	begun   time.Time
	say     func(format string, args ...any)
	phase   string // how far the run has come, before there are ranks
	sources *copies.Sources
	hosts   []hosts.Wanted  // all that the run knows, spares too
	spare   map[string]bool // hosts that get no ranks
	shy     map[string]bool // agents for which an elastic job ended its ranks, and which did not join it then
	sites   []run.Site      // that jobs may be placed on
	wanted  []hosts.Wanted  // how those are reached again
	plan    *job.Plan       // of the first job
	heir    *heir           // nil: this launcher has started the ranks itself
	vain    int             // how often a run could not be taken over
	again   *retrial        // nil: the ranks have not been started yet
	number  uint64          // of this incarnation, in every Launch
	proof   []byte          // our signature under it, for agents that tell others; nil: none
}

// gather finds, reaches and places; r.plan stands when it returns.
func (r *planner) gather(ctx, life context.Context) ([]reach.Found, *reach.Opener, error) {
	if len(r.cfg.Apps) == 0 {
		return nil, nil, reach.Failf(job.ExitUsage, "no program was given")
	}
	var err error
	if r.sources, err = copies.Open(r.cfg.Apps); err != nil {
		return nil, nil, reach.Failf(job.ExitUsage, "%v", err)
	}
	ctx, cancel := r.patience(ctx)
	defer cancel()
	if r.again != nil {
		return r.rally(ctx, life)
	}
	r.cfg.shorten()
	if err := errors.Join(r.cfg.restarts(), r.cfg.outlived()); err != nil {
		return nil, nil, err
	}
	r.cfg.Need = r.needs()
	set, err := r.cfg.Find(ctx)
	if err != nil {
		return nil, nil, r.impatient(ctx, err)
	}
	if r.cfg.Elastic.On() {
		return r.muster(ctx, life, set.Hosts)
	}
	want, err := r.needed(set)
	if err != nil {
		return nil, nil, err
	}
	opener := r.opens()
	found, err := r.cfg.Assemble(ctx, life, want, opener)
	for held := (*reach.Held)(nil); errors.As(err, &held); found, err = r.cfg.Assemble(ctx, life, want, opener) {
		if found, ok, err := r.inherit(ctx, life, held, opener, set.Hosts); ok || err != nil {
			return found, opener, err
		}
		link.Sleep(ctx, time.Second) // what was held ends just now
	}
	if err != nil {
		return nil, nil, r.exec.stranger(r.impatient(ctx, err))
	}
	r.enter("placing")
	if reach.Christen(found) {
		for i, f := range found {
			set.Hosts[i] = f.Wanted
		}
	}
	ranked := r.withoutSpares(set)
	hosts := r.allocation(ranked, found)
	if err := r.place(hosts, found); err != nil {
		return nil, nil, err
	}
	r.know(ranked, hosts, found)
	r.hosts = known(set.Hosts, found)
	r.enter("launching")
	return found, opener, nil
}

// known are hosts as they are found again: those without a name for DNS by their addresses.
func known(all []hosts.Wanted, found []reach.Found) []hosts.Wanted {
	list := slices.Clone(all)
	for i, w := range list {
		at := slices.IndexFunc(found, func(f reach.Found) bool { return f.Entry.Name == w.Entry.Name })
		if at >= 0 && (w.Bare || len(w.Fixed) > 0) && found[at].Session.Addr.IsValid() {
			list[i].Fixed, list[i].Bare = []netip.AddrPort{found[at].Session.Addr}, false
		}
	}
	return list
}

// opens is what begins the sessions of an attempt.
func (r *planner) opens() *reach.Opener {
	opener := reach.NewOpener(&r.cfg.Reach)
	if r.exec == nil {
		opener.Wish, opener.Ports, opener.Within = machineWish(r.cfg.Policy), run.MeetingPorts(r.cfg.Frameworks), r.cfg.MPIPorts.String()
		if !r.cfg.DryRun { // which starts nothing, and goes on with nothing
			if opener.Loss = r.cfg.onLoss(); opener.Loss == apiv1.Loss_LOSS_HOLD {
				opener.Command = r.cfg.Command.digest()
			}
		}
	}
	return opener
}

// place makes the plan; without one it lets the hosts go.
func (r *planner) place(hosts []job.Host, found []reach.Found) (err error) {
	defer func() {
		if err != nil {
			reach.CloseAll(found)
		}
	}()
	if r.plan, err = placement.Place(hosts, r.cfg.Apps, r.cfg.Policy); err != nil {
		return reach.Failf(job.ExitUsage, "%v", err)
	}
	if err := placement.Startable(r.plan, apiv1.MaxProcs); err != nil {
		return reach.Failf(job.ExitUsage, "%v", err)
	}
	if err := checkTools(r.cfg.Apps, len(r.plan.Placements)); err != nil {
		return reach.Failf(job.ExitUsage, "%v", err)
	}
	if n := len(r.plan.Placements); r.cfg.Explain > n {
		return reach.Failf(job.ExitUsage, "--explain %d: the job has ranks 0 to %d", r.cfg.Explain-1, n-1)
	}
	for _, w := range r.plan.Warnings[:min(len(r.plan.Warnings), 1)] {
		r.say("%s", w)
	}
	r.sayUnbound()
	return nil
}

// needs is what the command line asks of hosts that are found one by one.
func (r *planner) needs() quorum.Need {
	ranks := 0
	for _, app := range r.cfg.Apps {
		if ranks += app.N; app.N == 0 { // one a slot, of as many as there are
			ranks = 0
			break
		}
	}
	told, why := r.cfg.Count()
	least, atLeast := r.cfg.Least()
	if e := r.cfg.Elastic; e.On() && e.Begin == 0 && told == 0 {
		return quorum.Need{Ranks: e.Min, All: true, Beyond: r.cfg.Policy.PerNode > 0, Least: least, Why: atLeast}
	}
	n := quorum.Of(told, why, ranks, r.cfg.Policy.PerNode)
	if n.Spares = r.cfg.Spares; n.Hosts > 0 && told == 0 && n.Spares > 0 {
		n.Hosts, n.Why = n.Hosts+n.Spares, fmt.Sprintf("%s and --spares %d", n.Why, n.Spares)
	}
	if n.Hosts == 0 {
		n.Least, n.Why = least, atLeast
	}
	n.All, n.Beyond = r.cfg.Policy.MapBy == placement.ByNode, r.cfg.Policy.Oversubscribe
	return n
}

// checkTools refuses a tool that is to start the program of a rank which the job does not have.
func checkTools(apps []job.App, size int) error {
	for _, a := range apps {
		for _, t := range a.Tools {
			if t.Ranks.Last() >= size {
				return fmt.Errorf("%s is to start rank %d (--wrap), and the job has ranks 0 to %d", t.Argv[0], t.Ranks.Last(), size-1)
			}
		}
	}
	return nil
}

// withoutSpares are the hosts that may get ranks: all but the last of the set, as many as --spares says.
func (r *planner) withoutSpares(set *hosts.Set) []hosts.Wanted {
	at := len(set.Hosts) - r.cfg.Spares
	r.spare = map[string]bool{}
	for _, w := range set.Hosts[at:] {
		r.spare[w.Entry.Name] = true
	}
	return set.Hosts[:at]
}

// needed are the hosts that get ranks, and spares. Where all slots were given, that is known before any
// host is asked; and so is a plan that cannot be.
func (r *planner) needed(set *hosts.Set) ([]hosts.Wanted, error) {
	if n := len(set.Hosts); r.cfg.Spares >= n {
		return nil, reach.Failf(job.ExitUsage, "--spares %d: of the run's %s none is left for ranks", r.cfg.Spares, visible.Count(n, "host"))
	}
	for _, w := range set.Hosts {
		if !w.Entry.Given {
			return set.Hosts, nil
		}
	}
	policy, ok := early(r.cfg.Policy)
	if !ok {
		return set.Hosts, nil
	}
	plan, err := placement.Place(r.allocation(r.withoutSpares(set), nil), r.cfg.Apps, policy)
	if err != nil {
		return nil, reach.Failf(job.ExitUsage, "%v", err)
	}
	ranked := map[string]bool{}
	for _, h := range plan.Hosts {
		ranked[h.Name] = true
	}
	var want []hosts.Wanted
	for _, w := range set.Hosts {
		if ranked[w.Entry.Name] || r.spare[w.Entry.Name] {
			want = append(want, w)
		}
	}
	return want, nil
}

// allocation is the hosts as placement takes them; agents' own counts are taken where no slots
// were given.
func (r *planner) allocation(want []hosts.Wanted, have []reach.Found) []job.Host {
	agents := map[string]reach.Found{}
	for _, f := range have {
		agents[f.Entry.Name] = f
	}
	hosts := make([]job.Host, len(want))
	for i, w := range want {
		f, ok := agents[w.Entry.Name]
		if !ok {
			hosts[i] = HostOf(w, w.Entry.Slots, 0)
			continue
		}
		a := f.Session.Opened.Host
		hosts[i] = HostOf(w, link.Slots(a), link.CPUs(a))
		hosts[i].Layout, hosts[i].NearGPUs = layoutOf(f, r.cfg.Log), nearGPUs(a.GpuUnits, r.cfg.GPUs)
	}
	return hosts
}

// HostOf is a host as placement takes it, with slots where none were given.
func HostOf(w hosts.Wanted, slots, cpus int) job.Host {
	h := job.Host{Name: w.Entry.Name, Slots: slots, SlotsGiven: w.Entry.Given, CPUs: cpus}
	if h.SlotsGiven {
		h.Slots = w.Entry.Slots
	}
	return h
}

// enter notes how far the run has come.
func (r *planner) enter(phase string) {
	r.phase = phase
	r.cfg.Metrics.Phase(phase)
	r.cfg.Log.Debug("job", "state", phase, "after", time.Since(r.begun))
}

// sayUnbound tells who looks closely why nobody is bound.
func (r *planner) sayUnbound() {
	if r.plan.Unbound == "" {
		return
	}
	if text := "ranks are not bound to CPUs: " + r.plan.Unbound; r.cfg.ReportBindings || r.cfg.ShowMap || r.cfg.MapOfOpenMPI {
		r.say("%s (mpiup help binding)", text)
	} else {
		r.cfg.Log.Info(text)
	}
}

// patience bounds gathering by --wait and --timeout, and ends it on INT or TERM.
func (r *planner) patience(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, end := context.WithCancelCause(ctx)
	ctx, cancelWait := context.WithDeadlineCause(ctx, r.again.begins().Add(r.cfg.Wait), errWaited)
	cancelLimit := func() {}
	if r.cfg.Timeout > 0 {
		ctx, cancelLimit = context.WithDeadlineCause(ctx, r.begun.Add(r.cfg.Timeout), errTimeout)
	}
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case s := <-r.cfg.Signals:
				if a, ok := asSignal(s); ok {
					end(a)
				}
			case <-stop:
				return
			}
		}
	}()
	return ctx, func() { close(stop); <-done; cancelLimit(); cancelWait(); end(nil) }
}

var (
	errWaited  = errors.New("--wait has run out")
	errTimeout = errors.New("--timeout has run out")
)

// impatient is err, unless gathering was cut short by the user or by --timeout.
func (r *planner) impatient(ctx context.Context, err error) error {
	var lines []string
	if f := (*reach.Failure)(nil); errors.As(err, &f) {
		lines = f.Lines
	}
	cause := context.Cause(ctx)
	var sig reach.GotSignal
	switch {
	case errors.As(cause, &sig):
		return &reach.Failure{Code: sig.Status(r.exec != nil), Lines: append(lines, fmt.Sprintf("got %s while waiting for hosts", job.SignalName(int(sig))))}
	case errors.Is(cause, errTimeout):
		return &reach.Failure{Code: job.ExitTimeout, Lines: append(lines, fmt.Sprintf("the hosts were not there within --timeout %v", r.cfg.Timeout))}
	}
	return err
}

// asSignal is s if it ends the launcher.
func asSignal(s os.Signal) (reach.GotSignal, bool) {
	if s == syscall.SIGINT || s == syscall.SIGTERM || s == syscall.SIGHUP {
		return reach.GotSignal(s.(syscall.Signal)), true
	}
	return 0, false
}

// know notes the hosts that jobs may be placed on. Those that were reached are found anew where they were found.
func (r *planner) know(want []hosts.Wanted, placed []job.Host, have []reach.Found) {
	r.sites, r.wanted = nil, nil
	for i, w := range want {
		s := run.Site{Host: placed[i], Local: w.Local}
		if at := slices.IndexFunc(have, func(f reach.Found) bool { return f.Entry.Name == w.Entry.Name }); at >= 0 {
			s.Stated, w = have[at].Session.Opened.Host.GetName(), anew(have[at])
		}
		r.sites, r.wanted = append(r.sites, s), append(r.wanted, w)
	}
}

// anew is a host as it is reached again.
func anew(f reach.Found) hosts.Wanted {
	if f.Session.Addr.IsValid() {
		f.Fixed = []netip.AddrPort{f.Session.Addr}
	}
	return f.Wanted
}

// number is this incarnation's fencing number: the one it has, or the next after all that any
// reached agent knows. Agents may lie: only what we said ourselves is our own, and of the others' word a number comes that no
// agent refuses; how far it is above what they know is bounded by each for itself (agent/session).
func number(hosts []reach.Found, said func(number uint64, proof []byte) bool) uint64 {
	var own, highest uint64
	for _, h := range hosts {
		o := h.Session.Opened
		highest = max(highest, min(o.HighestNumber, identity.MaxNumber-1))
		if o.OwnNumber > own && o.OwnNumber <= identity.MaxNumber && said(o.OwnNumber, o.OwnProof) {
			own = o.OwnNumber
		}
	}
	if own > 0 {
		return own
	}
	return highest + 1
}

// said tells whether a launcher of this incarnation, which is one of our container, has signed a number.
func (r *planner) said(number uint64, proof []byte) bool {
	if r.cfg.Identity == nil { // no agent but our own
		return true
	}
	kind, text := identity.NumberClaim(number, r.cfg.Incarnation)
	who, err := r.cfg.Identity.Verify(kind, text, proof)
	return err == nil && identity.Require(who, identity.RoleLauncher) == nil
}

// prove signs the number. Without a signature other agents are not told of it, which only a launcher that comes
// after us and reaches none of ours could miss.
func (r *planner) prove() []byte {
	if r.cfg.Identity == nil {
		return nil
	}
	kind, text := identity.NumberClaim(r.number, r.cfg.Incarnation)
	proof, err := r.cfg.Identity.Sign(kind, text)
	if err != nil {
		r.cfg.Log.Info("the number is not signed", "cause", err)
	}
	return proof
}
