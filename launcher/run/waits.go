package run

import (
	"fmt"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/launcher/holdup"
)

// inquiry asks all hosts who waits for whom: when one of them says that its ranks have waited for long, and
// at --timeout.
type inquiry struct {
	*orders
	*roster
	mute bool // ranks are offered neither PMI nor PMIx

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

// ask asks every host with ranks, for at most answerBound. done: there is none to be waited for.
func (q *inquiry) ask() (done bool) {
	q.id++
	q.open, q.picture = map[int]bool{}, holdup.Picture{}
	for _, h := range q.live() {
		if q.hosts[h].running > 0 {
			q.open[h] = true
			q.send(h, (&apiv1.AskWaits{Id: q.id}).Frame())
		}
	}
	q.set(Answers, answerBound)
	return len(q.open) == 0
}

// asking says that the run waits for answers at the end of its time.
func (q *inquiry) asking() bool { return q.last && q.open != nil }

// hear takes a host's answer, or its word that ranks there have waited for long. done: all have answered.
func (q *inquiry) hear(h int, m *apiv1.Waits) (done bool, err error) {
	switch {
	case m.Id == 0:
		return q.open == nil && q.said < maxHoldups && q.job != jobStopping && q.ask(), nil
	case m.Id != q.id || !q.open[h]:
		return false, nil // too late
	}
	var own idset.Set
	for _, j := range q.jobs {
		own = own.Union(q.idsOn(h, j))
	}
	err = q.picture.Add(m, own)
	delete(q.open, h)
	return len(q.open) == 0, err
}

// end makes words of what the hosts have answered until now: they are said, or where the time is up they are returned, for
// the verdict. ok: there was an inquiry, and it was the last one.
func (q *inquiry) end() (lines []string, ok bool) {
	if q.open == nil {
		return nil, false
	}
	q.give(Unset{Answers})
	q.open = nil
	words := holdup.Run{Running: q.speaking(), Names: q.named, Name: q.where}
	if !q.last {
		lines, _ := q.picture.Waiting(words, longWait)
		for _, l := range lines {
			q.say("%s", l)
		}
		q.said += min(len(lines), 1)
		return nil, false
	}
	lines, culprit := q.picture.All(words)
	if culprit >= 0 {
		lines = append(lines, fmt.Sprintf("give it more time (--timeout), or look where it is: on %[1]s gdb -p %[2]d, or py-spy dump --pid %[2]d",
			q.hosts[q.of[culprit]].Name, q.ranks[culprit].pid))
	}
	return lines, true
}

// speaking are the processes that run and whose agents offer them PMI or PMIx.
func (q *inquiry) speaking() (ids idset.Set) {
	for id := range q.ranks {
		if !q.mute && q.ranks[id].state == rankRunning {
			ids.Add(id)
		}
	}
	return ids
}
