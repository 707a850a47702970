package run

import (
	"errors"
	"fmt"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/visible"
)

// succession is what the run owes the launcher after this one, and has from the one before.
//
//	all ranks run ─offer─▶ Hold{journal} to every host ─▶ another may take over; each host gets it anew every hour, since what is old is not believed
//	a rank spawns, publishes, ends others ─withdraw─▶ Hold{withdrawn}: what comes of that, no journal has
//
//	Adopt ─▶ hosts are awaited ─Resumed from each─▶ said: what runs, and what output is lost
type succession struct {
	shared
	cfg       *Config
	offered   bool         // hosts have the journal
	withdrawn bool         // nobody can take over
	wired     bool         // by the launcher before
	round     int          // of renewals
	awaited   map[int]bool // hosts that have not said how it stands; nil: this launcher has begun the run
	dropped   idset.Set    // ids of which output is lost
	bytes     uint64       // how much
	lost      time.Duration
}

// offer gives hosts what another launcher needs.
func (h *succession) offer(now time.Time) {
	if h.offered || h.withdrawn || h.cfg.Hold == nil {
		return
	}
	h.offered = true
	h.set(Renewal, renewEvery)
	if hold := h.cfg.Hold(now); hold != nil {
		for _, at := range h.live() {
			h.send(at, hold.Frame())
		}
	}
}

// A host's journal is renewed every Renewed, and those of many hosts are not under way at one time.
const (
	renewRounds = 60
	renewEvery  = Renewed / renewRounds

	// Renewed is how old a journal of a launcher that lives may be.
	Renewed = time.Hour
)

// renew gives the hosts whose turn it is a journal of now.
func (h *succession) renew(now time.Time) {
	if h.withdrawn {
		return
	}
	h.set(Renewal, renewEvery)
	h.round++
	var hold *apiv1.Hold
	for _, at := range h.live() {
		if at%renewRounds != h.round%renewRounds {
			continue
		}
		if hold == nil {
			if hold = h.cfg.Hold(now); hold == nil {
				return
			}
		}
		h.send(at, hold.Frame())
	}
}

// withdraw tells hosts, and the user, that no launcher can take over any more.
func (h *succession) withdraw(why string) {
	if h.withdrawn || h.cfg.Hold == nil && !h.cfg.Adopted {
		return
	}
	h.withdrawn = true
	if h.offered {
		for _, at := range h.live() {
			h.send(at, (&apiv1.Hold{Withdrawn: why}).Frame())
		}
	}
	h.say("%s: only this launcher knows what comes of that, so from now on the ranks end if it is lost (--on-launcher-loss fence)", why)
}

// begin waits for every host.
func (h *succession) begin() {
	if h.cfg.Hold != nil {
		h.set(Renewal, renewEvery)
	}
	h.awaited = map[int]bool{}
	for at := range h.hosts {
		h.awaited[at] = true
	}
}

// resumed takes how a host stands.
func (h *succession) resumed(at int, m *apiv1.Resumed) error {
	if !h.awaited[at] {
		return errors.New("told how it stands, which nobody asked")
	}
	for _, d := range m.Dropped {
		if d == nil || !h.who.Owns(at, d.Rank) {
			return fmt.Errorf("output of process %d is dropped, which is not there", d.GetRank())
		}
		h.dropped.Add(int(d.Rank))
		h.bytes += min(d.Bytes, 1<<40)
	}
	h.lost = max(h.lost, time.Duration(min(m.LostMs, uint64(24*time.Hour/time.Millisecond)))*time.Millisecond)
	return nil
}

// heard counts a host that has said how it stands, or that is gone. After the last one the user is told.
func (h *succession) heard(at int) {
	if h.awaited[at] {
		if delete(h.awaited, at); len(h.awaited) == 0 {
			h.say("took the run over: its ranks had no launcher for %v", h.lost.Round(100*time.Millisecond))
		}
	}
	if len(h.awaited) == 0 && h.bytes > 0 {
		h.say("output of %s is lost: %s that they wrote while no launcher was there; of each the last is kept, as much as one may have under way",
			h.named(h.dropped), visible.Count(int(min(h.bytes, 1<<62)), "byte"))
		h.dropped, h.bytes = idset.Set{}, 0
	}
}
