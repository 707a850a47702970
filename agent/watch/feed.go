package watch

import (
	"time"

	"github.com/mpiup/mpiup/internal/job"
)

// How many points are handed over at once.
const (
	most     = 16 // to the launcher, which hears of a rank again and again
	mostSeen = 64 // to who looks once
)

// A Feed picks the points that are new and few.
type Feed struct{ last uint64 }

// Next picks of the points that are new since the last call.
func (f *Feed) Next(s job.Waits) []job.WaitPoint {
	if s.Seq < f.last {
		f.last = 0 // the rank writes what it likes
	}
	last := f.last
	f.last = s.Seq
	return few(s.Points, most, func(p job.WaitPoint) bool { return p.Seq > last })
}

// Recent picks of the points since a time of CLOCK_MONOTONIC.
func Recent(points []job.WaitPoint, since time.Duration) []job.WaitPoint {
	return few(points, mostSeen, func(p job.WaitPoint) bool { return p.At > since })
}

// few keeps those points that are wanted and whose numbers are multiples of a power of two, the least by which they are not too many. All
// ranks of a job count alike and have about one rate, so that they keep the same numbers: each coarser choice is a part of the finer one.
func few(points []job.WaitPoint, most int, wanted func(job.WaitPoint) bool) (kept []job.WaitPoint) {
	for stride := uint64(1); stride != 0; stride <<= 1 {
		kept = kept[:0]
		for _, p := range points {
			if p.Seq%stride == 0 && wanted(p) {
				kept = append(kept, p)
			}
		}
		if len(kept) <= most {
			return kept
		}
	}
	return nil
}
