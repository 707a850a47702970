package slow

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/launcher/witness"
)

const second = time.Second

// onHosts are so many ranks of which so many in a row are on one host.
func onHosts(ranks, each int) witness.Places {
	return witness.Places{All: idset.Range(0, ranks-1), Host: func(id int) string { return fmt.Sprint("w", id/each) }}
}

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

// Ranks that say that they wait name nobody, however large a part of the ranks, or of the hosts, they are up to half, as long as nothing bears them
// out: they are named themselves, as those who say so. The others compute all the time, as do these.
func TestLiarsNameNobody(t *testing.T) {
	for name, c := range map[string]struct {
		ranks, each int // of a host
		liars       []int
		work        func(at time.Duration) job.RankWork // of the others
		want        string                              // who is named; "": nobody
	}{
		"one of two, on one host":                     {ranks: 2, each: 2, liars: []int{0}},
		"one of two, on two":                          {ranks: 2, each: 1, liars: []int{0}},
		"one of two, and the other rests":             {ranks: 2, each: 1, liars: []int{0}, work: func(time.Duration) job.RankWork { return job.RankWork{} }},
		"one of four":                                 {ranks: 4, each: 2, liars: []int{0}},
		"half of four, on one host":                   {ranks: 4, each: 4, liars: []int{0, 1}},
		"half of four, on four hosts":                 {ranks: 4, each: 1, liars: []int{0, 1}},
		"half of four, on both hosts":                 {ranks: 4, each: 2, liars: []int{0, 2}},
		"one host of two":                             {ranks: 4, each: 2, liars: []int{0, 1}},
		"one host of three":                           {ranks: 6, each: 2, liars: []int{0, 1}},
		"half of eight hosts":                         {ranks: 8, each: 1, liars: []int{0, 1, 2, 3}},
		"honest: all but one":                         {ranks: 4, each: 2, liars: []int{0, 1, 2}, want: "3"},
		"honest: all but one, on one host":            {ranks: 3, each: 3, liars: []int{0, 1}, want: "2"},
		"honest: one of two, the other was throttled": {ranks: 2, each: 1, liars: []int{0}, want: "1", work: func(at time.Duration) job.RankWork { return job.RankWork{CPU: at / 2, Throttled: at / 2} }},
	} {
		t.Run(name, func(t *testing.T) {
			w := Watch{Window: 24 * second, Places: onHosts(c.ranks, c.each)}
			points := program(40, func(_, _ int) time.Duration { return second }, c.ranks)
			var news []string
			for i := range 40 {
				at := points[0][i].At
				for r := range c.ranks {
					p := points[r][i]
					work := job.RankWork{CPU: at}
					if slices.Contains(c.liars, r) {
						p.Waited = at / 2
					} else if c.work != nil {
						work = c.work(at)
					}
					w.Hear(at, at, []job.Waits{{ID: r, State: job.Measured, Seq: p.Seq, Points: []job.WaitPoint{p}, RankWork: work}})
				}
				if line := w.News(at, c.ranks, plain); line != "" {
					news = append(news, line)
				}
			}
			end := w.End(c.ranks, plain)
			said := strings.Join(append(news, end), "\n")
			named := ""
			if ranks, _ := w.Last(); len(ranks) > 0 {
				named = idset.Of(ranks...).String()
			}
			if named != c.want || strings.Contains(said, "the others waited") != (c.want != "") {
				t.Errorf("%q is named:\n%s", named, said)
			}
			if alone := strings.Contains(said, " alone name"); c.want == "" && !alone && 2*len(c.liars) >= c.ranks || len(news) > 1 {
				t.Errorf("it is not said who says what, once:\n%s", said)
			}
			for r := range c.ranks {
				if c.want == "" && !slices.Contains(c.liars, r) && strings.Contains(said, fmt.Sprint("rank ", r)) {
					t.Errorf("rank %d is told of:\n%s", r, said)
				}
			}
		})
	}
}

// A rank that is in a collective by its word, or has never been out of one, names none of those that are not: half of them, or one host of two.
func TestLiarsAreInACollective(t *testing.T) {
	in, out := job.Waits{State: job.Measured, Seq: 7, Inside: 10 * second}, job.Waits{State: job.Measured, Seq: 7}
	for name, c := range map[string]struct {
		each  int
		ranks []job.Waits
		seen  bool // stacks show the other elsewhere
		want  []int
	}{
		"one of two, on one host":      {2, []job.Waits{in, out}, false, nil},
		"one of two, on two":           {1, []job.Waits{in, out}, false, nil},
		"half of four":                 {1, []job.Waits{in, in, out, out}, false, nil},
		"one host of two":              {2, []job.Waits{in, in, out, out}, false, nil},
		"honest: one of two, by looks": {1, []job.Waits{in, out}, true, []int{1}},
	} {
		w := Watch{Window: 4 * second, Places: onHosts(len(c.ranks), c.each)}
		hear := func(now time.Duration) string {
			for i, r := range c.ranks {
				r.ID = i
				w.Hear(now, 20*second+now, []job.Waits{r})
			}
			return w.News(now, len(c.ranks), plain)
		}
		if said := hear(0) + hear(second); !strings.Contains(said, " alone name") || strings.Contains(said, "all others") {
			t.Errorf("%s: it says %q", name, said)
		}
		suspects, share := w.Suspects()
		if len(suspects) == 0 || share != 1 {
			t.Errorf("%s: nobody looks where the others are: %v", name, suspects)
		}
		if c.seen {
			if line := w.Opine(2*second, suspects, Opinion{Says: "in 5 of 5 looks it was in load"}, plain); line != "" {
				t.Errorf("%s: before it is named it says %q", name, line)
			}
		}
		said := hear(3 * second)
		if ranks, _ := w.Last(); !slices.Equal(ranks, c.want) || (said != "") != c.seen || c.seen && !strings.Contains(said, "rank 1: all others have waited 13 s for it in a collective over all ranks, as several looks show") {
			t.Errorf("%s: %v are named: %q", name, ranks, said)
		}
	}
}

// A Watch tells once of a rank, after its window, and why.
func TestWatch(t *testing.T) {
	w := Watch{Window: 24 * second, Places: onHosts(3, 1)}
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
		w := Watch{Window: 24 * second, Places: onHosts(3, 1)}
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
