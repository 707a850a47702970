package look

import "time"

const (
	// BarrierLook is the time between two looks.
	BarrierLook = time.Second
	// LongOpen is how long a barrier has been open when it is told of. Ranks that start together reach their first
	// barrier within seconds; whoever reads its input for longer before MPI_Init costs its user one line.
	LongOpen = 60 * time.Second
)

// Barriers remembers since when barriers are open, by the numbers that tell them apart. The zero value has seen none. It has no clock.
//
//	open at a look ──LongOpen later still open──▶ told of, once
//	     └──not open any more──▶ forgotten
type Barriers struct {
	since map[uint64]time.Duration
	told  map[uint64]bool
	next  time.Duration // when Due is true again
}

// Due says that the time for a look has come.
func (w *Barriers) Due(now time.Duration) bool {
	if now < w.next {
		return false
	}
	w.next = now + BarrierLook
	return true
}

// Ages is how long what is open now has been seen open.
func (w *Barriers) Ages(now time.Duration, open []uint64) []time.Duration {
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
func (w *Barriers) Look(now time.Duration, open []uint64) (ages []time.Duration, news bool) {
	since, told := make(map[uint64]time.Duration, len(open)), make(map[uint64]bool)
	for _, b := range open {
		at, seen := w.since[b]
		if !seen {
			at = now
		}
		since[b] = at
		ages = append(ages, now-at)
		long := now-at >= LongOpen
		news = news || long && !w.told[b]
		told[b] = long
	}
	w.since, w.told = since, told
	return ages, news
}
