package slow

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mpiup/mpiup/internal/frameworks"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/test/cost"
)

var plain = Names{One: func(r int) string { return fmt.Sprint("rank ", r) }, Many: func(r []int) string { return fmt.Sprint("ranks ", r) }}

// Ranks that are in no collective, where all others are in the next one and have been for a window, are named while it lasts.
func TestLate(t *testing.T) {
	in, out := job.Waits{State: job.Measured, Seq: 7, Inside: 10 * second}, job.Waits{State: job.Measured, Seq: 7}
	behind, ahead, over, gone, recv := out, in, in, job.Waits{}, out
	recv.Elsewhere = 11 * second
	behind.Seq, ahead.Seq, over.State = 6, 8, job.Finalized
	barrier, final := in, over
	barrier.Call, final.Call = "MPI_Barrier", "MPI_Finalize"
	for name, c := range map[string]struct {
		ranks []job.Waits
		at    time.Duration // of the hosts
		want  []int
	}{
		"one of four":              {[]job.Waits{in, in, out, in}, 20 * second, []int{2}},
		"two of six":               {[]job.Waits{in, out, out, in, in, in}, 20 * second, []int{1, 2}},
		"three of four":            {[]job.Waits{in, out, out, out}, 20 * second, nil},
		"not yet for a window":     {[]job.Waits{in, in, out, in}, 13 * second, nil},
		"one waits for the other":  {[]job.Waits{in, in, out, recv}, 20 * second, []int{2}},
		"two wait in MPI_Recv":     {[]job.Waits{in, in, recv, recv}, 20 * second, nil},
		"it waits in MPI_Recv":     {[]job.Waits{in, in, recv, in}, 20 * second, []int{2}},
		"nobody":                   {[]job.Waits{in, in, in, in}, 20 * second, nil},
		"all compute":              {[]job.Waits{out, out, out, out}, 20 * second, nil},
		"further behind":           {[]job.Waits{in, in, behind, in}, 20 * second, []int{2}},
		"others are elsewhere":     {[]job.Waits{in, ahead, out, in}, 20 * second, nil},
		"one that is not measured": {[]job.Waits{in, in, out, gone}, 20 * second, nil},
		"one is over":              {[]job.Waits{in, in, out, over}, 20 * second, nil},
		"one in MPI_Finalize":      {[]job.Waits{barrier, barrier, out, final}, 20 * second, nil},
		"all but one in it":        {[]job.Waits{final, final, out, final}, 20 * second, []int{2}},
	} {
		w := Watch{Window: 4 * second, Places: onHosts(len(c.ranks), 1)}
		hear := func(now time.Duration) {
			for i, r := range c.ranks {
				r.ID = i
				w.Hear(now, c.at, []job.Waits{r})
			}
		}
		hear(0)
		l := w.Awaited(0, len(c.ranks))
		if !slices.Equal(l.Ranks, c.want) || l.Sure {
			t.Errorf("%s: %+v", name, l)
		}
		if news := w.News(0, len(c.ranks), plain); news != "" {
			t.Errorf("%s: one look is enough for %q", name, news)
		}
		hear(second)
		if l := w.Awaited(second, len(c.ranks)); !slices.Equal(l.Ranks, c.want) || l.Sure != (len(c.want) > 0) {
			t.Errorf("%s, again: %+v", name, l)
		}
		if news := w.News(second, len(c.ranks), plain); (news != "") != (len(c.want) > 0) {
			t.Errorf("%s: %q", name, news)
		}
		if news := w.News(2*second, len(c.ranks), plain); news != "" {
			t.Errorf("%s: twice %q", name, news)
		}
		if before := w.Before(2*second, len(c.ranks), plain); strings.Contains(before, "all others have waited") != (len(c.want) > 0) {
			t.Errorf("%s: %q", name, before)
		}
		if l := w.Awaited(time.Minute, len(c.ranks)); len(l.Ranks) > 0 {
			t.Errorf("%s: of what was heard a minute ago: %+v", name, l)
		}
	}
}

// What stacks say of the named rank is told once while it runs, and with its name when the run ends. While tools stop ranks nobody is named anew.
func TestOpine(t *testing.T) {
	const says = "in 5 of 5 looks it was in read_batch"
	opinion := Opinion{Says: says}
	for name, c := range map[string]struct {
		slow    int
		still   bool // it neither computes nor waits for a processor
		suspect bool
	}{
		"it rests":                {1, true, true},
		"its quota throttles it":  {1, false, false},
		"others than was thought": {2, true, false},
	} {
		w := Watch{Window: 24 * second, Places: onHosts(3, 1)}
		hear := func(points map[int][]job.WaitPoint, from time.Duration) (news []string) {
			for i := range points[0] {
				at := from + points[0][i].At
				for r := range 3 {
					p := points[r][i]
					p.At, p.Seq, p.Waited = at, p.Seq+uint64(from/second), p.Waited+from
					work := job.RankWork{}
					if !c.still {
						work.Throttled = at / 2 * b(r == c.slow)
					}
					w.Hear(at, at, []job.Waits{{ID: r, State: job.Measured, Seq: p.Seq, Points: []job.WaitPoint{p}, RankWork: work}})
				}
				if line := w.News(at, 3, plain); line != "" {
					news = append(news, line)
				}
			}
			return news
		}
		of := func(slow int) map[int][]job.WaitPoint {
			return program(20, func(_, r int) time.Duration { return second + second*b(r == slow) }, 3)
		}
		if news := hear(of(c.slow), 0); len(news) != 1 {
			t.Fatalf("%s: %q", name, news)
		}
		ranks, share := w.Suspects()
		if slices.Equal(ranks, []int{c.slow}) != c.still || (share > 0.4) != c.still {
			t.Errorf("%s: suspects are %v", name, ranks)
		}
		if line := w.Opine(60*second, []int{1}, opinion, plain); (line == "rank 1: "+says) != c.suspect || line == "" == c.suspect {
			t.Errorf("%s: it says %q", name, line)
		}
		if end := w.End(3, plain); strings.HasSuffix(end, "; "+says) != c.suspect || !strings.Contains(end, "the others waited ") {
			t.Errorf("%s: at the end %q", name, end)
		}
		if before := w.Before(40*second, 3, plain); strings.HasSuffix(before, "; "+says) != c.suspect {
			t.Errorf("%s: before the end %q", name, before)
		}
		if line := w.Opine(60*second, []int{1}, Opinion{}, plain); line != "" {
			t.Errorf("%s: of nothing %q", name, line)
		}
		if news := hear(of(0), 40*second); c.suspect && len(news) > 0 {
			t.Errorf("%s: while ranks were stopped it names %q", name, news)
		}
		if news := hear(of(0), 80*second); len(news) != 1 || !strings.HasPrefix(news[0], "rank 0: ") {
			t.Errorf("%s: afterwards it names %q", name, news)
		}
	}
	w := Watch{Window: 4 * second, Places: onHosts(3, 1)}
	late := func(now time.Duration) string {
		for i, in := range []time.Duration{10 * second, 10 * second, 0} {
			w.Hear(now, 20*second+now, []job.Waits{{ID: i, State: job.Measured, Seq: 7, Inside: in}})
		}
		return w.News(now, 3, plain)
	}
	if ranks, _ := w.Suspects(); late(0) != "" || len(ranks) > 0 {
		t.Errorf("before it is told of, rank %v is a suspect", ranks)
	}
	line := late(second)
	ranks, share := w.Suspects()
	if line == "" || !slices.Equal(ranks, []int{2}) || share != 1 {
		t.Errorf("%q, %v, %v", line, ranks, share)
	}
	if line := w.Opine(2*second, []int{2}, opinion, plain); line != "rank 2: "+says {
		t.Errorf("of one who is late it says %q", line)
	}
	if before := w.Before(2*second, 3, plain); !strings.HasSuffix(before, "; "+says) {
		t.Errorf("before the end %q", before)
	}
}

// Whatever call of MPI lasts is told of while it does, and who is in none: no such run is "not measured".
func TestUnderway(t *testing.T) {
	in := func(call string, since time.Duration) job.Waits {
		return job.Waits{State: job.Measured, Call: call, Called: since}
	}
	final := in("MPI_Finalize", 8*second)
	final.State = job.Finalized
	for name, c := range map[string]struct {
		ranks []job.Waits
		want  string
	}{
		"the first barrier": {[]job.Waits{in("MPI_Barrier", 8*second), in("MPI_Barrier", 9*second), in("", 0), in("MPI_Barrier", 7*second)},
			"ranks [0 1 3] have been in MPI_Barrier for 11 s, and rank 2 is in none"},
		"who is late waits for a message": {[]job.Waits{in("MPI_Allreduce", 8*second), in("MPI_Allreduce", 8*second), in("MPI_Recv", 2*second)},
			"ranks [0 1] have been in MPI_Allreduce for 12 s, and rank 2 in MPI_Recv for 18 s"},
		"one came first":         {[]job.Waits{in("", 0), in("MPI_Bcast", 8*second), in("", 0)}, "rank 1 has been in MPI_Bcast for 12 s, and ranks [0 2] are in none"},
		"all but one end":        {[]job.Waits{final, final, in("", 0)}, "ranks [0 1] have been in MPI_Finalize for 12 s, and rank 2 is in none"},
		"all":                    {[]job.Waits{final, final}, "ranks [0 1] have been in MPI_Finalize for 12 s"},
		"the last came just now": {[]job.Waits{in("MPI_Barrier", 8*second), in("MPI_Barrier", 19*second)}, ""},
		"nobody":                 {[]job.Waits{in("", 0), {State: job.Finalized}}, ""},
	} {
		w := Watch{Window: 60 * second}
		for i, r := range c.ranks {
			r.ID = i
			w.Hear(0, 20*second, []job.Waits{r})
		}
		want := c.want
		if want != "" {
			want += ", as one look at their calls shows"
		}
		if got := w.Underway(0, plain); got != want {
			t.Errorf("%s: %q", name, got)
		}
		if got := w.Before(0, len(c.ranks), plain); got != want {
			t.Errorf("%s, before the end: %q", name, got)
		}
		if got := w.End(len(c.ranks), plain); want != "" && got != "" {
			t.Errorf("%s, at the end: %q", name, got)
		}
		if got := w.Underway(2*time.Minute, plain); got != "" {
			t.Errorf("%s, two minutes later: %q", name, got)
		}
	}
}

// What the ranks of a run leave at their ends measures it, if it was over before anybody looked.
func TestShortRun(t *testing.T) {
	w := Watch{Window: 60 * second, Places: onHosts(3, 3)}
	for r, points := range program(12, func(_, r int) time.Duration { return second + second*b(r == 1) }, 3) {
		w.Hear(0, 24*second, []job.Waits{{ID: r, State: job.Finalized, Seq: 12, Points: points}})
	}
	if f := w.Total(3); !slices.Equal(f.Ranks, []int{1}) || f.Share < 0.4 {
		t.Errorf("%+v", f)
	}
	if got := w.End(3, plain); !strings.HasPrefix(got, "rank 1: the others waited 50 % of 22 s for it") {
		t.Error(got)
	}
	if f := w.Total(4); f.Measured {
		t.Errorf("with one that was not heard of: %+v", f)
	}
}

// A host is compared by the offset of its clock, and a difference that may be the clocks' accuses nobody.
func TestCalls(t *testing.T) {
	begun := time.Unix(1_800_000_000, 0)
	for name, c := range map[string]struct {
		late   time.Duration // rank 2 on w1
		offset Offset        // of w1
		shift  time.Duration // of w1's clock
		want   bool
	}{
		"alike":                          {},
		"late":                           {late: 300 * time.Millisecond, want: true},
		"late, by a clock that is ahead": {late: 300 * time.Millisecond, shift: time.Hour, offset: Offset{By: time.Hour, Within: time.Millisecond}, want: true},
		"a clock that is ahead":          {shift: time.Hour, offset: Offset{By: time.Hour, Within: time.Millisecond}},
		"less than the clocks agree":     {late: 300 * time.Millisecond, offset: Offset{Within: 400 * time.Millisecond}},
		"a little":                       {late: 30 * time.Millisecond},
	} {
		var calls Calls
		for rank := range 3 {
			host, offset, shift := "w0", Offset{}, time.Duration(0)
			if rank == 2 {
				host, offset, shift = "w1", c.offset, c.shift+c.late
			}
			var list []frameworks.FlightCall
			for i := range 20 {
				list = append(list, frameworks.FlightCall{Seq: uint64(i + 1), At: begun.Add(time.Duration(i)*time.Second + time.Duration(rank)*time.Millisecond + shift).UnixNano()})
			}
			calls.Hear(host, offset, frameworks.Flight{Rank: rank, Groups: []frameworks.FlightGroup{{Name: "0", Calls: list}}})
		}
		found, measured := calls.Find(10 * second)
		if !measured || (found.Share > 0) != c.want || c.want && (found.Rank != 2 || found.Host != "w1" || found.Share > 0.35) {
			t.Errorf("%s: %+v", name, found)
		}
	}
	if found, measured := (&Calls{}).Find(second); measured || found.Share > 0 {
		t.Errorf("of nobody: %+v", found)
	}
}

// Calls that an agent makes up end nothing, and cost what they are long.
func FuzzCalls(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, int64(1), uint8(3))
	f.Add([]byte{255, 0, 255, 0}, int64(-1<<63), uint8(200))
	f.Fuzz(func(t *testing.T, text []byte, step int64, ranks uint8) {
		defer cost.Watch(t, cost.Parser, len(text)*(int(ranks)+1))()
		var calls Calls
		for rank := range int(ranks%8) + 1 {
			m := frameworks.Flight{Rank: rank}
			for i, b := range text[:min(len(text), 512)] {
				if i%100 == 0 {
					m.Groups = append(m.Groups, frameworks.FlightGroup{Name: fmt.Sprint(i)})
				}
				g := &m.Groups[len(m.Groups)-1]
				g.Calls = append(g.Calls, frameworks.FlightCall{Seq: uint64(b), At: step * int64(i+rank)})
			}
			calls.Hear("w", Offset{By: time.Duration(step), Within: time.Duration(rank)}, m)
		}
		found, _ := calls.Find(time.Second)
		if found.Share < 0 || found.Share > 1 || found.Times > found.Of {
			t.Errorf("%+v", found)
		}
		_ = found.Sentence("")
	})
}
