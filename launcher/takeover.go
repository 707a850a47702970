package launcher

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/hostlist"
	"github.com/mpiup/mpiup/internal/identity"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/wording"
	"github.com/mpiup/mpiup/launcher/hosts"
	"github.com/mpiup/mpiup/launcher/journal"
	"github.com/mpiup/mpiup/launcher/link"
	"github.com/mpiup/mpiup/launcher/reach"
	"github.com/mpiup/mpiup/launcher/survey"
)

// A run with --on-launcher-loss hold outlives its launcher. Once all ranks run, each agent has a journal of it (launcher/journal), which
// the launcher has signed. The next launcher with the same command is told of it when it opens a session there, takes over the
// sessions that the journal names, and goes on with a launcher/run that begins by what the agents tell it again.

// journalKind is what a launcher signs.
const journalKind = "journal of a run"

// heir is what a launcher has from the one before it.
type heir struct {
	journal *journal.Journal
	gone    map[string]string // hosts that were not handed over, by name: why
}

// lostAt is why a host was not handed over; "": it was.
func (h *heir) lostAt(host string) string {
	if h == nil {
		return ""
	}
	return h.gone[host]
}

// restarted is how often the ranks had been started again.
func (r *planner) restarted() int {
	if r.heir != nil {
		return r.heir.journal.Restarts
	}
	return r.again.times()
}

// anyNumber is one from which questions count that no launcher before this one has asked.
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
func (r *planner) describe(run, namespace string, conns []*link.Conn) (*apiv1.Hold, error) {
	if r.cfg.Loss.Hold == 0 || r.exec != nil {
		return nil, nil
	}
	j := &journal.Journal{Run: run, Begun: r.begun, Namespace: namespace, Universe: r.plan.Universe, Restarts: r.restarted()}
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
	h := &apiv1.Hold{Journal: b, Command: r.cfg.Command.digest(), Text: r.cfg.Command.Text}
	if h.Proof, err = r.cfg.Identity.Sign(journalKind, b); err != nil {
		return nil, reach.Failf(job.ExitTLS, "--on-launcher-loss hold: %v", err)
	}
	return h, nil
}

// inherit takes over a run whose launcher is lost, if a host holds one of this command. ok is false where there is none (any more).
func (r *planner) inherit(ctx, life context.Context, held *reach.Held, o *reach.Opener) (found []reach.Found, ok bool, err error) {
	of, err := r.mine(held)
	if err != nil {
		return nil, false, err
	}
	j, err := r.read(of.Hold, held.Host)
	if err != nil {
		return nil, false, err
	}
	r.say("taking over from launcher %s, which is lost: %s on %s", of.Launcher, wording.Count(len(j.Ranks), "rank"), wording.Count(len(j.Hosts), "host"))
	r.enter("taking over")
	o.Run, r.heir = j.Run, &heir{journal: j, gone: map[string]string{}}
	r.plan, r.begun = j.Plan(), j.Begun
	found, any := r.adopt(ctx, life, o)
	if !any {
		lines := r.heir.lines()
		r.heir, r.plan = nil, nil
		if r.vain++; ctx.Err() != nil || r.vain == maxVain {
			return nil, false, r.impatient(ctx, &reach.Failure{Code: job.ExitConnect, Lines: append(lines, fmt.Sprintf("the run of launcher %s could not be taken over", of.Launcher))})
		}
		return nil, false, nil
	}
	var want []hosts.Wanted
	var placed []job.Host
	for i, s := range j.Sites {
		w := hosts.Wanted{Entry: hostlist.Entry{Name: s.Name, Slots: s.Slots, Given: s.Given}}
		if s.Address.IsValid() {
			w.Fixed = []netip.AddrPort{j.Sites[i].Address}
		}
		want, placed = append(want, w), append(placed, job.Host{Name: s.Name, Slots: s.Slots, SlotsGiven: s.Given, CPUs: s.CPUs})
	}
	r.know(want, placed, nil)
	for i := range r.sites {
		r.sites[i].Stated = j.Sites[i].Stated
	}
	r.hosts, r.spare = want, map[string]bool{}
	r.enter("launching")
	return found, true, nil
}

// maxVain is how often a run is met that no host hands over: once or twice it may be about to end.
const maxVain = 3

// lines are why hosts were not handed over.
func (h *heir) lines() (lines []string) {
	for _, name := range slices.Sorted(maps.Keys(h.gone)) {
		lines = append(lines, fmt.Sprintf("host %s was not handed over: %s", name, h.gone[name]))
	}
	return lines[:min(len(lines), 5)]
}

// mine is the run of this command, of those that a host holds.
func (r *planner) mine(held *reach.Held) (*apiv1.Held, error) {
	command := r.cfg.Command.digest()
	for _, h := range held.Runs {
		if bytes.Equal(h.Hold.GetCommand(), command) && r.cfg.Loss.Hold > 0 {
			return h, nil
		}
	}
	h := held.Runs[0]
	left := (time.Duration(h.LeftMs) * time.Millisecond).Round(time.Second)
	how := fmt.Sprintf("start that one with --on-launcher-loss hold to go on with it, end its ranks with --on-launcher-loss fence, or wait %v", left)
	if bytes.Equal(h.Hold.GetCommand(), command) {
		return nil, reach.Failf(job.ExitUsage, "host %s holds the ranks of this very command, whose launcher %s is lost: add --on-launcher-loss hold to go on with them, end them with --on-launcher-loss fence, or wait %v", held.Host, h.Launcher, left)
	}
	return nil, reach.Failf(job.ExitUsage, "host %s holds the ranks of launcher %s, which is lost; its command was %.400s, and this one is %.400s: %s", held.Host, h.Launcher, h.Hold.GetText(), r.cfg.Command.Text, how)
}

// read is a journal, which a launcher of this job must have signed: agents may lie.
func (r *planner) read(h *apiv1.Hold, host string) (*journal.Journal, error) {
	if len(h.Journal) > journal.MaxSize {
		return nil, reach.Failf(job.ExitTLS, "host %s describes the run that it holds in %d bytes, and %d are possible", host, len(h.Journal), journal.MaxSize)
	}
	who, err := r.cfg.Identity.Verify(journalKind, h.Journal, h.Proof)
	if err == nil {
		err = identity.Require(who, identity.RoleLauncher)
	}
	if err != nil {
		return nil, reach.Failf(job.ExitTLS, "host %s describes the run that it holds in words that no launcher of this job has signed (%v): end it with --on-launcher-loss fence", host, err)
	}
	j, err := journal.Decode(h.Journal, len(r.cfg.Apps))
	if err != nil {
		return nil, reach.Failf(job.ExitUsage, "host %s: %v: end the run that it holds with --on-launcher-loss fence", host, err)
	}
	return j, nil
}

// adopt takes over each host's session. Those that cannot be had are in the heir's list; any says that one could.
func (r *planner) adopt(ctx, life context.Context, o *reach.Opener) (found []reach.Found, any bool) {
	j := r.heir.journal
	attach, causes := reach.NewDialer(r.cfg.Identity, len(j.Hosts)).Attach, make([]error, len(j.Hosts))
	found = make([]reach.Found, len(j.Hosts))
	survey.InParallel(len(j.Hosts), func(i int) {
		h := j.Hosts[i]
		site := j.Sites[h.Site]
		found[i].Wanted = hosts.Wanted{Entry: hostlist.Entry{Name: site.Name, Slots: site.Slots, Given: site.Given}, Fixed: []netip.AddrPort{site.Address}}
		open := o.Adopt(h.Session, r.cfg.Command.digest())
		found[i].Session, causes[i] = r.takeHost(ctx, life, attach, site, h, open)
	})
	for i, err := range causes {
		if any = any || err == nil; err != nil {
			name := found[i].Entry.Name
			r.heir.gone[name] = err.Error()
			found[i].Session = &link.Session{Addr: j.Sites[j.Hosts[i].Site].Address, Open: &apiv1.Open{}, Close: func() {},
				Opened: &apiv1.Opened{Host: &apiv1.HelloReply{Name: j.Sites[j.Hosts[i].Site].Stated}}}
		}
	}
	return found, any
}

const (
	takePause = 100 * time.Millisecond
	tellAlive = 3 * time.Second // how long a host is waited for that has not given the launcher before us up, without a word
)

// takeHost takes over one session: at once where its launcher was given up, else when it is.
func (r *planner) takeHost(ctx, life context.Context, attach link.Attach, site journal.Site, h journal.Host, open *apiv1.Open) (*link.Session, error) {
	begun, told := time.Now(), false
	for {
		s, err := attach(ctx, life, site.Address, open)
		if err == nil {
			if s.Opened.Host.GetIncarnation() == h.Agent {
				return s, nil
			}
			s.Close()
			return nil, fmt.Errorf("%v: another incarnation of its agent answers", site.Address)
		}
		c := link.AsCause(err)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case c.Alive:
			if !told && time.Since(begun) > tellAlive {
				told = true
				r.say("%v: it is waited for", c)
			}
		case c.Refused || c.Stranger || c.Stage == link.StageFenced || c.Stage == link.StageTLS || time.Since(begun) > r.cfg.NodeTimeout:
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
