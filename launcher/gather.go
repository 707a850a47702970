package launcher

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/awake"
	"github.com/mpiup/mpiup/internal/identity"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/launcher/hosts"
	"github.com/mpiup/mpiup/launcher/link"
	"github.com/mpiup/mpiup/launcher/reach"
	"github.com/mpiup/mpiup/launcher/report"
	"github.com/mpiup/mpiup/launcher/run"
	"github.com/mpiup/mpiup/launcher/run/model"
	"github.com/mpiup/mpiup/launcher/run/phases"
	"github.com/mpiup/mpiup/launcher/streams"
	"github.com/mpiup/mpiup/launcher/survey"
)

// planner finds the hosts of a run, and places its first job on them.
type planner struct {
	cfg         *Config
	exec        *ExecConfig // nil: a run
	begun       time.Time
	say         func(format string, args ...any)
	remains     *report.Keeper
	phase       string // how far the run has come, before there are ranks
	sources     *streams.Files
	course      *phases.Run             // what is to be done next, and which hosts are known
	next        phases.Order            // what it was when this attempt began
	sites       []model.Site            // that jobs may be placed on
	wanted      map[string]hosts.Wanted // how those are reached again, by name
	plan        *job.Plan               // of the first job
	held        *reach.Held             // the host that holds a run for this launcher
	predecessor *predecessor            // nil: this launcher has started the ranks itself
	number      uint64                  // of this incarnation, in every Launch
	proof       []byte                  // our signature under it, for agents that tell others; nil: none
}

// gather finds, reaches and places; r.plan stands when it returns.
func (r *planner) gather(ctx, life context.Context) ([]reach.Found, *reach.Opener, error) {
	if len(r.cfg.Apps) == 0 {
		return nil, nil, reach.Failf(job.ExitUsage, "no program was given")
	}
	var err error
	if r.sources, err = streams.OpenFiles(r.cfg.Apps); err != nil {
		return nil, nil, reach.Failf(job.ExitUsage, "%v", err)
	}
	begins := time.Now()
	if r.course.Again != nil {
		begins = r.course.Again.Begins
	}
	ctx, cancel := r.patience(ctx, begins)
	defer cancel()
	opener, next := r.opens(), r.next
	over, end := context.WithCancel(context.Background())
	defer end()
	call := lastCall{over, sync.OnceFunc(func() { awake.After(r.cfg.Elastic.LastCall, end) })}
	var found []reach.Found
	for {
		switch err = nil; next.Do {
		case phases.Seek:
			next, err = r.seek(ctx)
		case phases.Rest:
			next, err = r.rest(ctx)
		case phases.Gather:
			found, next, err = r.reach(ctx, life, next, opener, call)
		case phases.Adopt:
			found, next, err = r.inherit(ctx, life, next.At, opener)
		case phases.Attempt:
			return found, opener, nil
		case phases.Place:
			if found, err = r.seat(found, next.Choice); err == nil {
				return found, opener, nil
			}
		case phases.End:
			if next.Failure != nil {
				return nil, nil, r.impatient(ctx, next.Failure)
			}
			return nil, nil, r.impatient(ctx, &unmanned{next.Say})
		}
		if err != nil {
			return nil, nil, err
		}
	}
}

// seek finds the hosts of a run.
func (r *planner) seek(ctx context.Context) (next phases.Order, err error) {
	r.cfg.shorten()
	if err := errors.Join(r.cfg.restarts(), r.cfg.outlived()); err != nil {
		return next, err
	}
	told, why := r.cfg.Count()
	least, atLeast := r.cfg.Least()
	r.cfg.Need = r.cfg.wish().Needs(told, why, least, atLeast)
	set, err := r.cfg.Find(ctx)
	if err != nil {
		return next, r.impatient(ctx, err)
	}
	return r.course.Sought(set.Hosts), nil
}

// reach reaches hosts: all, or as many as suffice.
func (r *planner) reach(ctx, life context.Context, o phases.Order, opener *reach.Opener, call lastCall) (found []reach.Found, next phases.Order, err error) {
	if o.Pause {
		link.Sleep(ctx, time.Second) // what was held ends just now, or another host comes
	}
	want := o.Want
	if o.Look {
		if seen := r.cfg.Seen(ctx); seen != nil {
			want = phases.Joined(want, seen.Hosts)
		}
	}
	if !o.All {
		found, next = r.assembleEnough(ctx, life, want, opener, call)
		return found, next, nil
	}
	found, err = r.cfg.Assemble(ctx, life, want, opener)
	if held := (*reach.Held)(nil); errors.As(err, &held) {
		next, err = r.holds(held)
		return nil, next, err
	}
	if err != nil {
		return nil, next, r.exec.stranger(r.impatient(ctx, err))
	}
	return found, r.course.Gathered(phases.Gathered{}), nil
}

// first gives ranks to hosts that have had none.
func (r *planner) first(found []reach.Found) ([]reach.Found, error) {
	reach.OwnNames(found)
	var ranked []phases.Answer
	for _, w := range r.course.First(known(r.course.Known, found)) {
		a := phases.Answer{Wanted: w}
		if at := slices.IndexFunc(found, func(f reach.Found) bool { return f.Entry.Name == w.Entry.Name }); at >= 0 {
			a.Wanted, a.Host = anew(found[at]), r.hostOf(found[at])
		}
		ranked = append(ranked, a)
	}
	return found, r.place(found, ranked, phases.Places(ranked))
}

// known are hosts as they are found again: those without a name for DNS by their addresses. Where they had none but that, they are called and
// ordered as found.
func known(all []hosts.Wanted, found []reach.Found) (list []hosts.Wanted) {
	for i, w := range all {
		if w.Bare {
			list = append(list, anew(found[i]))
			continue
		}
		at := slices.IndexFunc(found, func(f reach.Found) bool { return f.Entry.Name == w.Entry.Name })
		if at >= 0 && len(w.Fixed) > 0 {
			w = anew(found[at])
		}
		list = append(list, w)
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

// place makes the plan and notes the hosts that jobs may be placed on; without a plan it lets all hosts go.
func (r *planner) place(found []reach.Found, all []phases.Answer, seated []job.Host) (err error) {
	if r.plan, err = r.cfg.wish().Plan(seated); err == nil && r.cfg.Explain > len(r.plan.Placements) {
		err = fmt.Errorf("--explain %d: the job has ranks 0 to %d", r.cfg.Explain-1, len(r.plan.Placements)-1)
	}
	if err != nil {
		reach.CloseAll(found)
		return reach.Failf(job.ExitUsage, "%v", err)
	}
	for _, w := range r.plan.Warnings[:min(len(r.plan.Warnings), 1)] {
		r.say("%s", w)
	}
	r.sayUnbound()
	r.know(all)
	r.enter("launching")
	return nil
}

// enter notes how far the run has come.
func (r *planner) enter(phase string) {
	r.phase = phase
	r.remains.Enter(phase)
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

// patience bounds gathering, or a look at hosts, by --wait from when it begins and by --timeout, and ends it on INT or TERM.
func (r *planner) patience(ctx context.Context, begins time.Time) (context.Context, context.CancelFunc) {
	ctx, end := context.WithCancelCause(ctx)
	ctx, cancelWait := awake.WithinCause(ctx, time.Until(begins)+r.cfg.Wait, errWaited)
	cancelLimit := func() {}
	if r.cfg.Timeout > 0 {
		ctx, cancelLimit = context.WithDeadlineCause(ctx, r.begun.Add(r.cfg.Timeout), reach.ErrTimeout)
	}
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case s := <-r.cfg.Signals:
				if sig, ok := s.(syscall.Signal); ok && job.EndsWaiting(int(sig)) {
					end(reach.GotSignal(sig))
				}
			case <-stop:
				return
			}
		}
	}()
	return ctx, func() { close(stop); <-done; cancelLimit(); cancelWait(); end(nil) }
}

var errWaited = errors.New("--wait has run out")

// impatient is err, unless gathering was cut short by the user or by --timeout.
func (r *planner) impatient(ctx context.Context, err error) error {
	cut := r.cut(ctx, "while waiting for hosts")
	if cut == nil {
		return err
	}
	if f := (*reach.Failure)(nil); errors.As(err, &f) {
		cut.Lines = slices.Concat(f.Lines, cut.Lines)
	}
	return cut
}

// cut is why the user or --timeout has ended a ctx of patience in the middle of what; nil: neither has.
func (r *planner) cut(ctx context.Context, what string) *reach.Failure {
	cause := context.Cause(ctx)
	var sig reach.GotSignal
	var other *Elsewhere
	switch {
	case errors.As(cause, &other):
		return reach.Failf(other.Code, "%s", other.Sentence)
	case errors.As(cause, &sig):
		return reach.Failf(sig.Status(r.exec != nil), "got %s %s", job.SignalName(int(sig)), what)
	case errors.Is(cause, reach.ErrTimeout):
		return reach.Failf(job.ExitTimeout, "--timeout %v ran out %s", r.cfg.Timeout, what)
	}
	return nil
}

// know notes the hosts that jobs may be placed on. Those that were reached are found anew where they were found.
func (r *planner) know(all []phases.Answer) {
	r.sites, r.wanted = nil, map[string]hosts.Wanted{}
	for _, a := range all {
		s := model.Site{Host: a.Place(), Local: a.Local}
		if a.Host != nil {
			s.Stated = a.Host.Stated
		}
		if len(a.Fixed) > 0 {
			s.Address = a.Fixed[0]
		}
		r.sites, r.wanted[a.Entry.Name] = append(r.sites, s), a.Wanted
	}
}

// anew is a host as it is reached again: where it was found.
func anew(f reach.Found) hosts.Wanted {
	if f.Session.Addr.IsValid() {
		f.Fixed, f.Bare = []netip.AddrPort{f.Session.Addr}, false
	}
	return f.Wanted
}

// hostOf is what the run knows of a host; nil: it was not reached.
func (r *planner) hostOf(f reach.Found) *model.Host {
	if f.Session == nil {
		return nil
	}
	o := f.Session.Opened
	return &model.Host{Name: f.Entry.Name, Stated: o.Host.GetName(), Version: o.Version, Ports: o.MeetingPorts, Slots: link.Slots(o.Host), CPUs: link.CPUs(o.Host),
		Layout: layoutOf(f, r.cfg.Log), NearGPUs: survey.NearGPUs(o.Host.GetGpuUnits(), r.cfg.GPUs)}
}

// answers are hosts as it is chosen between them: by name and slots.
func answers(found []reach.Found) []phases.Answer {
	list := make([]phases.Answer, len(found))
	for i, f := range found {
		list[i] = phases.Answer{Wanted: f.Wanted, Tried: f.Tried}
		if s := f.Session; s != nil {
			list[i].Host = &model.Host{Stated: s.Opened.Host.GetName(), Slots: link.Slots(s.Opened.Host)}
		}
	}
	return list
}

// wish is what the user wants of hosts and ranks.
func (c *Config) wish() phases.Wish {
	return phases.Wish{Apps: c.Apps, Policy: c.Policy, Spares: c.Spares, Elastic: c.Elastic, PerHost: apiv1.MaxProcs}
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
