package slow

import (
	"fmt"
	"slices"
	"time"

	"github.com/mpiup/mpiup/internal/job"
)

// A Cause is what a slow rank did that the others did not, as far as it shows.
type Cause uint8

// The causes. The first five are times, of which Reason has the share.
const (
	Unclear   Cause = iota
	Throttled       // its container was kept from running by its CPU quota
	Queued          // it was ready to run, and others had the processors
	Blocked         // it waited for block devices
	Memory          // its container waited for memory
	Storage         // its container waited for storage
	HeldBack        // its GPU's hardware holds its clocks back
	Far             // it ran all the time, and its memory is on another NUMA node than its processors
	Clock           // it ran all the time, on processors that are slower than those of others now
	Busy            // it ran all the time: it has more to do, or a slower processor
	Paging          // it rested or waited for storage, and its pages came from there
	Links           // it rested, and its host's adapters counted errors
	Resent          // it rested, and TCP had to send again
	Still           // it neither ran nor waited for any of these
)

// Reason is a cause, and how large it was.
type Reason struct {
	Cause Cause
	Share float64 // of the window; of Resent, of all segments
	Count float64 // pages a second, errors, MHz; of Far, the share of its memory
	Usual float64 // of the others: MHz, share of memory
	GPU   job.Slow
}

// Limits of what is taken for a cause.
const (
	explains = 0.5  // of the lost time, that it must be
	differs  = 2    // times as much as the others'
	running  = 0.9  // of the time that it did not wait, in which it ran
	slower   = 0.85 // of the others' frequency
	far      = 0.5  // of its memory, at least, on other NUMA nodes
	farther  = 0.6  // of the time, that such memory can cost at most: the most distant nodes of machines known take two and a half times as long
	paging   = 50   // pages a second
	resent   = 0.01 // of all segments
	apart    = 4    // times as much as others
)

// timed are the causes that are times.
var timed = [...]Cause{Throttled, Queued, Blocked, Memory, Storage}

// did is what a rank did in its last window.
type did struct {
	shares        [len(timed)]float64
	cpu           float64
	pages, resent float64
	errors, mhz   float64
	far           float64
	gpu           job.Slow
}

// beside is what the first of the named ranks did, and what the others usually did.
func (w *Watch) beside(f Finding) (its did, usual func(of func(did) float64) float64, known bool) {
	its, known = w.did(f.Ranks[0])
	var others []did
	for id := range w.ranks {
		if d, known := w.did(id); known && !slices.Contains(f.Ranks, id) {
			others = append(others, d)
		}
	}
	return its, func(of func(did) float64) float64 {
		list := []float64{0}
		if len(others) > 0 {
			list = list[:0]
		}
		for _, d := range others {
			list = append(list, of(d))
		}
		slices.Sort(list)
		return list[len(list)/2]
	}, known
}

// crowded is for what share of the time all ranks alike were ready to run and had no processor, where that explains what the others lost: chance
// says then who comes last, and nobody is to blame. Else it is 0.
func (w *Watch) crowded(f Finding) float64 {
	its, usual, _ := w.beside(f)
	queued := func(d did) float64 { return d.shares[Queued-Throttled] }
	if theirs := usual(queued); queued(its) >= explains*f.Share && queued(its) < differs*theirs {
		return theirs
	}
	return 0
}

// cause finds what explains that the others wait for the named ranks: it differs from the others', and is as large as what they lost.
func (w *Watch) cause(f Finding) Reason {
	its, usual, known := w.beside(f)
	if !known {
		return Reason{}
	}
	paged := its.pages >= paging && its.pages >= apart*usual(func(d did) float64 { return d.pages })
	for i, c := range timed {
		theirs := usual(func(d did) float64 { return d.shares[i] })
		if its.shares[i] >= differs*theirs && its.shares[i]-theirs >= explains*f.Share {
			if paged && (c == Blocked || c == Storage) {
				return Reason{Cause: Paging, Share: its.shares[i], Count: its.pages}
			}
			return Reason{Cause: c, Share: its.shares[i]}
		}
	}
	if its.gpu != 0 && usual(func(d did) float64 { return float64(d.gpu) }) == 0 {
		return Reason{Cause: HeldBack, GPU: its.gpu}
	}
	waited := w.ranks[f.Ranks[0]].waited()
	if its.cpu+waited >= running {
		if mhz := usual(func(d did) float64 { return d.mhz }); its.mhz > 0 && its.mhz <= slower*mhz {
			return Reason{Cause: Clock, Share: its.cpu, Count: its.mhz, Usual: mhz}
		}
		if others := usual(func(d did) float64 { return d.far }); its.far >= far && its.far >= differs*others && f.Share <= farther {
			return Reason{Cause: Far, Share: its.cpu, Count: its.far, Usual: others}
		}
		return Reason{Cause: Busy, Share: its.cpu}
	}
	rest, held := 1-its.cpu-waited, 0.0
	for _, s := range its.shares[:3] { // of its own
		held += s
	}
	errors := usual(func(d did) float64 { return d.errors })
	again := usual(func(d did) float64 { return d.resent })
	switch {
	case rest < explains*f.Share || held >= rest/2:
		return Reason{}
	case paged:
		return Reason{Cause: Paging, Share: rest, Count: its.pages}
	case its.errors > 0 && errors == 0:
		return Reason{Cause: Links, Share: rest, Count: its.errors}
	case its.resent >= resent && its.resent >= apart*again:
		return Reason{Cause: Resent, Share: its.resent}
	}
	return Reason{Cause: Still, Share: rest}
}

// did is of the last window; not known: there was one look only.
func (w *Watch) did(id int) (d did, known bool) {
	works := w.ranks[id].works
	if len(works) < 2 {
		return d, false
	}
	a, b := works[0], works[len(works)-1]
	long := b.at - a.at
	if long <= 0 {
		return d, false
	}
	part := func(to, from time.Duration) float64 { return max(0, float64(to-from)/float64(long)) }
	more := func(to, from uint64) float64 { return float64(max(to, from) - from) }
	d.shares = [...]float64{
		part(b.Throttled, a.Throttled),
		part(b.Queued, a.Queued),
		part(b.Blocked, a.Blocked),
		part(b.Memory, a.Memory),
		part(b.Storage, a.Storage),
	}
	d.cpu, d.gpu, d.far = part(b.CPU, a.CPU), b.GPU, b.Far
	d.pages, d.errors = more(b.ReadBack, a.ReadBack)/long.Seconds(), more(b.LinkErrors, a.LinkErrors)
	if sent := more(b.Segments, a.Segments); sent > 0 {
		d.resent = more(b.Resent, a.Resent) / sent
	}
	for _, m := range works {
		d.mhz += float64(m.MHz) / float64(len(works))
	}
	return d, true
}

// waited is the share of its last window that a rank spent waiting in MPI.
func (t *track) waited() float64 {
	if len(t.Points) < 2 {
		return 0
	}
	a, b := t.Points[0], t.Points[len(t.Points)-1]
	return share(b.Waited-a.Waited+b.Other-a.Other, b.At-a.At)
}

// String is what a table has room for.
func (c Cause) String() string {
	return [...]string{"-", "CPU quota", "run queue", "block I/O", "memory", "storage", "GPU held back", "far memory", "slow clock", "computes",
		"pages from storage", "link errors", "TCP resends", "still"}[c]
}

// Sentence is what follows the sentence that names a rank.
func (r Reason) Sentence() string {
	share := fmt.Sprintf("%.0f %% of that time", 100*min(r.Share, 1))
	switch r.Cause {
	case Throttled:
		return "; its container was throttled " + share + ": raise its CPU limit"
	case Queued:
		return "; its threads were ready to run " + share + ", and others had the processors: look for what else runs there"
	case Blocked:
		return "; it waited for storage " + share
	case Memory:
		return "; its container waited for memory " + share + ": raise its memory limit"
	case Storage:
		return "; its container waited for storage " + share
	case HeldBack:
		return fmt.Sprintf("; its GPU's hardware holds its clocks back (%v)", r.GPU)
	case Far:
		return fmt.Sprintf("; it was computing, with %.0f %% of its memory on another NUMA node than its processors, of the others' %.0f %%: see mpiup help binding",
			100*r.Count, 100*r.Usual)
	case Clock:
		return fmt.Sprintf("; it was computing, on processors at %.0f MHz where the others' run at %.0f", r.Count, r.Usual)
	case Busy:
		return "; it was computing: it has more to do than the others, or a slower processor"
	case Paging:
		return fmt.Sprintf("; %.0f of its pages a second came from storage: its memory does not hold what it uses, or it maps files", r.Count)
	case Links:
		return fmt.Sprintf("; its host's adapters counted %.0f errors meanwhile: look at the port and the cable", r.Count)
	case Resent:
		return fmt.Sprintf("; TCP sent %.1f %% of its segments again: its network loses some", 100*r.Share)
	case Still:
		return "; it neither computed nor waited for a processor or storage " + share
	}
	return ""
}
