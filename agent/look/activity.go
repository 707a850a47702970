package look

import (
	"maps"
	"slices"
	"time"

	"github.com/mpiup/mpiup/internal/job"
)

// Judge and Count say of ranks whether they work, by two samples of what they have used: samples in, classes out.
//
//	before, now ──Judge──▶ Works   it wrote, read, moved bytes through its sockets, touched new pages, had an answer of a disk, used a GPU,
//	                               or its MPI library came further
//	                       Busy    it used CPU, and nothing else shows: it computes, or waits actively for a message
//	                       Idle    nothing of that
//
// Busy is not told apart further: a rank in a barrier of Open MPI or MPICH looks as one that computes. Whoever joins the ranks of a
// job makes something of that (launcher/hang).

// Sample is what a rank and all that descends from it have done up to a moment.
type Sample struct {
	CPU     time.Duration
	IO      uint64            // bytes, by calls and of storage
	Faults  uint64            // pages
	Delay   time.Duration     // it waited for block devices that have answered
	Traffic map[uint64]uint64 // bytes of each of its TCP sockets; nil: nobody looked at them
	Output  uint64            // changes with each output
	Library uint64            // changes with what its MPI library says to its server
	GPU     bool              // a GPU that it may use worked at that moment
	Running bool              // it ran or was ready to run at that moment: it may be short of CPU
	Where   string            // it waits; "": unknown
}

// Class is what a rank has done between two samples.
type Class uint8

// The classes.
const (
	Idle Class = iota
	Busy
	Works
)

// Bounds below which use is none: threads that look at a clock, or write a line of a journal, are no work.
const (
	littleCPU = 0.02    // of a processor
	littleIO  = 4 << 10 // bytes between two samples, of one socket or of all files: beats of a heart are less
	fewFaults = 3.2     // a second: a mapped file comes by up to 2 MiB a fault
	minFaults = 2       // between two samples: one that hangs has none
)

// Judge is what a rank has done between two samples, the time apart.
func Judge(before, now Sample, apart time.Duration) Class {
	switch {
	case now.Output != before.Output, now.Library != before.Library, now.GPU, now.IO > before.IO+littleIO,
		now.Faults > before.Faults+minFaults+uint64(fewFaults*apart.Seconds()), now.Delay > before.Delay, movedSince(before.Traffic, now.Traffic):
		return Works
	case now.Traffic != nil && before.Traffic == nil: // what its sockets moved meanwhile is not known
		return Busy
	case now.Running, (now.CPU - before.CPU).Seconds() > littleCPU*apart.Seconds():
		return Busy
	}
	return Idle
}

// movedSince says that a socket has moved more than a little since. One that was not there before had moved nothing.
func movedSince(before, now map[uint64]uint64) bool {
	if before == nil {
		return false
	}
	for inode, n := range now {
		if n > before[inode]+littleIO {
			return true
		}
	}
	return false
}

// Count judges ranks by two looks; one that is not in both is left out.
func Count(before, now map[int]Sample, apart time.Duration) (a job.Activity) {
	for _, id := range slices.Sorted(maps.Keys(now)) {
		old, known := before[id]
		if !known {
			continue
		}
		switch Judge(old, now[id], apart) {
		case Works:
			a.Works.Add(id)
		case Busy:
			a.Busy.Add(id)
		default:
			a.Idle.Add(id)
			place(&a, now[id].Where, id)
		}
	}
	return a
}

func place(a *job.Activity, where string, id int) {
	if where == "" {
		return
	}
	where = where[:min(len(where), job.MaxWhere)]
	i := slices.IndexFunc(a.Places, func(p job.Place) bool { return p.Where == where })
	if i < 0 {
		if len(a.Places) == job.MaxPlaces {
			return
		}
		i = len(a.Places)
		a.Places = append(a.Places, job.Place{Where: where})
	}
	a.Places[i].IDs.Add(id)
}
