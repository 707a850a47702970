// Package stall notices barriers that stay open: it is shown those that are open now and then, and says
// which have been for long. It has no clock, I/O or goroutine, and is not safe for concurrent use.
//
//	open at a look ──Long later still open──▶ told of, once
//	     └──not open any more──▶ forgotten
package stall

import "time"

const (
	// Every is the time between two looks.
	Every = 10 * time.Second
	// Long is how long a barrier has been open when it is told of. Ranks that start together reach their first
	// barrier within seconds; whoever reads its input for longer before MPI_Init costs its user one line.
	Long = 60 * time.Second
)

// Watch remembers since when barriers are open, by the numbers that tell them apart. The zero value has seen none.
type Watch struct {
	since map[uint64]time.Duration
	told  map[uint64]bool
	next  time.Duration // when Due is true again
}

// Due says that the time for a look has come.
func (w *Watch) Due(now time.Duration) bool {
	if now < w.next {
		return false
	}
	w.next = now + Every
	return true
}

// Ages is how long what is open now has been seen open.
func (w *Watch) Ages(now time.Duration, open []uint64) []time.Duration {
	ages := make([]time.Duration, len(open))
	for i, b := range open {
		if at, seen := w.since[b]; seen {
			ages[i] = now - at
		}
	}
	return ages
}

// Look takes what is open now. ages is since when, as far as it was seen; news: one is long open of which that was
// not said yet.
func (w *Watch) Look(now time.Duration, open []uint64) (ages []time.Duration, news bool) {
	since, told := make(map[uint64]time.Duration, len(open)), make(map[uint64]bool)
	for _, b := range open {
		at, seen := w.since[b]
		if !seen {
			at = now
		}
		since[b] = at
		ages = append(ages, now-at)
		long := now-at >= Long
		news = news || long && !w.told[b]
		told[b] = long
	}
	w.since, w.told = since, told
	return ages, news
}
