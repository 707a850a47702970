package launcher

import (
	"fmt"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/launcher/holdup"
	"github.com/mpiup/mpiup/launcher/verdict"
)

// inquiry asks all hosts who waits for whom: when one of them says that its ranks have waited for long, and
// at --timeout.
type inquiry struct {
	id      uint64
	open    map[int]bool // hosts that have not answered; nil: none is under way
	last    bool         // the time limit waits for it
	picture holdup.Picture
	said    int // notices so far
}

const (
	answerBound = 2 * time.Second // for all hosts together
	longWait    = 60 * time.Second
	maxHoldups  = 8 // notices of one run
)

// inquire asks every host with ranks. The loop's timer bounds it.
func (r *run) inquire() {
	r.inquiry.id++
	r.inquiry.open, r.inquiry.picture = map[int]bool{}, holdup.Picture{}
	r.live(func(h int) {
		if r.at[h].running > 0 {
			r.inquiry.open[h] = true
			r.send(h, (&apiv1.AskWaits{Id: r.inquiry.id}).Frame())
		}
	})
	r.timers.answers.Reset(answerBound)
	if len(r.inquiry.open) == 0 {
		r.inquired()
	}
}

// onWaits is a host's answer, or its word that ranks there have waited for long.
func (r *run) onWaits(h int, m *apiv1.Waits) error {
	q := &r.inquiry
	switch {
	case m.Id == 0:
		if q.open == nil && q.said < maxHoldups && r.job != jobStopping {
			r.inquire()
		}
		return nil
	case m.Id != q.id || !q.open[h]:
		return nil // too late
	}
	var own idset.Set
	for id := range r.ranks {
		if r.places.hostOf(id) == h {
			own.Add(id)
		}
	}
	err := q.picture.Add(m, own)
	delete(q.open, h)
	if len(q.open) == 0 {
		r.inquired()
	}
	return err
}

// inquired makes words of what the hosts have answered until now.
func (r *run) inquired() {
	q := &r.inquiry
	if q.open == nil {
		return
	}
	r.timers.answers.Stop()
	q.open = nil
	words := holdup.Run{Running: r.speaking(), Names: r.named, Name: func(id int) string {
		return fmt.Sprintf("%s (%s, pid %d)", r.rankName(id), r.host(r.places.hostOf(id)).Name, r.ranks[id].pid)
	}}
	if !q.last {
		lines, _ := q.picture.Waiting(words, longWait)
		for _, l := range lines {
			r.say("%s", l)
		}
		q.said += min(len(lines), 1)
		return
	}
	if lines := r.missing(); len(lines) > 0 {
		r.verdict.Holdup = lines
		r.judge()
		return
	}
	var culprit int
	r.verdict.Holdup, culprit = q.picture.All(words)
	if culprit >= 0 {
		r.verdict.Holdup = append(r.verdict.Holdup, fmt.Sprintf("give it more time (--timeout), or look where it is: on %[1]s gdb -p %[2]d, or py-spy dump --pid %[2]d",
			r.host(r.places.hostOf(culprit)).Name, r.ranks[culprit].pid))
	}
	r.judge()
}

// speaking are the processes that run and whose agents offer them PMI or PMIx.
func (r *run) speaking() (ids idset.Set) {
	if r.exec != nil || r.cfg.PMI == apiv1.Pmi_PMI_NONE {
		return ids
	}
	for id := range r.ranks {
		if r.ranks[id].state == rankRunning {
			ids.Add(id)
		}
	}
	return ids
}

// timeUp is --timeout: the ranks are stopped once the hosts have said who waits for whom.
func (r *run) timeUp() {
	r.fail(verdict.Fault{Event: verdict.TimedOut, ID: -1, Node: -1, Text: r.cfg.Timeout.String()})
	if r.job == jobStopping {
		return
	}
	r.inquiry.last = true
	r.inquire()
}
