package slow

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mpiup/mpiup/internal/job"
)

const second = time.Second

// program makes the points of ranks over so many steps of a second: each rank works, in all but what it waits for the last.
func program(steps int, work func(step, rank int) time.Duration, ranks int) map[int][]job.WaitPoint {
	at, waited := make([]time.Duration, ranks), make([]time.Duration, ranks)
	points := map[int][]job.WaitPoint{}
	for step := range steps {
		var last time.Duration
		for r := range ranks {
			at[r] += work(step, r)
			last = max(last, at[r])
		}
		for r := range ranks {
			waited[r] += last - at[r]
			at[r] = last
			points[r] = append(points[r], job.WaitPoint{Seq: uint64(step + 1), Waited: waited[r], At: at[r]})
		}
	}
	return points
}

func TestFind(t *testing.T) {
	const ranks = 6
	noise := rand.New(rand.NewPCG(1, 2))
	usual := func(d time.Duration) time.Duration { return d + time.Duration(noise.Int64N(int64(d)/50)) }
	for name, c := range map[string]struct {
		work  func(step, rank int) time.Duration
		want  []int
		moves bool
	}{
		"all alike":    {work: func(_, _ int) time.Duration { return usual(second) }},
		"5 % slower":   {work: func(_, r int) time.Duration { return usual(second + second/20*b(r == 3)) }},
		"20 % slower":  {work: func(_, r int) time.Duration { return usual(second + second/5*b(r == 3)) }, want: []int{3}},
		"twice":        {work: func(_, r int) time.Duration { return usual(second + second*b(r == 3)) }, want: []int{3}},
		"two of them":  {work: func(_, r int) time.Duration { return usual(second + second*b(r > 3)) }, want: []int{4, 5}},
		"most of them": {work: func(_, r int) time.Duration { return usual(second + second*b(r > 0)) }},
		"in turn":      {work: func(s, r int) time.Duration { return usual(second + second*b(s/5%ranks == r)) }, moves: true},
		"it saves now and then": {work: func(s, r int) time.Duration {
			return usual(second + second/30*b(r == 0) + 5*second*b(s%8 == 7 && r == 0))
		}, moves: true},
		"a checkpoint": {work: func(s, r int) time.Duration { return usual(second + 5*second*b(s == 30 && r == 0)) }},
	} {
		f := Find(program(60, c.work, ranks), 60*second)
		if !f.Measured || !slices.Equal(f.Ranks, c.want) || f.Moves != c.moves {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

func b(yes bool) time.Duration {
	if yes {
		return 1
	}
	return 0
}

// A rank that comes late since it waited for its neighbour in a call between two is not named; the neighbour is.
func TestNeighbours(t *testing.T) {
	points := program(60, func(_, r int) time.Duration { return second + second*b(r == 2 || r == 3) }, 6)
	for i := range points[3] { // it was waiting for rank 2
		points[3][i].Other = time.Duration(i+1) * second
	}
	if f := Find(points, 60*second); !slices.Equal(f.Ranks, []int{2}) {
		t.Errorf("%+v", f)
	}
}

// In a pipeline each stage waits for the one before it, and the last is the last to come. All waited as long, though not in the same calls.
func TestPipeline(t *testing.T) {
	points := program(60, func(_, r int) time.Duration { return second + time.Duration(r)*second/4 }, 4)
	for r, list := range points {
		for i := range list {
			list[i].Other = time.Duration((i+1)*r) * second / 4
		}
	}
	if f := Find(points, 60*second); !f.Measured || len(f.Ranks) > 0 || f.Share > 0 {
		t.Errorf("%+v", f)
	}
}

// Nothing is said of what was not measured.
func TestUnmeasured(t *testing.T) {
	slow := func(_, r int) time.Duration { return second + second*b(r == 1) }
	loose := program(60, slow, 3)
	for i := range loose[0] {
		loose[0][i].Loose = uint64(i)
	}
	apart := program(60, slow, 3)
	apart[2] = slices.DeleteFunc(apart[2], func(p job.WaitPoint) bool { return p.Seq%2 == 0 })
	apart[0] = slices.DeleteFunc(apart[0], func(p job.WaitPoint) bool { return p.Seq%2 == 1 })
	for name, points := range map[string]map[int][]job.WaitPoint{
		"one rank":             program(60, slow, 1),
		"three steps":          program(3, slow, 3),
		"not all wait for all": loose,
		"no number of all":     apart,
		"nobody":               nil,
	} {
		if f := Find(points, 60*second); f.Measured || len(f.Ranks) > 0 {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

// A rank that says that it never waits is taken for the slow one; none can make another it. What it says beyond the time there was counts
// as that time.
func TestALiarAccusesItself(t *testing.T) {
	alike := func(_, _ int) time.Duration { return second }
	for name, lie := range map[string]func(i int, p *job.WaitPoint){
		"that it waits for ever": func(_ int, p *job.WaitPoint) { p.Waited *= 1000 },
		"all of the time":        func(i int, p *job.WaitPoint) { p.Waited = time.Duration(i) * second },
		"that time stands":       func(_ int, p *job.WaitPoint) { p.At = second },
	} {
		points := program(60, alike, 4)
		for i := range points[2] {
			lie(i, &points[2][i])
		}
		if f := Find(points, 60*second); len(f.Ranks) > 0 && !slices.Equal(f.Ranks, []int{2}) {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

// A Watch tells once of a rank, after its window, and why.
func TestWatch(t *testing.T) {
	w := Watch{Window: 24 * second}
	points := program(40, func(_, r int) time.Duration { return second + second*b(r == 1) }, 3)
	var told []Finding
	for i := range 40 {
		at := points[0][i].At
		var reports []job.Waits
		for r := range 3 {
			work := job.RankWork{CPU: at - points[r][i].Waited}
			if r == 1 {
				work = job.RankWork{CPU: at / 2, Throttled: at / 2}
			}
			reports = append(reports, job.Waits{ID: r, State: job.Measured, Seq: uint64(i + 1), Points: points[r][i : i+1], RankWork: work})
		}
		w.Hear(at, at, reports)
		if f, news := w.Look(at, 3); news {
			told = append(told, f)
		}
	}
	if len(told) != 1 || !slices.Equal(told[0].Ranks, []int{1}) || told[0].Cause.Cause != Throttled || told[0].Share < 0.4 {
		t.Errorf("%+v", told)
	}
	if f := w.Total(3); !slices.Equal(f.Ranks, []int{1}) || f.Share < 0.4 {
		t.Errorf("in all %+v", f)
	}
	names := Names{One: func(rank int) string { return fmt.Sprint("rank ", rank) }}
	if known := w.End(3, names); !strings.HasPrefix(known, "rank 1: the others waited ") {
		t.Errorf("at the end it says %q", known)
	}
	if unknown := w.End(4, names); !strings.HasPrefix(unknown, "--watch-ranks: who is slow was not measured: nothing was heard of rank 3: ") {
		t.Errorf("where a rank was not heard of it says %q", unknown)
	}
	if why := w.Unmeasured(3); why != "" {
		t.Error(why)
	}
	if why := w.Unmeasured(4); !strings.HasPrefix(why, "nothing was heard of rank 3: ") {
		t.Error(why)
	}
}

// Where all ranks want the processors, chance says who comes last: that explains the delay, differs from nobody's, and accuses nobody. A rank that
// alone has no processor is named.
func TestCrowded(t *testing.T) {
	for _, c := range []struct {
		others time.Duration // that the others wait for a processor, of three
		want   []int
		end    string
	}{{others: 0, want: []int{1}}, {others: 1, end: "--watch-ranks: who is slow does not show: all ranks were ready to run 33 % of "}} {
		w := Watch{Window: 24 * second}
		points := program(40, func(_, r int) time.Duration { return second + second/2*b(r == 1) }, 3)
		var last Finding
		for i := range 40 {
			at := points[0][i].At
			var reports []job.Waits
			for r := range 3 {
				reports = append(reports, job.Waits{ID: r, State: job.Measured, Seq: uint64(i + 1), Points: points[r][i : i+1], RankWork: job.RankWork{CPU: at / 3, Queued: at / 3 * max(c.others, b(r == 1))}})
			}
			w.Hear(at, at, reports)
			if f, _ := w.Look(at, 3); f.Measured {
				last = f
			}
		}
		if !last.Measured || !slices.Equal(last.Ranks, c.want) || len(c.want) > 0 && last.Cause.Cause != Queued {
			t.Errorf("%+v", last)
		}
		if got := w.End(3, Names{One: func(int) string { return "rank" }}); c.end != "" && !strings.HasPrefix(got, c.end) {
			t.Errorf("its end says %q", got)
		}
	}
}

// A rank that computes all the time is slow by its memory where that is far and the others' is not, and no slower than such memory can be. One whose
// pages come from storage waits for storage for want of memory.
func TestCauses(t *testing.T) {
	for name, c := range map[string]struct {
		its, theirs job.RankWork // in a second
		share       float64
		want        Cause
	}{
		"far memory":             {job.RankWork{CPU: second, Far: 0.7}, job.RankWork{CPU: second, Far: 0.1}, 0.4, Far},
		"far, as all are":        {job.RankWork{CPU: second, Far: 0.7}, job.RankWork{CPU: second, Far: 0.6}, 0.4, Busy},
		"slower than far can be": {job.RankWork{CPU: second, Far: 0.7}, job.RankWork{CPU: second}, 0.8, Busy},
		"far, and it rests":      {job.RankWork{Far: 0.7}, job.RankWork{CPU: second}, 0.4, Still},
		"storage":                {job.RankWork{Storage: second / 2, ReadBack: 9}, job.RankWork{CPU: second}, 0.4, Storage},
		"pages from storage":     {job.RankWork{Storage: second / 2, ReadBack: 90}, job.RankWork{CPU: second}, 0.4, Paging},
	} {
		w := Watch{Window: 24 * second}
		for i := range time.Duration(20) {
			var reports []job.Waits
			for r, work := range []job.RankWork{c.theirs, c.its, c.theirs} {
				work.CPU, work.Storage, work.ReadBack = work.CPU*i, work.Storage*i, work.ReadBack*uint64(i)
				reports = append(reports, job.Waits{ID: r, State: job.Measured, RankWork: work})
			}
			w.Hear(i*second, i*second, reports)
		}
		if got := w.Reason(1, c.share); got.Cause != c.want || got.Sentence() == "" {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// Each reason why nothing is known has its words, and none is that all is well.
func TestWhyUnmeasured(t *testing.T) {
	for want, r := range map[string]job.Waits{
		"the ranks' MPI library is none that can be watched (Open MPI, MPICH and what has their ABI can)":                                                                                                                {State: job.Unknown},
		"ranks did not call MPI_Init where it can be seen: they have MPI linked in, call it by addresses, were started by a program that is no shell, or have none, and no call of NCCL was seen, as of torch over Gloo": {State: job.Unwatched},
		"ranks have more than a thousand non-blocking collectives under way at once":                                                                                                                                     {State: job.Lost},
		"all collectives are over some of the ranks, and which is not known":                                                                                                                                             {State: job.Measured, Partial: 3},
		"there was no collective in which all ranks wait for all":                                                                                                                                                        {State: job.Measured},
		"": {State: job.Measured, Seq: 1},
	} {
		w := Watch{Window: second}
		w.Hear(0, 0, []job.Waits{r})
		if got := w.Unmeasured(1); got != want {
			t.Errorf("%+v: %s", r, got)
		}
	}
}

// Ranks of which nothing is known are named where others are measured.
func TestWhoIsUnmeasured(t *testing.T) {
	w := Watch{Window: second}
	measured := job.Waits{State: job.Measured, Seq: 1}
	for _, id := range []int{0, 1, 2, 4} {
		r := measured
		r.ID = id
		w.Hear(0, 0, []job.Waits{r})
	}
	if got := w.Unmeasured(6); !strings.HasPrefix(got, "nothing was heard of ranks 3,5: ") {
		t.Errorf("it says %s", got)
	}
	w.Hear(0, 0, []job.Waits{{ID: 3, State: job.Unwatched}, {ID: 5, State: job.Measured, Seq: 1}})
	if got := w.Unmeasured(6); !strings.HasPrefix(got, "rank 3 did not call MPI_Init") {
		t.Errorf("it says %s", got)
	}
}

// Where ranks wait in calls that do not show for whom, that is said, and not that all is well.
func TestUnclear(t *testing.T) {
	w := Watch{Window: 24 * second}
	points := program(40, func(_, _ int) time.Duration { return second }, 2)
	for i := range 40 {
		var reports []job.Waits
		for r := range 2 {
			points[r][i].Other = time.Duration(i) * second / 2
			reports = append(reports, job.Waits{ID: r, State: job.Measured, Seq: uint64(i + 1), Points: points[r][i : i+1]})
		}
		w.Hear(points[0][i].At, points[0][i].At, reports)
		if _, news := w.Look(points[0][i].At, 2); news {
			t.Error("somebody is told of")
		}
	}
	if got := w.End(2, Names{}); !strings.HasPrefix(got, "--watch-ranks: the ranks waited 50 % of ") || !strings.HasSuffix(got, " in calls that do not show for whom, such as MPI_Recv and MPI_Bcast") {
		t.Error(got)
	}
}

// A sum that falls a little is a clock that was read anew, and no reason to drop what it belongs to.
func TestUnsteadyClock(t *testing.T) {
	points := program(60, func(_, r int) time.Duration { return second + second*b(r == 1) }, 3)
	for i := range points[1] {
		points[1][i].Waited = time.Duration(100-i) * time.Microsecond
	}
	if f := Find(points, 60*second); !slices.Equal(f.Ranks, []int{1}) || f.Window < 100*second {
		t.Errorf("%+v", f)
	}
}
