// Package restart decides when the ranks of a run that failed are started again, and on which hosts. PURE.
//
//	restarts so far, how long the ranks ran ──Next──▶ a pause, or no more restarts
//	hosts of the last attempt, hosts that answer ──Cast──▶ hosts of the next one, each in the place of one of the last
//
//	attempt 1          attempt 2            attempt 3
//	w0  ranks 0-3      w0  ranks 0-3        w0  ranks 0-3
//	w1  ranks 4-7      w2  ranks 4-7        w1  ranks 4-7      w1 is back, and w2 was lost
//	w2  a spare        w1  lost
//
// A host keeps the ranks that it had. One that was lost, or does not answer, is replaced by whatever answers first: a host
// that has no ranks, or its own next incarnation.
//
// Whether a failure is one that a restart may mend is launcher/verdict's. The package reaches no host and waits for nothing.
package restart

import (
	"slices"
	"time"
)

const (
	maxPause = 30 * time.Second
	// Proven is how long ranks must have run for the pauses to begin anew.
	Proven = 10 * time.Minute
)

// Count is the restarts of a run: Done of at most Max.
type Count struct {
	Max, Done int
	failed    int // attempts, since one has run for Proven
}

// Next counts a restart after ranks that ran for so long. The first comes at once, and each that follows waits longer: 1 s,
// 2 s, 4 s ... 30 s. ok is false where there are no more.
func (c *Count) Next(ran time.Duration) (pause time.Duration, ok bool) {
	if c.Done >= c.Max {
		return 0, false
	}
	c.Done++
	if ran >= Proven {
		c.failed = 0
	}
	if c.failed++; c.failed == 1 {
		return 0, true
	}
	return min(time.Second<<min(c.failed-2, 16), maxPause), true
}

// Seat is a host of the last attempt.
type Seat struct {
	Host  string
	Ranks int
	Lost  bool // it was given up
}

// Answer is a host that may be used.
type Answer struct {
	Host  string
	Here  bool // its agent waits for ranks
	Tried bool // it was asked in vain
	Slots int  // of one that is here
}

// Cast gives each seat one of the answers, by index; -1: nobody. Beyond: a host may have more ranks than slots. ok: every seat
// has one.
func Cast(seats []Seat, answers []Answer, beyond bool) (cast []int, ok bool) {
	cast, ok = make([]int, len(seats)), true
	own, used := map[string]bool{}, map[int]bool{}
	for i, s := range seats {
		own[s.Host] = true
		cast[i] = slices.IndexFunc(answers, func(a Answer) bool { return a.Host == s.Host && a.Here })
		used[cast[i]] = true
		if cast[i] < 0 && !s.Lost && slices.ContainsFunc(answers, func(a Answer) bool { return a.Host == s.Host && !a.Tried }) {
			ok = false // it is about to answer
		}
	}
	for i, s := range seats {
		if cast[i] >= 0 {
			continue
		}
		for at, a := range answers {
			if a.Here && !own[a.Host] && !used[at] && (beyond || a.Slots >= s.Ranks) {
				cast[i], used[at] = at, true
				break
			}
		}
		ok = ok && cast[i] >= 0
	}
	return cast, ok
}
