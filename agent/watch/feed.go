package watch

import "time"

// How many points are handed over at once.
const (
	most     = 16 // to the launcher, which hears of a rank again and again
	mostSeen = 64 // to who looks once
)

// A Feed picks the points that are new and few.
type Feed struct{ last uint64 }

// Next picks of the points that are new since the last call.
func (f *Feed) Next(s Sample) []Point {
	if s.Seq < f.last {
		f.last = 0 // the rank writes what it likes
	}
	last := f.last
	f.last = s.Seq
	return few(s.Points, most, func(p Point) bool { return p.Seq > last })
}

// Recent picks of the points since a time of CLOCK_MONOTONIC.
func (s Sample) Recent(since time.Duration) []Point {
	return few(s.Points, mostSeen, func(p Point) bool { return p.At > since })
}

// few keeps those points that are wanted and whose numbers are multiples of a power of two, the least by which they are not too many. All
// ranks of a job count alike and have about one rate, so that they keep the same numbers: each coarser choice is a part of the finer one.
func few(points []Point, most int, wanted func(Point) bool) (kept []Point) {
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
