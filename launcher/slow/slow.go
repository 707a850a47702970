package slow

import (
	"cmp"
	"slices"
	"time"
)

// A Point is what a rank said at its Seq-th collective over all ranks: sums since MPI_Init, and when, by its own host's clock.
type Point struct {
	Seq               uint64
	Waited, Other, At time.Duration
	Loose             uint64
}

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
)

// A Finding is what a window shows.
type Finding struct {
	Measured bool          // there were points enough to say anything
	Ranks    []int         // that the others wait for, ascending; empty: nobody
	Share    float64       // of the window that the others waited for them, 0 to 1
	Unclear  float64       // share of the window that the ranks waited in calls that do not show for whom, half of them at least so long
	Moves    bool          // the others wait for Share of it, but for one now and another then
	Window   time.Duration // that was looked at
	Cause    Reason        // of the first of Ranks
}

// Find looks at one window: the points of each rank by its number, ascending by Seq.
func Find(ranks map[int][]Point, window time.Duration) (f Finding) {
	if len(ranks) < 2 {
		return f
	}
	blocks := cut(common(ranks), ranks, window)
	if len(blocks) < fewest || len(ranks) == 2 && len(blocks) < fewOfTwo {
		return f
	}
	f.Measured = true
	var lost, unclear time.Duration
	by := map[int]time.Duration{} // what the others lost while this rank was among those that waited least
	held := map[int]int{}
	for _, b := range blocks {
		f.Window += b.long
		unclear += b.other
		late, each := b.late()
		if late == nil {
			continue
		}
		lost += each
		for _, r := range late {
			by[r] += each
			held[r]++
		}
	}
	f.Share, f.Unclear = share(lost, f.Window), share(unclear, f.Window)
	if f.Share < Enough {
		f.Share = 0
		return f
	}
	for r, t := range by {
		if float64(t) >= Held*float64(lost) && float64(held[r]) >= Held*float64(len(blocks)) {
			f.Ranks = append(f.Ranks, r)
		}
	}
	slices.Sort(f.Ranks)
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
func common(ranks map[int][]Point) (seqs []uint64) {
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

type stretch struct {
	long  time.Duration // of the rank in the middle
	other time.Duration // in other calls, of the rank in the middle
	parts []part        // by rank's wait, the least first
}

// cut makes blocks of about a twelfth of the window each, from one common number to another. A block in which a rank need not have waited
// for all is left out: it says nothing of who came late.
func cut(seqs []uint64, ranks map[int][]Point, window time.Duration) (blocks []stretch) {
	at := map[int]map[uint64]Point{}
	for r, points := range ranks {
		at[r] = map[uint64]Point{}
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

func between(at map[int]map[uint64]Point, from, to uint64) (b stretch, strict bool) {
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

// late are the ranks that waited least, where they stand apart from most, and what half of the others lost by them at least.
func (b stretch) late() (late []int, each time.Duration) {
	n := len(b.parts)
	least, middle := b.parts[0].waited, b.parts[n/2].waited
	edge := least + time.Duration(gap*float64(middle-least))
	var first []part
	for _, p := range b.parts {
		if p.waited <= edge {
			first = append(first, p)
		}
	}
	if len(first)*together > n || middle == least {
		return nil, 0
	}
	for _, p := range b.theirs(first, middle-least) {
		late = append(late, p.rank)
	}
	slices.Sort(late)
	others := b.parts[len(first):]
	return late, others[(len(others)-1)/2].waited - least
}

// theirs are those of first that did not wait elsewhere: a rank that came late since it waited for a neighbour is no cause. Where all
// waited alike, all stay.
func (b stretch) theirs(first []part, apart time.Duration) (kept []part) {
	least := first[0].waited + first[0].other
	for _, p := range first {
		least = min(least, p.waited+p.other)
	}
	for _, p := range first {
		if p.waited+p.other <= least+time.Duration(gap*float64(apart)) {
			kept = append(kept, p)
		}
	}
	return kept
}
