package launcher

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/identity"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/launcher/link"
	"github.com/mpiup/mpiup/launcher/reach"
	"github.com/mpiup/mpiup/launcher/run"
	"github.com/mpiup/mpiup/launcher/run/phases"
)

// journalKind is what a launcher signs.
const journalKind = "journal of a run"

// maxHold is how long ranks are held at the most, as the command line and agents bound it.
const maxHold = 24 * time.Hour

// otherClock is how far the clocks of two pods may be apart, as certificates have it (docs/security.md).
const otherClock = 12 * time.Hour

// describe is what another launcher needs to take this run over; nil: none is to.
func (r *planner) describe(run, namespace string, conns []*link.Conn) (func(time.Time) *apiv1.Hold, error) {
	if r.cfg.Loss.Hold == 0 || r.exec != nil {
		return nil, nil
	}
	j := &phases.Journal{Run: run, Begun: r.begun, Namespace: namespace, Restarts: r.course.Restarts, Sites: slices.Clone(r.sites), Plan: r.plan}
	at := map[string]int{}
	for i, s := range j.Sites {
		at[s.Name] = i
	}
	for i, c := range conns {
		o := c.First.Opened
		j.Hosts = append(j.Hosts, phases.Session{
			Site:    at[c.Name],
			Session: c.First.Open.Session,
			Agent:   o.Host.GetIncarnation(),
			Meets:   meetsAt(i, conns),
			Version: o.Version,
		})
		j.Sites[at[c.Name]].Address = c.First.Addr
	}
	b, err := j.Encode()
	if err != nil {
		return nil, reach.Failf(job.ExitUsage, "--on-launcher-loss hold: %v", err)
	}
	if _, err := r.sign(b, time.Now()); err != nil {
		return nil, reach.Failf(job.ExitTLS, "--on-launcher-loss hold: %v", err)
	}
	return r.signs(j), nil
}

// sign is a journal as hosts get it, from a launcher that lives at that time.
func (r *planner) sign(text []byte, at time.Time) (h *apiv1.Hold, err error) {
	h = &apiv1.Hold{Journal: text, Command: r.cfg.Command.digest(), Text: r.cfg.Command.Text, SignedS: uint64(at.Unix()),
		HoldMs: uint64(r.cfg.Loss.Hold.Milliseconds())}
	h.Proof, err = r.cfg.Identity.Sign(journalKind, signedOf(h))
	return h, err
}

// signs signs a journal whenever it is asked, with where the ranks' time went until then; nil: it cannot, and hosts keep the one that they have.
func (r *planner) signs(j *phases.Journal) func(time.Time) *apiv1.Hold {
	return func(at time.Time) *apiv1.Hold {
		var h *apiv1.Hold
		j.Left, j.Spent = at, r.remains.Handed(at)
		text, err := j.Encode()
		if err == nil {
			h, err = r.sign(text, at)
		}
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

// believes refuses what no launcher of this name and job has signed lately: agents may lie, and may have kept what was true once.
func (r *planner) believes(h *apiv1.Hold, host string) error {
	no := func(format string, args ...any) error {
		return reach.Failf(job.ExitTLS, "host %s describes the run that it holds %s: end it with --on-launcher-loss fence", host, fmt.Sprintf(format, args...))
	}
	if len(h.GetJournal()) > phases.MaxJournal {
		return no("in %d bytes, and %d are possible", len(h.Journal), phases.MaxJournal)
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
func (r *planner) read(of *apiv1.Held, held *reach.Held) (*phases.Journal, error) {
	j, err := phases.Decode(of.Hold.Journal, len(r.cfg.Apps))
	if err != nil {
		return nil, reach.Failf(job.ExitUsage, "host %s: %v: end the run that it holds with --on-launcher-loss fence", held.Host, err)
	}
	if !slices.ContainsFunc(j.Hosts, func(h phases.Session) bool { return h.Session == of.Session && h.Agent == held.Agent }) {
		return nil, reach.Failf(job.ExitTLS, "host %s describes a run that is not there: its launcher names another agent, "+
			"or another session: end it with --on-launcher-loss fence", held.Host)
	}
	return j, nil
}
