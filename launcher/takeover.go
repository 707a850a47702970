package launcher

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/awake"
	"github.com/mpiup/mpiup/internal/hostlist"
	"github.com/mpiup/mpiup/internal/identity"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/launcher/hosts"
	"github.com/mpiup/mpiup/launcher/journal"
	"github.com/mpiup/mpiup/launcher/link"
	"github.com/mpiup/mpiup/launcher/reach"
	"github.com/mpiup/mpiup/launcher/run"
	"github.com/mpiup/mpiup/launcher/run/choose"
	"github.com/mpiup/mpiup/launcher/run/model"
	"github.com/mpiup/mpiup/launcher/run/phases"
	"github.com/mpiup/mpiup/launcher/survey"
)

// A run with --on-launcher-loss hold outlives its launcher. Once all ranks run, each agent has a journal of it (launcher/journal), which
// the launcher has signed. The next launcher with the same command is told of it when it opens a session there, takes over the
// sessions that the journal names, and goes on with a launcher/run that begins by what the agents tell it again.

// journalKind is what a launcher signs.
const journalKind = "journal of a run"

// maxHold is how long ranks are held at the most, as the command line and agents bound it.
const maxHold = 24 * time.Hour

// otherClock is how far the clocks of two pods may be apart, as certificates have it (docs/security.md).
const otherClock = 12 * time.Hour

// heir is what a launcher has from the one before it.
type heir struct {
	journal *journal.Journal
	text    []byte                 // of it, as hosts keep it
	gone    map[string]*link.Cause // hosts that were not handed over, by name: why
	taken   []time.Time            // when each host was handed over, or given up
	settled time.Time              // when all were
}

// at turns the age that a host states into a time on the run's clock. The clock stood at before when all hosts were settled. A host
// counts an age up to its own handover, and hosts are handed over one after the other. So ends on two hosts are ordered to
// milliseconds. What a host tells later has no age: it is new.
func (h *heir) at(host int, said time.Duration) (at time.Duration, known bool) {
	if h == nil || said == 0 || host >= len(h.taken) {
		return 0, false
	}
	return max(before-h.settled.Sub(h.taken[host])-said, 1), true
}

// lostAt is why a host was not handed over; nil: it was.
func (h *heir) lostAt(host string) *link.Cause {
	if h == nil {
		return nil
	}
	return h.gone[host]
}

// anyNumber is where this launcher begins to count its questions. It is random, so that no earlier launcher used these numbers.
func anyNumber() uint64 {
	var b [8]byte
	rand.Read(b[:])
	return binary.BigEndian.Uint64(b[:]) >> 1
}

// Command is a run's command line as the next launcher must have it too: without what becomes of the ranks when a launcher is lost.
type Command struct {
	Words []string
	Text  string // as people read it
}

// digest is what two launchers compare.
func (c *Command) digest() []byte {
	h := sha256.New()
	for _, w := range c.Words {
		fmt.Fprintf(h, "%d %s\n", len(w), w)
	}
	return h.Sum(nil)
}

// onLoss is what agents are to do when this launcher is lost.
func (c *Config) onLoss() apiv1.Loss {
	switch {
	case c.Loss.Hold > 0:
		return apiv1.Loss_LOSS_HOLD
	case c.Loss.Said:
		return apiv1.Loss_LOSS_FENCE
	}
	return apiv1.Loss_LOSS_UNSAID
}

// outlived refuses what cannot outlive its launcher.
func (c *Config) outlived() error {
	switch {
	case c.Loss.Hold == 0:
		return nil
	case c.StdinTarget != "none" && c.Stdin != nil && !isNull(c.Stdin):
		return reach.Failf(job.ExitUsage, "--on-launcher-loss hold: another launcher cannot read on where this one's standard input ends; add < /dev/null, or --stdin none")
	case c.Elastic.On():
		return reach.Failf(job.ExitUsage, "--on-launcher-loss hold: the hosts of an elastic job change, and the next launcher would not know those that came; leave out one of --min-np and hold")
	case c.Nodes > 1:
		return reach.Failf(job.ExitUsage, "--on-launcher-loss hold: each pod starts ranks of its own; leave it out, or start all from one pod")
	}
	return nil
}

// apart refuses hosts whose ranks would be this very process's children.
func apart(found []reach.Found) error {
	for _, f := range found {
		if f.Wait != nil {
			return reach.Failf(job.ExitUsage, "--on-launcher-loss hold: ranks on %s, this very host, would end with the launcher: leave it out of the hosts, or run `mpiup agent` here", f.Entry.Name)
		}
	}
	return nil
}

// describe is what another launcher needs to take this run over; nil: none is to.
func (r *planner) describe(run, namespace string, conns []*link.Conn) (func(time.Time) *apiv1.Hold, error) {
	if r.cfg.Loss.Hold == 0 || r.exec != nil {
		return nil, nil
	}
	j := &journal.Journal{Run: run, Begun: r.begun, Namespace: namespace, Universe: r.plan.Universe, Restarts: r.course.Restarts}
	at := map[string]int{}
	for i, s := range r.sites {
		site := journal.Site{Name: s.Name, Stated: s.Stated, Slots: s.Slots, Given: s.SlotsGiven, CPUs: s.CPUs}
		if fixed := r.wanted[i].Fixed; len(fixed) > 0 {
			site.Address = fixed[0]
		}
		at[s.Name] = i
		j.Sites = append(j.Sites, site)
	}
	for _, c := range conns {
		o := c.First.Opened
		j.Hosts = append(j.Hosts, journal.Host{Site: at[c.Name], Session: c.First.Open.Session, Agent: o.Host.GetIncarnation(), Version: o.Version})
		j.Sites[at[c.Name]].Address = c.First.Addr
	}
	for i := range j.Hosts {
		j.Hosts[i].Meets = meetsAt(i, conns)
	}
	for _, p := range r.plan.Placements {
		j.Ranks = append(j.Ranks, journal.Rank{Host: p.Host, App: p.App, Local: p.LocalRank, CPUs: p.CPUs.String()})
	}
	b, err := j.Encode()
	if err != nil {
		return nil, reach.Failf(job.ExitUsage, "--on-launcher-loss hold: %v", err)
	}
	if _, err := r.sign(b, time.Now()); err != nil {
		return nil, reach.Failf(job.ExitTLS, "--on-launcher-loss hold: %v", err)
	}
	return r.signs(b), nil
}

// sign is a journal as hosts get it, from a launcher that lives at that time.
func (r *planner) sign(text []byte, at time.Time) (h *apiv1.Hold, err error) {
	h = &apiv1.Hold{Journal: text, Command: r.cfg.Command.digest(), Text: r.cfg.Command.Text, SignedS: uint64(at.Unix()), HoldMs: uint64(r.cfg.Loss.Hold.Milliseconds())}
	h.Proof, err = r.cfg.Identity.Sign(journalKind, signedOf(h))
	return h, err
}

// signs signs a journal whenever it is asked; nil: it cannot, and hosts keep the one that they have.
func (r *planner) signs(text []byte) func(time.Time) *apiv1.Hold {
	return func(at time.Time) *apiv1.Hold {
		h, err := r.sign(text, at)
		if err != nil {
			r.cfg.Log.Warn("what another launcher needs of this run is not signed anew", "cause", err)
			return nil
		}
		return h
	}
}

// signedOf is all of it that a launcher signs: all but the text that people read.
func signedOf(h *apiv1.Hold) []byte {
	return fmt.Appendf(nil, "%x %x %d %d", sha256.Sum256(h.GetJournal()), h.GetCommand(), h.GetSignedS(), h.GetHoldMs())
}

// holds takes a host's word that it holds runs whose launcher is lost.
func (r *planner) holds(held *reach.Held) (next phases.Order, err error) {
	var runs []choose.Held
	for _, h := range held.Runs {
		if err := r.believes(h.Hold, held.Host); err != nil {
			return next, err
		}
		runs = append(runs, choose.Held{Launcher: h.Launcher, Command: h.Hold.GetCommand(), Text: h.Hold.GetText(), Taken: h.Taken, Left: time.Duration(h.LeftMs) * time.Millisecond})
	}
	r.held = held
	return r.course.Held(held.Host, runs, choose.Held{Command: r.cfg.Command.digest(), Text: r.cfg.Command.Text}, r.cfg.Loss.Hold > 0), nil
}

// inherit takes over a run whose launcher is lost, of those that a host holds.
func (r *planner) inherit(ctx, life context.Context, at int, o *reach.Opener) (found []reach.Found, next phases.Order, err error) {
	of := r.held.Runs[at]
	j, err := r.read(of, r.held)
	if err != nil {
		return nil, next, err
	}
	r.say("taking over from launcher %s, which is lost: %s on %s", of.Launcher, visible.Count(len(j.Ranks), "rank"), visible.Count(len(j.Hosts), "host"))
	r.enter("taking over")
	o.Run, r.heir = j.Run, &heir{journal: j, text: of.Hold.Journal, gone: map[string]*link.Cause{}, taken: make([]time.Time, len(j.Hosts))}
	found, any, first := r.adopt(ctx, life, o)
	if first != nil {
		reach.CloseAll(found) // without a word: the ranks wait, and the other takes these too
		f := reach.Failf(job.ExitPreempted, "%v: it was there first, and this launcher ends", first)
		f.Outrun = true
		return nil, next, f
	}
	lines := r.heir.lines()
	if next = r.course.Adopted(any, ctx.Err() != nil, j.Restarts, of.Launcher, lines); any {
		r.plan, r.begun = j.Plan(), j.Begun
		r.settle(j)
	} else {
		r.heir = nil
	}
	return found, next, nil
}

// settle notes the hosts of a run that was taken over. Where ranks start again they are found as the command line says: a pod that was
// made anew has another address.
func (r *planner) settle(j *journal.Journal) {
	known := r.course.Known
	r.course.Known, r.sites, r.wanted = nil, nil, nil
	for _, s := range j.Sites {
		w := hosts.Wanted{Entry: hostlist.Entry{Name: s.Name, Slots: s.Slots, Given: s.Given}}
		if s.Address.IsValid() {
			w.Fixed = []netip.AddrPort{s.Address}
		}
		r.wanted = append(r.wanted, w)
		r.sites = append(r.sites, model.Site{Host: job.Host{Name: s.Name, Slots: s.Slots, SlotsGiven: s.Given, CPUs: s.CPUs}, Stated: s.Stated})
		if at := slices.IndexFunc(known, func(k hosts.Wanted) bool { return k.Entry.Name == s.Name && !k.Bare }); at >= 0 {
			w = known[at]
		}
		r.course.Known = append(r.course.Known, w)
	}
	r.enter("launching")
}

// lines are why hosts were not handed over.
func (h *heir) lines() (lines []string) {
	for _, name := range slices.Sorted(maps.Keys(h.gone)) {
		lines = append(lines, fmt.Sprintf("host %s was not handed over: %v", name, h.gone[name]))
	}
	return lines[:min(len(lines), 5)]
}

// believes refuses what no launcher of this name and job has signed lately: agents may lie, and may have kept what was true once.
func (r *planner) believes(h *apiv1.Hold, host string) error {
	no := func(format string, args ...any) error {
		return reach.Failf(job.ExitTLS, "host %s describes the run that it holds %s: end it with --on-launcher-loss fence", host, fmt.Sprintf(format, args...))
	}
	if len(h.GetJournal()) > journal.MaxSize {
		return no("in %d bytes, and %d are possible", len(h.Journal), journal.MaxSize)
	}
	self, err := r.cfg.Identity.Self()
	if err != nil {
		return reach.Failf(job.ExitTLS, "%v", err)
	}
	at := time.Unix(int64(min(h.GetSignedS(), 1<<40)), 0)
	who, err := r.cfg.Identity.VerifyAt(journalKind, signedOf(h), h.GetProof(), at)
	if err == nil {
		err = identity.Require(who, identity.RoleLauncher)
	}
	holds := time.Duration(min(h.GetHoldMs(), uint64(maxHold/time.Millisecond))) * time.Millisecond
	now := time.Now()
	switch {
	case err != nil:
		return no("in words that no launcher of this job has signed (%v)", err)
	case who.RoleProven && who.Name != self.Name:
		return no("in words of launcher %s, and this one is %s", who.Name, self.Name)
	case now.After(at.Add(run.Renewed+holds+otherClock)) || now.Add(otherClock).Before(at):
		return no("in words of %s, and a launcher that lives says them anew each hour; the clock here says %s",
			at.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	}
	return nil
}

// read is the journal of a run that a host holds, which must be of that very agent and session.
func (r *planner) read(of *apiv1.Held, held *reach.Held) (*journal.Journal, error) {
	j, err := journal.Decode(of.Hold.Journal, len(r.cfg.Apps))
	if err != nil {
		return nil, reach.Failf(job.ExitUsage, "host %s: %v: end the run that it holds with --on-launcher-loss fence", held.Host, err)
	}
	if !slices.ContainsFunc(j.Hosts, func(h journal.Host) bool { return h.Session == of.Session && h.Agent == held.Agent }) {
		return nil, reach.Failf(job.ExitTLS, "host %s describes a run that is not there: its launcher names another agent, or another session: end it with --on-launcher-loss fence", held.Host)
	}
	return j, nil
}

// claims are the sessions that a launcher has taken over or tries to. Of two launchers that come at once, the one that has the first
// of the journal's hosts, of those that either has, goes on.
type claims struct {
	cancel context.CancelCauseFunc

	mu  sync.Mutex
	was []claim // by host, guarded by mu
}

type claim int

const (
	sought claim = iota
	had
	missed
)

func (c *claims) set(host int, to claim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.was[host] = to
}

// yields says that another launcher wins: it has this host, and we have none of the hosts before it.
func (c *claims) yields(host int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !slices.ContainsFunc(c.was[:host], func(of claim) bool { return of != missed })
}

// adopt takes over each host's session. Those that cannot be had are in the heir's list; any says that one could. first is the word of
// another launcher that was there before us.
func (r *planner) adopt(ctx, life context.Context, o *reach.Opener) (found []reach.Found, any bool, first error) {
	j := r.heir.journal
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	all := &claims{cancel: cancel, was: make([]claim, len(j.Hosts))}
	attach, causes := reach.NewDialer(r.cfg.Identity, len(j.Hosts)).Attach, make([]*link.Cause, len(j.Hosts))
	found = make([]reach.Found, len(j.Hosts))
	survey.InParallel(len(j.Hosts), func(i int) {
		site := j.Sites[j.Hosts[i].Site]
		found[i].Wanted = hosts.Wanted{Entry: hostlist.Entry{Name: site.Name, Slots: site.Slots, Given: site.Given}, Fixed: []netip.AddrPort{site.Address}}
		found[i].Session, causes[i] = r.takeHost(ctx, life, attach, i, all, o.Adopt(j.Hosts[i].Session))
		r.heir.taken[i] = time.Now()
		all.set(i, map[bool]claim{true: had, false: missed}[causes[i] == nil])
	})
	r.heir.settled = time.Now()
	if c := (*link.Cause)(nil); errors.As(context.Cause(ctx), &c) {
		first = c
	}
	left := map[string]bool{}
	for _, f := range found {
		if f.Session != nil {
			for _, agent := range f.Session.Opened.Left {
				left[agent] = true
			}
		}
	}
	for i, c := range causes {
		if c != nil && left[j.Hosts[i].Agent] {
			c = &link.Cause{Stage: c.Stage, Ending: true, Err: fmt.Errorf("its agent was told to end while no launcher was there: %w", c)}
		}
		if any = any || c == nil; c != nil {
			site := j.Sites[j.Hosts[i].Site]
			r.heir.gone[site.Name] = c
			found[i].Session = &link.Session{Addr: site.Address, Open: &apiv1.Open{}, Close: func() {}, Opened: &apiv1.Opened{Host: &apiv1.HelloReply{Name: site.Stated}}}
		}
	}
	return found, any, first
}

const (
	takePause = 100 * time.Millisecond
	tellAlive = 3 * time.Second // how long a host is waited for that has not given the launcher before us up, without a word
)

// takeHost takes over one session: at once where its launcher was given up, else when it is.
func (r *planner) takeHost(ctx, life context.Context, attach link.Attach, host int, all *claims, open *apiv1.Open) (*link.Session, *link.Cause) {
	h := r.heir.journal.Hosts[host]
	at := r.heir.journal.Sites[h.Site].Address
	begun, told, last := time.Now(), false, (*link.Cause)(nil)
	late, stop := awake.Within(ctx, r.cfg.NodeTimeout)
	defer stop()
	for {
		s, err := attach(ctx, life, at, open)
		if err == nil {
			if s.Opened.Host.GetIncarnation() == h.Agent {
				return s, nil
			}
			s.Close()
			return nil, link.Causef(link.StageConnect, "%v: another incarnation of its agent answers", at)
		}
		c := link.AsCause(err)
		if ctx.Err() != nil {
			return nil, cmp.Or(last, c)
		}
		switch last = c; {
		case c.Stage == link.StageFenced && all.yields(host):
			all.cancel(c)
			return nil, c
		case c.Stage == link.StageFenced: // by one that will let it go
		case c.Alive:
			if !told && time.Since(begun) > tellAlive {
				told = true
				r.say("%v: it is waited for", c)
			}
		case c.Refused || c.Stranger || c.Ending || c.Stage == link.StageTLS || c.Stage == link.StageVersion || late.Err() != nil:
			return nil, c
		}
		link.Sleep(ctx, takePause)
	}
}

// CommandOf is what launchers compare of a command line, of whose words the first so many are flags of mpiup's.
func CommandOf(words []string, flags int) Command {
	const flag, most = "--on-launcher-loss", 2000 // bytes
	var kept []string
	for i := 0; i < len(words); i++ {
		switch {
		case i < flags && words[i] == flag:
			i++
		case i < flags && strings.HasPrefix(words[i], flag+"="):
		default:
			kept = append(kept, words[i])
		}
	}
	text := strings.Join(kept, " ")
	if len(text) > most {
		text = text[:most] + "..."
	}
	return Command{Words: kept, Text: text}
}
