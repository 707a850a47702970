package watch

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"
	"time"

	"github.com/mpiup/mpiup/internal/job"
)

// A pace turns a rank's ticks into time, by two moments at which it looked at both clocks.
type pace struct {
	tick, ns uint64
	per      float64 // nanoseconds a tick
}

// Ticks of 10 MHz to 100 GHz: Arm's counters have some 24 MHz to 1 GHz, amd64's 1 to 5 GHz.
const slowest, fastest = 100.0, 0.01

func paceOf(b []byte) (pace, bool) {
	word := func(i int) uint64 { return binary.NativeEndian.Uint64(b[32+8*i:]) }
	tick0, ns0, tick1, ns1 := word(0), word(1), word(2), word(3)
	if tick1 <= tick0 || ns1 <= ns0 {
		return pace{}, false
	}
	p := pace{tick: tick1, ns: ns1, per: float64(ns1-ns0) / float64(tick1-tick0)}
	return p, p.per >= fastest && p.per <= slowest
}

// at is when the tick was; the difference is signed, since points lie on both sides of the last look at the clocks.
func (p pace) at(tick uint64) time.Duration {
	return time.Duration(float64(p.ns) + float64(int64(tick-p.tick))*p.per) //nolint:gosec // a hostile tick gives a time out of bounds, and is dropped
}

func (p pace) long(ticks uint64) time.Duration { return time.Duration(float64(ticks) * p.per) }

// parse reads two copies of a page that were taken one after the other. since and now bound all times in it.
func parse(first, b []byte, since, now time.Duration) (s Sample) {
	u32 := func(at int) uint32 { return binary.NativeEndian.Uint32(b[at:]) }
	u64 := func(at int) uint64 { return binary.NativeEndian.Uint64(b[at:]) }
	if u32(0) != magic || u32(4) != version {
		return Sample{}
	}
	s.Owner = int(u32(12))
	s.Newest, s.Bins = u64(144), b[binsAt:]
	s.Rank, s.Size = int(int32(u32(24))), int(int32(u32(28)))
	s.Seq, s.Partial = u64(64), u64(104)
	s.State = stateOf(u32(16), u32(20))
	p, known := paceOf(b)
	if s.State == job.Unwatched || s.State == job.Unknown || !known {
		return s
	}
	entered := func(tick uint64) time.Duration {
		if at := p.at(tick); tick != 0 && at > since && at <= now {
			return at
		}
		return 0
	}
	s.Inside, s.Elsewhere = entered(u64(96)), entered(u64(112))
	if call, tick, at := u32(128), u64(120), entered(u64(120)); call != 0 && call < uint32(len(calls)) && (at != 0 || tick == 0) {
		s.Call, s.Called, s.Passes = calls[call], at, u64(136)
	}
	for level := range levels {
		for i := range perLevel {
			at := header + (level*perLevel+i)*onePoint
			if !bytes.Equal(first[at:at+onePoint], b[at:at+onePoint]) {
				continue // it was being written
			}
			point := job.WaitPoint{Seq: u64(at), Waited: p.long(u64(at + 8)), Other: p.long(u64(at + 16)), Loose: u64(at + 24), At: p.at(u64(at + 32))}
			if within(point, level, i, s.Seq, since, now) {
				s.Points = append(s.Points, point)
			}
		}
	}
	s.Points = ascending(s.Points)
	return s
}

func stateOf(state, saw uint32) job.WatchState {
	switch {
	case state == stateUnknown:
		return job.Unknown
	case state != stateInitialized && state != stateFinalized:
		return job.Unwatched
	case saw&sawFullTable != 0:
		return job.Lost
	case state == stateFinalized:
		return job.Finalized
	}
	return job.Measured
}

// within says whether a point can be where it stands: each has one place in its ring, lies between since and now, and says of no more
// time than there was. Threads may wait at once, a thousand of them at most.
func within(p job.WaitPoint, level, i int, last uint64, since, now time.Duration) bool {
	const threads = 1000
	stride := uint64(1) << (shift * level)
	return p.Seq != 0 && p.Seq <= last && p.Seq%stride == 0 && p.Seq/stride%perLevel == uint64(i) && p.Loose <= p.Seq &&
		p.At > since && p.At <= now && p.Waited >= 0 && p.Other >= 0 && p.Waited <= threads*(p.At-since) && p.Other <= threads*(p.At-since)
}

// ascending sorts points, drops a second one of a number, and those by which a sum falls or a clock goes back.
func ascending(points []job.WaitPoint) (kept []job.WaitPoint) {
	slices.SortFunc(points, func(a, b job.WaitPoint) int { return cmp.Compare(a.Seq, b.Seq) })
	for _, p := range points {
		if n := len(kept); n > 0 {
			if last := kept[n-1]; p.Seq == last.Seq || p.Waited < last.Waited || p.Other < last.Other || p.Loose < last.Loose || p.At < last.At {
				continue
			}
		}
		kept = append(kept, p)
	}
	return kept
}
