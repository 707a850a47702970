package report

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/mpiup/mpiup/launcher/hours"
	"github.com/mpiup/mpiup/launcher/progress"
)

var hoursBegun = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// story is a run by its clock, in seconds.
type story struct {
	Recorder
	now int
}

func aStory(hosts ...string) *story {
	s := &story{}
	s.Begin(Report{Begun: hoursBegun})
	for _, h := range hosts {
		s.Host(Host{Name: h, GPUs: 4}, hoursBegun)
	}
	return s
}

func (s *story) at() time.Time { return hoursBegun.Add(time.Duration(s.now) * time.Second) }

// seats places ranks, all of which run after so long, and have met after so long again.
func (s *story) seats(start, meet int, hosts ...string) {
	var ranks []Rank
	for i, h := range hosts {
		ranks = append(ranks, Rank{Rank: i, Host: h})
	}
	s.Places(s.at(), ranks)
	s.Enter(s.at(), "launching")
	for _, r := range ranks {
		s.Rank(r)
	}
	s.now += start
	for i := range ranks {
		s.Started(s.at(), i, 1+i)
	}
	s.Enter(s.at(), "wiring")
	s.now += meet
	s.Enter(s.at(), "running")
}

func (s *story) step(n float64) {
	s.Point(progress.Point{ID: 0, At: s.at(), Values: []progress.Value{{Name: progress.Step, Number: n}}})
}

// stops ends all ranks, which takes so long, and waits so long for the next attempt.
func (s *story) stops(ends, rests int) {
	s.Enter(s.at(), "stopping")
	s.now += ends
	s.Enter(s.at(), "gathering")
	s.now += rests
	s.Restart(s.at(), Restart{})
}

// What docs/report.md defines, in numbers. All of it has two ranks on one host with four GPUs.
func TestHours(t *testing.T) {
	pair := []string{"w0", "w0"}
	for _, tt := range []struct {
		name string
		play func(s *story)
		want string // rank-seconds
	}{
		{"hosts are waited for, ranks start, meet and run", func(s *story) {
			s.now += 10
			s.seats(2, 3, pair...)
			s.now += 20
		}, "waiting 20 starting 4 init 6 running 40"},
		{"no step was told", func(s *story) {
			s.hours.Watched()
			s.seats(0, 0, pair...)
			s.now += 7
			s.step(1)
			s.now += 5
		}, "before-step 14 running 10"},
		{"one ends before the other, and both are told to end", func(s *story) {
			s.seats(0, 0, pair...)
			s.now += 4
			s.Ended(s.at(), 1, "exit code 0")
			s.now += 6
			s.Enter(s.at(), "stopping")
			s.now += 3
		}, "running 14 over 12"},
		{"quiet ranks that work again have worked", func(s *story) {
			s.seats(0, 0, pair...)
			s.now += 4
			s.Stands(s.at(), hours.Stand{Phase: "running", Quiet: s.at()})
			s.now += 6
			s.Stands(s.at(), hours.Stand{Phase: "running"})
			s.now += 3
		}, "running 26"},
		{"a stall counts from its first quiet moment", func(s *story) {
			s.seats(0, 0, pair...)
			s.now += 4
			since := s.at()
			s.Stands(s.at(), hours.Stand{Phase: "running", Quiet: since})
			s.now += 6
			s.Stands(s.at(), hours.Stand{Phase: "running", Quiet: since, Stalled: true})
			s.now += 3
			s.Enter(s.at(), "stopping")
		}, "running 8 stalled 18"},
		{"of two one waits for the other a quarter of the time", func(s *story) {
			s.seats(0, 0, pair...)
			s.Stands(s.at(), hours.Stand{Phase: "running", For: map[int]string{1: "w0"}, Lost: 0.25})
			s.now += 8
			s.Stands(s.at(), hours.Stand{Phase: "running"})
			s.now += 2
		}, "running 18 slow 2"},
		{"steps are done again", func(s *story) {
			s.hours.Watched()
			s.seats(0, 0, pair...)
			for n := range 10 {
				s.step(float64(n))
				s.now++
			}
			s.stops(2, 3)
			s.seats(1, 0, pair...)
			s.now += 4
			s.step(6) // 6 to 9 are done again
			s.now += 5
		}, "starting 2 before-step 8 running 22 lost 8 restarting 10"},
		{"and again, from further back", func(s *story) {
			s.seats(0, 0, pair...)
			for _, from := range []float64{0, 3, 1} {
				for n := range 5 {
					s.step(from + float64(n))
					s.now++
				}
				s.stops(0, 0)
				s.seats(0, 0, pair...)
			}
		}, "running 12 lost 18"},
		{"a run that is taken over", func(s *story) {
			s.now += 100
			s.hours.Takes(hoursBegun, hoursBegun.Add(60*time.Second), hours.Account{"waiting": {50_000, 100_000_000}, "running": {70_000, 140_000_000}})
			s.now += 3
			s.seats(0, 0, pair...)
			s.now += 7
		}, "waiting 50 running 170"},
		{"hosts never come", func(s *story) { s.now += 300 }, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := aStory("w0")
			tt.play(s)
			s.Over(s.at())
			s.now += 1000
			var got []string
			for _, spent := range s.Report(Report{Ended: s.at()}).Spent {
				got = append(got, fmt.Sprint(spent.Cause, " ", spent.Ranks))
				if spent.GPUs != 2*spent.Ranks {
					t.Errorf("%s: %v GPU-seconds of %v rank-seconds, with two GPUs a rank", spent.Cause, spent.GPUs, spent.Ranks)
				}
			}
			if strings.Join(got, " ") != tt.want {
				t.Errorf("%s, want %s", strings.Join(got, " "), tt.want)
			}
		})
	}
}

// Whatever is told, in whatever order, every moment of every seat is accounted for once.
func TestHoursOfAnything(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 0))
		s := aStory("w0", "w1", "w2")
		var want, gpus, since, ranks, mostGPUs, high int64 // a clock that is set back counts when it is further than before
		count := func() {
			high = max(high, int64(s.now))
			want, gpus, since = want+ranks*(high-since), gpus+mostGPUs*(high-since), high
		}
		for range 300 {
			s.now += r.IntN(4) - r.IntN(2)*r.IntN(2)
			s.hours.Advance(s.at())
			high = max(high, int64(s.now))
			switch r.IntN(9) {
			case 0:
				if r.IntN(4) == 0 {
					if ranks > 0 {
						count()
					}
					ranks, mostGPUs = int64(1+r.IntN(7)), 0
					on, list := map[string]bool{}, []string(nil)
					for range ranks {
						list = append(list, fmt.Sprint("w", r.IntN(3)))
						on[list[len(list)-1]] = true
					}
					mostGPUs = int64(4 * len(on))
					s.seats(r.IntN(3), r.IntN(3), list...)
				}
			case 1:
				s.Started(s.at(), r.IntN(8), 1)
			case 2:
				s.Ended(s.at(), r.IntN(8), "")
			case 3, 4:
				s.Enter(s.at(), hours.Phases[r.IntN(len(hours.Phases))])
			case 5:
				s.Stands(s.at(), hours.Stand{Phase: "running", Quiet: hoursBegun, Stalled: r.IntN(2) == 0, For: map[int]string{r.IntN(9): "w0"}, Lost: 2 * r.Float64()})
			case 6:
				s.Stands(s.at(), hours.Stand{Phase: "running", For: map[int]string{r.IntN(9): "w0"}, Lost: r.Float64()})
			case 7:
				s.step(float64(r.IntN(50)))
			case 8:
				s.Event(s.at(), Event{Kind: Lost, Host: "w1"})
			}
			s.hours.Advance(s.at())
			high = max(high, int64(s.now))
		}
		count()
		sum := hours.Spent{}
		for _, spent := range s.Report(Report{Ended: s.at()}).Spent {
			if sum.Ranks, sum.GPUs = sum.Ranks+spent.Ranks, sum.GPUs+spent.GPUs; spent.Ranks < 0 || spent.GPUs < 0 {
				t.Fatalf("seed %d: %v", seed, spent)
			}
		}
		if fmt.Sprintf("%.3f %.3f", sum.Ranks, sum.GPUs) != fmt.Sprintf("%d.000 %d.000", want, gpus) {
			t.Fatalf("seed %d: %v rank-seconds and %v GPU-seconds, want %d and %d", seed, sum.Ranks, sum.GPUs, want, gpus)
		}
	}
}

// What a launcher leaves to the next is what it shows.
func TestAccount(t *testing.T) {
	s := aStory("w0")
	s.now += 10
	s.seats(2, 3, "w0", "w0")
	s.now += 20
	left := s.hours.Handed(s.at())
	if want := (hours.Account{"waiting": {20_000, 40_000_000}, "starting": {4_000, 8_000_000}, "init": {6_000, 12_000_000}, "running": {40_000, 80_000_000}}); !maps.Equal(left, want) {
		t.Errorf("%v, want %v", left, want)
	}
}
