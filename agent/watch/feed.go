package watch

// most is how many points a Feed hands over at once.
const most = 16

// A Feed picks the points that are new and few. All ranks of a job count alike and have about one rate, so that they pick the same
// numbers: each coarser choice is a part of the finer one.
type Feed struct{ last uint64 }

// Next picks of the points that are new since the last call, from the finest ring that has them all and not too many.
func (f *Feed) Next(s Sample) (picked []Point) {
	if s.Seq < f.last {
		f.last = 0 // the rank writes what it likes
	}
	last := f.last
	f.last = s.Seq
	for level := range levels {
		stride := uint64(1) << (shift * level)
		if (s.Seq-last)/stride > perLevel {
			continue
		}
		picked = picked[:0]
		for _, p := range s.Points {
			if p.Seq > last && p.Seq%stride == 0 {
				picked = append(picked, p)
			}
		}
		if len(picked) <= most {
			return picked
		}
	}
	return nil
}
