package checkup

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mpiup/mpiup/internal/job"
)

// MaxTime is the longest that CPUs may be asked to compute.
const MaxTime = time.Hour

// work is a computation; known are its results.
type work struct {
	known []string
	run   func(pattern int, scratch []byte) string
}

// Compute lets each CPU that this process may use compute for a time, all at once.
func Compute(ctx context.Context, d time.Duration) job.CPUTrial {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return job.CPUTrial{Error: fmt.Sprintf("which CPUs may be used: %v", err)}
	}
	var cpus []int
	for i := range 8 * len(set) * 8 { // words of 64 bits at most
		if set.IsSet(i) {
			cpus = append(cpus, i)
		}
	}
	return compute(ctx, cpus, min(d, MaxTime), work{digests, digest})
}

// tally is one CPU's.
type tally struct {
	rounds, wrong int
	err           error
}

func compute(ctx context.Context, cpus []int, d time.Duration, w work) job.CPUTrial {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	all := make([]tally, len(cpus))
	var running sync.WaitGroup
	for i, cpu := range cpus {
		running.Go(func() { all[i] = one(ctx, cpu, w) })
	}
	running.Wait()
	r := job.CPUTrial{CPUs: len(cpus), Fewest: math.MaxInt32}
	for i, t := range all {
		r.Rounds += t.rounds
		r.Fewest = min(r.Fewest, t.rounds)
		if t.wrong > 0 {
			r.Wrong = append(r.Wrong, job.WrongCPU{CPU: cpus[i], Times: t.wrong, Of: t.rounds})
		}
		if t.err != nil {
			r.Error = t.err.Error()
		}
	}
	return r
}

// one lets a CPU compute each pattern in turn until the time is up, but each pattern once at least.
func one(ctx context.Context, cpu int, w work) (t tally) {
	runtime.LockOSThread() // for good: the thread ends with its goroutine, and its mask with it
	var set unix.CPUSet
	set.Set(cpu)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		t.err = fmt.Errorf("bind to CPU %d: %w", cpu, err)
		return t
	}
	scratch := make([]byte, 2*span)
	for t.rounds < len(w.known) || ctx.Err() == nil {
		pattern := t.rounds % len(w.known)
		if w.run(pattern, scratch) != w.known[pattern] {
			t.wrong++
		}
		t.rounds++
	}
	return t
}

const (
	side = 64      // of the matrices
	span = 2 << 20 // bytes that are copied, beyond most second-level caches
)

// digest is the result of a pattern: a product of matrices with fused operations, which IEEE 754 rounds the same everywhere, its square
// roots and quotients; integers multiplied and rotated through memory; a copy of that; SHA-256 of all.
func digest(pattern int, scratch []byte) string {
	mix := uint64(pattern)*0x9e3779b97f4a7c15 + 1
	next := func() uint64 { // xorshift64*
		mix ^= mix >> 12
		mix ^= mix << 25
		mix ^= mix >> 27
		return mix * 0x2545f4914f6cdd1d
	}
	var a, b [side * side]float64
	for i := range a {
		a[i], b[i] = unit(next()), unit(next())
	}
	sum := sha256.New()
	var word [8]byte
	for i := range side {
		for k := range side {
			v := 0.0
			for j := range side {
				v = math.FMA(a[i*side+j], b[j*side+k], v)
			}
			v = math.Sqrt(v) / (a[i*side+k] + 1)
			binary.LittleEndian.PutUint64(word[:], math.Float64bits(v))
			sum.Write(word[:])
		}
	}
	for i := 0; i < span; i += 8 {
		binary.LittleEndian.PutUint64(scratch[i:], next())
	}
	copy(scratch[span:2*span], scratch[:span])
	sum.Write(scratch[span : 2*span])
	return hex.EncodeToString(sum.Sum(nil))
}

// unit is a number from 1 to 2, made of a word's bits.
func unit(bits uint64) float64 { return math.Float64frombits(0x3ff<<52 | bits>>12) }
