package session

import (
	"fmt"
	"slices"
	"time"

	"github.com/mpiup/mpiup/internal/awake"
)

// Other incarnations of a launcher: agent/session says which of them end, here they do.

// maxHint bounds how far beyond what this agent has seen itself the others' word raises the next
// number. It is far more than the lives that a launcher has while an agent is away, and far too
// little to use the numbers up.
const maxHint = 1024

// numbers is what a launcher is told to choose its number by: that of its incarnation, and the highest of its
// identity. Gossip adds what agents that it did not reach have seen, and nothing else: it ends and bars nobody.
func (t *Table) numbers(identity, incarnation string) (own Claim, highest uint64) {
	own, highest = t.lives.Numbers(identity, incarnation)
	g := t.cfg.Gossip()
	if g == nil || t.lives.Fenced(identity, incarnation) != nil {
		return own, highest
	}
	theirs, proof, most := g.Numbers(identity, incarnation)
	if own.Number == 0 {
		own = Claim{Number: theirs, Proof: proof}
	}
	return own, max(highest, min(most, highest+maxHint))
}

// fence ends the session for good: by is of an incarnation that takes over.
func (s *session) fence(by *session) {
	s.mu.Lock()
	already := s.fenced
	s.fenced = true
	s.mu.Unlock()
	if already {
		return
	}
	s.table.cfg.Metrics.Fenced.Inc()
	if s.by().Incarnation != by.by().Incarnation { // else only what was held ends: launchers of one container live side by side
		s.table.lives.Fence(s.by().identity, s.by().Incarnation, by.by().Incarnation)
	}
	s.log.Warn("fenced", "by", short(by.id), "incarnation", short(by.by().Incarnation))
	s.end(fmt.Sprintf("a newer incarnation of launcher %s has taken over", s.by().Host))
}

// clearAway returns when nothing is left of what dead incarnations of s's launcher, and those that are over, have
// started here. Whether they take note does not matter.
func (s *session) clearAway(over []string) {
	others := s.others()
	for _, o := range others {
		if slices.Contains(over, o.by().Incarnation) || o.waits() && s.ends(o) {
			o.fence(s)
		}
	}
	for _, o := range others {
		s.outlive(o)
	}
	s.table.kept.end(s.by().identity, func(incarnation string) bool {
		return incarnation != s.by().Incarnation && !s.sibling(incarnation)
	})
}

// others are the sessions with processes here of other incarnations of s's launcher, and those that wait for another
// launcher and end for ours.
func (s *session) others() (out []*session) {
	for _, o := range s.table.all() {
		earlier := o.by().identity == s.by().identity && o.by().Incarnation != s.by().Incarnation
		if o != s && len(o.jobs.All()) > 0 && (earlier || o.waits() && s.ends(o)) {
			out = append(out, o)
		}
	}
	return out
}

func (s *session) sibling(incarnation string) bool {
	return s.table.lives.Siblings(s.by().identity, s.by().Incarnation, incarnation)
}

const (
	lookAgain  = 20 * time.Millisecond
	tellOfWait = 3 * time.Second
)

// outlive waits until o is over, or its launcher is heard, which is then a sibling of ours. A launcher
// that lives is heard within a second; one that is silent has its lease.
func (s *session) outlive(o *session) {
	fenced, waited := o.contest(s)
	defer waited()
	look := time.NewTicker(lookAgain)
	defer look.Stop()
	tell := make(chan struct{}, 1)
	defer awake.After(tellOfWait, func() { tell <- struct{}{} })()
	for fenced || !s.hears(o) {
		select {
		case <-o.empty:
			return
		case <-s.ending:
			return
		case <-tell:
			if fenced {
				continue
			}
			if o.waits() {
				s.exchange.Notice(true, "ranks start when those of launcher %s have ended, which wait %d s more for another "+
					"launcher: --on-launcher-loss fence ends them at once", o.by().Host, o.secondsLeft())
				continue
			}
			s.exchange.Notice(true, "ranks start when an earlier launcher of this name is heard of or given up: it is silent for %v, and what it left ends after %v",
				o.link.Silent().Round(time.Second), o.leaseOf())
		case <-look.C:
		}
	}
}

// contest notes who waits for a word of o's launcher, until over is called; fenced says that o ends anyway.
func (o *session) contest(by *session) (fenced bool, over func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.rival = by
	return o.fenced, func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.rival == by {
			o.rival = nil
		}
	}
}

// hears tells whether o's launcher lives beside ours.
func (s *session) hears(o *session) bool {
	o.mu.Lock()
	connected := o.streams > 0
	o.mu.Unlock()
	if heard := s.table.cfg.Clock.Now() - o.link.Silent(); connected && heard > s.born {
		s.table.lives.Met(o.by().identity, o.by().Life, heard)
	}
	return s.sibling(o.by().Incarnation)
}
