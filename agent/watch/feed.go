package watch

// most is how many points a Feed hands over at once.
const most = 16

// A Feed picks the points that are new and few. All ranks of a job count alike and have about one rate, so that they pick the same
// numbers: each coarser choice is a part of the finer one.
type Feed struct{ last uint64 }

// Next picks from the finest ring that has all new points and not too many of them.
func (f *Feed) Next(s Sample) []Point {
	if s.Seq < f.last {
		f.last = 0 // the rank writes what it likes
	}
	for level := range levels {
		stride := uint64(1) << (shift * level)
		if (s.Seq-f.last)/stride > perLevel {
			continue
		}
		var picked []Point
		for _, p := range s.Points {
			if p.Seq > f.last && p.Seq%stride == 0 {
				picked = append(picked, p)
			}
		}
		if len(picked) > most {
			continue
		}
		if len(picked) > 0 {
			f.last = picked[len(picked)-1].Seq
		}
		return picked
	}
	f.last = s.Seq
	return nil
}
