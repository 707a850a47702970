package slow

import (
	"cmp"
	"slices"
	"time"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/job"
)

// unsteady is by how much a sum may fall: each look at a rank takes the pace of its ticks anew.
const unsteady = 5 * time.Millisecond

// Limits of what is said.
const (
	Enough   = 0.10 // of the time, that others lost: less is not told
	Held     = 0.80 // of the lost time and of the blocks that one rank, or one set of ranks, must stand for
	block    = 12   // parts that a window is cut into, where there are points enough
	fewest   = 8    // blocks that a name needs: of four that agree by chance, one in eight runs of two ranks has some
	fewOfTwo = 10   // and of two ranks, each of which is the one in half of all blocks
	gap      = 0.25 // of the others' wait: who waits no more than that belongs to those who wait least
	together = 2    // those who wait least are at most one in so many ranks
	steady   = 0.4  // of what a block costs on average, that it must cost to count: a rank that saves now and then is no slow one
)

// A Finding is what a window shows.
type Finding struct {
	Measured bool          // there were points enough to say anything
	Ranks    []int         // that the others wait for, ascending; empty: nobody
	By       idset.Set     // who says that it waits for those
	Alleged  bool          // Ranks may not be named: too little bears out what By say of themselves (launcher/witness)
	Share    float64       // of the window that the others waited for them, 0 to 1
	Unclear  float64       // share of the window that the ranks waited in calls that do not show for whom, half of them at least so long
	Crowded  float64       // share of the window that all ranks alike were ready to run and had no processor: nobody is named for what that explains
	Moves    bool          // the others wait for Share of it, but for one now and another then
	Window   time.Duration // that was looked at
	Cause    Reason        // of the first of Ranks
}

// Find looks at one window: the points of each rank by its number, ascending by Seq.
func Find(ranks map[int][]job.WaitPoint, window time.Duration) (f Finding) {
	if len(ranks) < 2 {
		return f
	}
	blocks := cut(common(ranks), ranks, window)
	if len(blocks) < fewest || len(ranks) == 2 && len(blocks) < fewOfTwo {
		return f
	}
	f.Measured = true
	var lost, unclear time.Duration
	by := map[int][]time.Duration{} // what the others lost in each block in which this rank was among those that waited least
	more := map[int]time.Duration{} // that each waited, than who waited least
	for _, b := range blocks {
		f.Window += b.long
		unclear += b.other
		late, each := b.late()
		lost += each
		for _, r := range late {
			by[r] = append(by[r], each)
		}
		for _, p := range b.parts {
			more[p.rank] += min(p.waited-b.parts[0].waited, 2*each)
		}
	}
	f.Share, f.Unclear = share(lost, f.Window), share(unclear, f.Window)
	if f.Share < Enough {
		f.Share = 0
		return f
	}
	usual := time.Duration(steady * float64(lost) / float64(len(blocks)))
	for r, list := range by {
		held, sum := 0, time.Duration(0)
		for _, each := range list {
			sum += each
			if each >= usual {
				held++
			}
		}
		if float64(sum) >= Held*float64(lost) && float64(held) >= Held*float64(len(blocks)) {
			f.Ranks = append(f.Ranks, r)
		}
	}
	slices.Sort(f.Ranks)
	for r, waited := range more {
		if 2*waited >= lost && !slices.Contains(f.Ranks, r) {
			f.By.Add(r)
		}
	}
	f.Moves = len(f.Ranks) == 0
	return f
}

func share(part, whole time.Duration) float64 {
	if whole <= 0 {
		return 0
	}
	return min(1, float64(part)/float64(whole))
}

// common are the numbers that every rank has a point of, ascending.
func common(ranks map[int][]job.WaitPoint) (seqs []uint64) {
	count := map[uint64]int{}
	for _, points := range ranks {
		for _, p := range points {
			count[p.Seq]++
		}
	}
	for seq, n := range count {
		if n == len(ranks) {
			seqs = append(seqs, seq)
		}
	}
	slices.Sort(seqs)
	return seqs
}

// A part is what one rank did between two numbers.
type part struct {
	rank          int
	waited, other time.Duration
}

func (p part) all() time.Duration { return p.waited + p.other }

type stretch struct {
	long  time.Duration // of the rank in the middle
	other time.Duration // in other calls, of the rank in the middle
	parts []part        // by rank's wait, the least first
}

// cut makes blocks of about a twelfth of the window each, from one common number to another. A block in which a rank need not have waited
// for all is left out: it says nothing of who came late.
func cut(seqs []uint64, ranks map[int][]job.WaitPoint, window time.Duration) (blocks []stretch) {
	at := map[int]map[uint64]job.WaitPoint{}
	for r, points := range ranks {
		at[r] = map[uint64]job.WaitPoint{}
		for _, p := range points {
			at[r][p.Seq] = p
		}
	}
	for from := 0; from+1 < len(seqs); {
		to := from + 1
		b, strict := between(at, seqs[from], seqs[to])
		for b.long < window/block && to+1 < len(seqs) {
			to++
			b, strict = between(at, seqs[from], seqs[to])
		}
		if strict {
			blocks = append(blocks, b)
		}
		from = to
	}
	return blocks
}

func between(at map[int]map[uint64]job.WaitPoint, from, to uint64) (b stretch, strict bool) {
	strict = true
	var long, other []time.Duration
	for r, points := range at {
		p, q := points[from], points[to]
		waited, more := q.Waited-p.Waited, q.Other-p.Other
		strict = strict && p.Loose == q.Loose && q.At > p.At && min(waited, more) >= -unsteady
		long, other = append(long, q.At-p.At), append(other, max(more, 0))
		b.parts = append(b.parts, part{rank: r, waited: min(max(waited, 0), q.At-p.At), other: max(more, 0)})
	}
	slices.Sort(long)
	slices.Sort(other)
	b.long, b.other = long[len(long)/2], max(0, other[len(other)/2])
	slices.SortFunc(b.parts, func(x, y part) int { return cmp.Or(cmp.Compare(x.waited, y.waited), cmp.Compare(x.rank, y.rank)) })
	return b, strict
}

// late are the ranks that waited least, where they stand apart from most, and what half of the others lost by them at least. In calls between
// two they must have waited less than the others too: the last stage of a pipeline comes late each time, since it waits for the one before it.
func (b stretch) late() (late []int, each time.Duration) {
	n := len(b.parts)
	least, middle := b.parts[0].waited, b.parts[n/2].waited
	apart := time.Duration(gap * float64(middle-least))
	first := slices.IndexFunc(b.parts, func(p part) bool { return p.waited > least+apart })
	if middle == least || first*together > n {
		return nil, 0
	}
	own := b.parts[0].all()
	for _, p := range b.parts[:first] {
		own = min(own, p.all())
	}
	for _, p := range b.parts[:first] {
		if p.all() <= own+apart {
			late = append(late, p.rank)
		}
	}
	slices.Sort(late)
	others := b.parts[first:]
	each = others[(len(others)-1)/2].waited - least
	slices.SortFunc(others, func(x, y part) int { return cmp.Compare(x.all(), y.all()) })
	if each = min(each, others[(len(others)-1)/2].all()-own); each <= 0 {
		return nil, 0
	}
	return late, each
}
