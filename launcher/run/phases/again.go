package phases

import (
	"fmt"
	"slices"
	"time"

	"github.com/mpiup/mpiup/internal/idset"
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

// Pause is how long ranks wait to start again that would wait for pause, where those of a host may run for left, and the user lets them run
// beside each other for beside; and a sentence's end that says so.
func Pause(pause, left, beside time.Duration, host string) (longer time.Duration, until string) {
	longer = max(pause, left-beside)
	switch {
	case longer < left:
		return longer, fmt.Sprintf(", and for up to %v those of %s may run beside them and write what they write "+
			"(--restart-beside)", (left - longer).Round(time.Second), host)
	case longer > pause:
		return longer, fmt.Sprintf(", when those of %s have ended by their lease (--launcher-timeout)", host)
	}
	return pause, ""
}

// Seat is a host of the last attempt.
type Seat struct {
	Host  string
	Ranks idset.Set
	Lost  bool // it was given up
}

// Choice is hosts for an attempt.
type Choice struct {
	Answers []int // by seat, an index in the answers; -1: nobody takes it
	Ranks   []int // of each
	Sum     int   // of these
	Enough  bool  // every seat has a host; or there are as many ranks as may be, or as are wanted
	Settled bool  // every host has answered, was asked in vain, or was lost: who may come else, nobody knows
}

// Refill gives each seat one of the answers.
func (w Wish) Refill(seats []Seat, answers []Answer) (c Choice) {
	c = Choice{Answers: make([]int, len(seats)), Ranks: make([]int, len(seats)), Enough: true}
	own, used := map[string]bool{}, map[int]bool{}
	for i, s := range seats {
		own[s.Host], c.Ranks[i] = true, s.Ranks.Len()
		c.Sum += c.Ranks[i]
		c.Answers[i] = slices.IndexFunc(answers, func(a Answer) bool { return a.Name() == s.Host && a.Host != nil })
		used[c.Answers[i]] = true
		if c.Answers[i] < 0 && !s.Lost && slices.ContainsFunc(answers, func(a Answer) bool { return a.Name() == s.Host && !a.Tried }) {
			c.Enough = false // it is about to answer
		}
	}
	for i := range seats {
		if c.Answers[i] >= 0 {
			continue
		}
		for at, a := range answers {
			if a.Host != nil && !own[a.Name()] && !used[at] && (w.Policy.Oversubscribe || w.Room(a.Place()) >= c.Ranks[i]) {
				c.Answers[i], used[at] = at, true
				break
			}
		}
		c.Enough = c.Enough && c.Answers[i] >= 0
	}
	return c
}
