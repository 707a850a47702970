package slow

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mpiup/mpiup/internal/frameworks"
	"github.com/mpiup/mpiup/internal/job"
)

// Two ranks tell every five seconds how long a step takes, in a window of a minute; steps gives the rank in the middle's, and its calls.
func TestSteps(t *testing.T) {
	const ms = time.Millisecond
	type told = func(at int) (time.Duration, uint32) // at so many seconds
	for name, c := range map[string]struct {
		steps told
		until int
		want  string // of the line; "": there is none
		at    int    // when, at most
		times int
	}{
		"steady":      {func(at int) (time.Duration, uint32) { return 1100*ms + time.Duration(at%7)*8*ms, 40 }, 3600, "", 0, 0},
		"20 % slower": {func(at int) (time.Duration, uint32) { return 1100*ms + 220*ms*b(at > 600), 40 }, 1200, "steps have taken 1.32 s for 60 s, 1.1 s before (20 % slower, by the cadence of NCCL calls)", 670, 1},
		"5 % slower":  {func(at int) (time.Duration, uint32) { return 1100*ms + 55*ms*b(at > 600), 40 }, 3600, "", 0, 0},
		"start-up":    {func(at int) (time.Duration, uint32) { return 1100*ms + 900*ms*b(at < 200), 40 }, 3600, "", 0, 0},
		"other steps, as an evaluation's": {func(at int) (time.Duration, uint32) {
			return 1100*ms + 900*ms*b(at%1000 > 600), 40 + 20*uint32(b(at%1000 > 600))
		}, 3600, "", 0, 0},
		"pauses for checkpoints":   {func(at int) (time.Duration, uint32) { return 1100 * ms * b(at%300 > 40), 40 }, 3600, "", 0, 0},
		"slower for half a window": {func(at int) (time.Duration, uint32) { return time.Second + time.Second*b(at%300 > 270), 40 }, 3600, "", 0, 0},
		"slow at times, by chance": {func(at int) (time.Duration, uint32) { return time.Second + time.Second*b(at%15 == 0), 40 }, 3600, "", 0, 0},
		"no period":                {func(int) (time.Duration, uint32) { return 0, 40 }, 3600, "", 0, 0},
		"a period that is found twice as long": {func(at int) (time.Duration, uint32) {
			return time.Second + time.Second*b(at > 600), 40 + 40*uint32(b(at > 600))
		}, 3600, "", 0, 0},
		"slower, and as before, again and again": {func(at int) (time.Duration, uint32) { return time.Second + time.Second*b(at%600 > 300), 40 }, 6000, "100 % slower", 400, 3},
		"steps of 30 s":                          {func(at int) (time.Duration, uint32) { return 30*time.Second + 10*time.Second*b(at > 1800), 40 }, 3600, "steps have taken 40 s for 320 s", 2130, 1},
		"hostile":                                {func(at int) (time.Duration, uint32) { return maxSum * b(at%10 == 0), uint32(at) }, 3600, "", 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := Watch{Window: time.Minute}
			times, first := 0, 0
			for at := 0; at < c.until; at += 5 {
				now := time.Duration(at) * time.Second
				for r := range 2 {
					long, calls := c.steps(at)
					w.Hear(now, now, []job.Waits{{ID: r, Step: long + time.Duration(r)*ms*b(long > 0), StepCalls: calls}})
				}
				if line := w.News(now, 2, Names{}); line != "" {
					times++
					if first == 0 {
						first = at
					}
					if want := strings.ReplaceAll(c.want, "320 s", "5m20s"); want == "" || !strings.Contains(line, want) {
						t.Errorf("at %d s: %s", at, line)
					}
				}
			}
			if times != c.times || first > c.at {
				t.Errorf("told %d times, first at %d s", times, first)
			}
		})
	}
}

// The one that calls last is named by clocks of which it is known how far they are apart, and nobody where it is not.
func TestTardy(t *testing.T) {
	w := Watch{Window: time.Minute, steps: steps{slower: Slower{Now: 2, Before: 1}}}
	begun := time.Unix(1000, 0)
	if !w.Asks(begun) || w.Asks(begun) {
		t.Error("it is asked once")
	}
	ahead := map[string]time.Duration{"w0": 0, "w1": 5 * time.Second, "w2": 0}
	record := func(rank int, late time.Duration, host string) frameworks.Flight {
		g := frameworks.FlightGroup{Name: "0"}
		for i := range 40 {
			g.Calls = append(g.Calls, frameworks.FlightCall{Seq: uint64(i + 1), At: begun.Add(time.Duration(i)*time.Second + late + ahead[host]).UnixNano()})
		}
		return frameworks.Flight{Rank: rank, Groups: []frameworks.FlightGroup{g}}
	}
	records := map[string]frameworks.Flight{"w0": record(0, 0, "w0"), "w1": record(1, 300*time.Millisecond, "w1"), "w2": record(2, 0, "w2")}
	owner := func(rank int) string { return []string{"w0", "w1", "w2"}[rank] }
	if line := w.Tardy(maps.All(records), owner); !strings.HasPrefix(line, "no rank can be named") {
		t.Error(line)
	}
	w.Clock("w0", begun.Add(3*time.Second), begun.Add(time.Millisecond).UnixNano(), begun.Add(2999*time.Millisecond).UnixNano())
	w.Clock("w2", begun.Add(3*time.Second), begun.Add(time.Millisecond).UnixNano(), begun.Add(2999*time.Millisecond).UnixNano())
	w.Clock("w1", begun.Add(3*time.Second), begun.Add(5001*time.Millisecond).UnixNano(), begun.Add(7999*time.Millisecond).UnixNano())
	line := w.Tardy(maps.All(records), owner)
	if ranks, share := w.Last(); !strings.HasPrefix(line, "torch's rank 1 on w1: it was the last to call ") || !slices.Equal(ranks, []int{1}) || share < 0.2 {
		t.Error(line, ranks, share)
	}
	one := map[string]frameworks.Flight{"w0": record(0, 0, "w0"), "w1": record(1, 0, "w1"), "w2": record(2, 0, "w2")}
	one["w0"] = record(0, -300*time.Millisecond, "w0") // it says that it calls before the others
	delete(one, "w2")
	if line := w.Tardy(maps.All(one), owner); !strings.HasPrefix(line, "no rank can be named: too few hosts have ranks that call") {
		t.Errorf("by the word of one of two: %s", line)
	}
	w.steps.offsets = map[string]Offset{}
	w.Clock("w0", begun.Add(3*time.Second), begun.UnixNano(), begun.Add(time.Second).UnixNano()) // two seconds on the way
	w.Clock("w1", begun.Add(3*time.Second), begun.Add(5*time.Second).UnixNano(), begun.Add(time.Second).UnixNano())
	if line := w.Tardy(maps.All(records), owner); !strings.HasPrefix(line, "no rank can be named") {
		t.Error(line)
	}
}

// One rank of three that lies of its steps changes nothing of what is said of all.
func TestALiarAndSteps(t *testing.T) {
	w := Watch{Window: time.Minute}
	for at := 0; at < 3600; at += 5 {
		now := time.Duration(at) * time.Second
		for r := range 3 {
			long := time.Second
			if r == 1 {
				long = time.Duration(at) * time.Second
			}
			w.Hear(now, now, []job.Waits{{ID: r, Step: long, StepCalls: 40}})
		}
		if line := w.News(now, 3, Names{}); line != "" || w.Step(now) != time.Second {
			t.Fatalf("at %d s, %v: %s", at, w.Step(now), line)
		}
	}
}
