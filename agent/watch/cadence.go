package watch

import (
	"encoding/binary"
	"math"
	"time"
)

// Of one rank's calls of NCCL the last 512 bins are kept, of 20 ms, of twice as much, and so on to 0.64 s: 10 s to five minutes.
const (
	scales = 6
	kept   = 512
)

// What is taken for a period.
const (
	fewestBins = 128  // kept, of a scale that is looked at
	periods    = 4    // in them, at least
	shortest   = 5    // bins of a period
	clearly    = 0.7  // correlation that it needs
	repeated   = 0.5  // and at two and three times as much: two bursts are no rhythm
	asClear    = 0.85 // of the clearest: the shortest such period is the one, since its multiples are as clear
)

// A Cadence finds how long a step of a training takes, by when its rank calls NCCL. The zero value knows none. What it keeps and what it
// costs is bounded, whatever the rank writes.
type Cadence struct {
	next  uint64 // number of the first bin that was not taken yet; 0: there was no call
	scale [scales]scale
}

// scale is a ring of the calls in each bin.
type scale struct {
	calls [kept]uint32
	n     uint64 // bins so far
	half  uint32 // of the next one, where the finer scale has an odd number
}

// Take takes the bins that are new and over now: newest is the number of the last that the rank has written to.
func (c *Cadence) Take(newest uint64, raw []byte, now time.Duration) {
	over := uint64(max(now/bin-1, 0)) // the rank's clock is some milliseconds behind
	of := func(n uint64) uint32 { return uint32(binary.NativeEndian.Uint16(raw[2*(n%bins):])) }
	switch {
	case newest == 0 || newest > over+2 || newest < bins || len(raw) < 2*bins:
		*c = Cadence{}
		return
	case c.next == 0 || newest-min(c.next, newest) >= bins || over-min(c.next, over) > kept<<scales:
		*c = Cadence{next: newest - bins + 1}
		for c.next < newest && of(c.next) == 0 {
			c.next++
		}
	}
	for ; c.next < over && c.next-min(newest, c.next) <= kept<<scales; c.next++ {
		if c.next <= newest {
			c.add(of(c.next))
		} else {
			c.add(0)
		}
	}
}

// add adds a bin of the finest scale.
func (c *Cadence) add(calls uint32) {
	for i := range c.scale {
		s := &c.scale[i]
		s.calls[s.n%kept] = calls
		s.n++
		if s.n%2 == 1 {
			s.half = calls
			return
		}
		calls += s.half
	}
}

// rhythm is a period of a scale, in its bins.
type rhythm struct {
	scale      int
	lag, clear float64
}

func (r rhythm) long() float64 { return r.lag * float64(uint64(1)<<r.scale) }

// Period is how long a step takes, and how many calls it has; 0 where that is not clear, with 0 calls where there were none.
func (c *Cadence) Period() (step time.Duration, calls uint32) {
	var like [scales][]float64
	var found []rhythm
	best := 0.0
	for i := range c.scale {
		like[i] = c.scale[i].correlation()
		found = append(found, rhythms(i, like[i])...)
	}
	for _, r := range found {
		best = max(best, r.clear)
	}
	var own rhythm
	for _, r := range found {
		if r.clear >= asClear*best && (own.lag == 0 || r.long() < own.long()) {
			own = r
		}
	}
	s := &c.scale[own.scale]
	if own.lag == 0 {
		return 0, uint32(math.Ceil(s.calling()))
	}
	own.lag = refined(like[own.scale], own.lag)
	return time.Duration(own.long() * float64(bin)), uint32(math.Round(s.calling() * own.lag))
}

// calling is how many calls a bin has on average. It counts those in the middle most: where a burst is just in or out does not matter then.
func (s *scale) calling() float64 {
	sum, all := 0.0, 0.0
	for i, m := uint64(0), min(s.n, kept); i < m; i++ {
		weight := 1 - math.Cos(2*math.Pi*(float64(i)+0.5)/float64(m))
		sum, all = sum+weight*float64(s.calls[(s.n-m+i)%kept]), all+weight
	}
	return sum / max(all, 1)
}

// correlation is Pearson's, of the bins with those so many later, up to three quarters of them; nil where there are too few. Of the counts
// it takes the root, so that no single bin decides, and spreads each a little: a step may fall on either side of a bin's end.
func (s *scale) correlation() (r []float64) {
	m := int(min(s.n, kept))
	if m < fewestBins {
		return nil
	}
	var raw, x [kept]float64
	for i := range m {
		raw[i] = math.Sqrt(float64(s.calls[(s.n-uint64(m)+uint64(i))%kept]))
	}
	var sum, square [kept + 1]float64 // of those before
	for i := range m {
		x[i] = (raw[max(i-1, 0)] + 2*raw[i] + raw[min(i+1, m-1)]) / 4
		sum[i+1], square[i+1] = sum[i]+x[i], square[i]+x[i]*x[i]
	}
	r = make([]float64, m*3/4)
	for k := 1; k < len(r); k++ {
		n := m - k
		cross := 0.0
		for i := range n {
			cross += x[i] * x[i+k]
		}
		head, tail := sum[n], sum[m]-sum[k]
		spread := (square[n] - head*head/float64(n)) * (square[m] - square[k] - tail*tail/float64(n))
		if spread > 1e-9 {
			r[k] = (cross - head*tail/float64(n)) / math.Sqrt(spread)
		}
	}
	return r
}

// rhythms are the lags at which the correlation has a clear peak, and at its multiples.
func rhythms(scale int, r []float64) (list []rhythm) {
	for k := shortest; k < len(r)*4/3/periods; k++ {
		if r[k] < r[k-1] || r[k] < r[k+1] {
			continue
		}
		lag, clearness := peak(r, k)
		if clearness < clearly {
			continue
		}
		if _, twice := around(r, 2*lag, lag); twice < repeated {
			continue
		}
		if _, thrice := around(r, 3*lag, lag); thrice >= repeated {
			list = append(list, rhythm{scale, lag, clearness})
		}
	}
	return list
}

// peak is the top of the parabola through a value that is not lower than its neighbours, and these; else the value itself.
func peak(r []float64, k int) (at, top float64) {
	a, b, c := r[k-1], r[k], r[k+1]
	bend := a - 2*b + c
	if b < max(a, c) || bend >= 0 {
		return float64(k), b
	}
	off := (a - c) / bend / 2
	return float64(k) + off, b - (a-c)*off/4
}

// around is the highest value near a place that is a multiple of lag.
func around(r []float64, at, lag float64) (k int, top float64) {
	reach := 1 + lag/16
	for i := max(int(at-reach), 1); i <= int(at+reach)+1 && i+1 < len(r); i++ {
		if r[i] > top {
			k, top = i, r[i]
		}
	}
	return k, top
}

// refined is a lag by its multiples, as far as they show: each tells it by so much more exactly.
func refined(r []float64, first float64) float64 {
	lag := first
	for times := 2.0; times < kept/shortest && times*lag+2 < float64(len(r)); times++ {
		k, top := around(r, times*lag, lag)
		at, _ := peak(r, k)
		if top < repeated || math.Abs(at/times-first) > first/10 {
			break
		}
		lag = at / times
	}
	return lag
}
