package watch

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/mpiup/mpiup/test/cost"
)

// calling is a rank's bins, as the library writes them.
type calling struct {
	newest uint64
	raw    [2 * bins]byte
}

func (c *calling) call(at time.Duration) {
	n := uint64(at / bin)
	for c.newest < n {
		c.newest = max(c.newest+1, min(n, n-bins))
		binary.NativeEndian.PutUint16(c.raw[2*(c.newest%bins):], 0)
	}
	where := c.raw[2*(n%bins):]
	binary.NativeEndian.PutUint16(where, binary.NativeEndian.Uint16(where)+1)
}

// stepping calls as a training does, until it ends, and is looked at every five seconds; look gets the period.
func stepping(until time.Duration, step func(at time.Duration, call func(time.Duration)) time.Duration, look func(at, period time.Duration, calls uint32)) {
	var c calling
	var cadence Cadence
	const begun = 1000 * time.Second
	next := begun + 5*time.Second
	var later []time.Duration
	for at := begun; at < begun+until; {
		over := at + step(at-begun, func(after time.Duration) { later = append(later, at+after) })
		for ; next < over; next += 5 * time.Second {
			for ; len(later) > 0 && later[0] < next; later = later[1:] {
				c.call(later[0])
			}
			cadence.Take(c.newest, c.raw[:], next)
			period, calls := cadence.Period()
			look(next-begun, period, calls)
		}
		at = over
	}
}

const ms = time.Millisecond

func TestPeriod(t *testing.T) {
	source := rand.NewPCG(1, 2)
	random := rand.New(source)
	jitter := func(d time.Duration, by float64) time.Duration {
		return time.Duration(float64(d) * max(0, 1+by*random.NormFloat64()))
	}
	plain := func(long time.Duration, calls int, by float64) func(time.Duration, func(time.Duration)) time.Duration {
		return func(_ time.Duration, call func(time.Duration)) time.Duration {
			for i := range calls {
				call(long/2 + long*time.Duration(i)/time.Duration(3*calls))
			}
			return jitter(long, by)
		}
	}
	for name, c := range map[string]struct {
		step   func(at time.Duration, call func(time.Duration)) time.Duration
		want   time.Duration // 0: none
		calls  uint32
		least  float64 // share of looks after the first two minutes that see it
		within float64
	}{
		"0.1 s":              {plain(100*ms, 3, 0), 100 * ms, 3, 1, 0.02},
		"0.33 s, a call":     {plain(333*ms, 1, 0.02), 333 * ms, 1, 1, 0.02},
		"1.1 s":              {plain(1100*ms, 40, 0.03), 1100 * ms, 40, 1, 0.02},
		"1.1 s, jitter of 8": {plain(1100*ms, 40, 0.08), 1100 * ms, 40, 0.8, 0.1},
		"7 s":                {plain(7*time.Second, 200, 0.03), 7 * time.Second, 200, 0.95, 0.05},
		"30 s":               {plain(30*time.Second, 3000, 0.01), 30 * time.Second, 3000, 0.9, 0.02},
		"accumulation over 4, of which the last communicates more": {func(_ time.Duration, call func(time.Duration)) time.Duration {
			at := time.Duration(0)
			for i := range 4 {
				for k := range 10 {
					call(at + time.Duration(k)*20*ms)
				}
				at += jitter(300*ms, 0.02)
				for k := range 80 * (i / 3) {
					call(at + time.Duration(k)*5*ms)
				}
			}
			return at + 500*ms
		}, 1700 * ms, 120, 1, 0.02},
		"a checkpoint of 4 s every 50 steps": {func(at time.Duration, call func(time.Duration)) time.Duration {
			call(0)
			call(300 * ms)
			if at/time.Second%60 == 0 {
				return 5 * time.Second
			}
			return jitter(time.Second, 0.02)
		}, time.Second, 2, 0.5, 0.03},
		"by chance": {func(_ time.Duration, call func(time.Duration)) time.Duration {
			call(0)
			return time.Duration(random.ExpFloat64() * float64(300*ms))
		}, 0, 0, 1, 0},
		"bursts by chance": {func(_ time.Duration, call func(time.Duration)) time.Duration {
			for i := range 50 {
				call(time.Duration(i) * 10 * ms)
			}
			return 500*ms + time.Duration(random.ExpFloat64()*float64(5*time.Second))
		}, 0, 0, 1, 0},
		"a stream": {func(_ time.Duration, call func(time.Duration)) time.Duration {
			call(0)
			return 5 * ms
		}, 0, 0, 1, 0},
		"lengths of one to two": {func(_ time.Duration, call func(time.Duration)) time.Duration {
			call(0)
			return time.Second + time.Duration(random.Float64()*float64(time.Second))
		}, 0, 0, 0.95, 0},
	} {
		t.Run(name, func(t *testing.T) {
			source.Seed(1, 2)
			looks, seen, wrong := 0.0, 0.0, 0.0
			stepping(10*time.Minute, c.step, func(at, period time.Duration, calls uint32) {
				if at < 2*time.Minute {
					return
				}
				looks++
				right := period == c.want
				if c.want > 0 {
					right = math.Abs(float64(period-c.want)) <= c.within*float64(c.want) && (calls == c.calls || float64(calls) > 0.97*float64(c.calls) && float64(calls) < 1.03*float64(c.calls))
				}
				if right {
					seen++
				} else if period != 0 {
					wrong++
					t.Logf("at %v: %v, %d calls", at, period, calls)
				}
			})
			if seen < c.least*looks || wrong > 0.05*looks && c.want > 0 {
				t.Errorf("%v of %v looks see it, and %v another", seen, looks, wrong)
			}
		})
	}
}

// Whatever a rank writes, what is found is within what is looked for, and costs a bounded time.
func FuzzCadence(f *testing.F) {
	f.Add(uint64(60000), []byte{1, 0, 0, 0, 0, 0, 1, 0})
	f.Add(uint64(1<<63), []byte{255, 255})
	f.Add(uint64(50001), []byte{0, 1, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, newest uint64, pattern []byte) {
		defer cost.Watch(t, cost.Parser, len(pattern))()
		var c calling
		for i := range c.raw {
			if len(pattern) > 0 {
				c.raw[i] = pattern[i%len(pattern)]
			}
		}
		var cadence Cadence
		for i, now := range []time.Duration{1000 * time.Second, 1030 * time.Second, 1030 * time.Second, 1e18, 3 * time.Second, 0, 1100 * time.Second, 1140 * time.Second} {
			cadence.Take(newest+uint64(i)*1000, c.raw[:], now)
			step, calls := cadence.Period()
			if step != 0 && (step < shortest*bin*3/4 || step > kept*bin<<scales/periods) || step != 0 && uint64(calls) > 65536*uint64(step/bin+1) {
				t.Fatalf("%v, %d calls", step, calls)
			}
		}
	})
}

// A rank that has called never, that writes of the future, or that was not looked at for so long that bins are lost: nothing, and no wrong period.
func TestCadenceBegins(t *testing.T) {
	var c calling
	for i := range 40 {
		c.call(1000*time.Second + time.Duration(i)*time.Second)
	}
	for name, looks := range map[string][]time.Duration{"the future": {900 * time.Second}, "lost": {1040 * time.Second, 1e6 * time.Second}, "no bins": {time.Second}} {
		var cadence Cadence
		for _, now := range looks {
			cadence.Take(c.newest, c.raw[:], now)
		}
		if step, calls := cadence.Period(); step != 0 || calls != 0 {
			t.Errorf("%s: %v, %d", name, step, calls)
		}
	}
	var cadence Cadence
	cadence.Take(c.newest, c.raw[:], 1040*time.Second)
	if step, calls := cadence.Period(); step < 990*ms || step > 1010*ms || calls != 1 {
		t.Errorf("%v, %d", step, calls)
	}
}
