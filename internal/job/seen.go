package job

import (
	"strings"
	"time"

	"github.com/mpiup/mpiup/internal/idset"
)

// What agents see ranks do, as both sides know it; internal/api/v1 has its form in messages.
//
//	Activity  what ranks of a job have done between two looks      agent/look  ══▶ launcher/hang
//	Waits     how long a rank has waited in MPI, and what it did   agent/watch ══▶ launcher/slow

// Activity is what ranks have done, by id.
type Activity struct {
	Works, Busy, Idle idset.Set
	Places            []Place
	Looked            Looked // at what of all of them
}

// Place is where some of the idle ones wait.
type Place struct {
	Where string
	IDs   idset.Set
}

// Bounds of an Activity.
const (
	MaxPlaces = 16  // that are told apart
	MaxWhere  = 160 // bytes
)

// Looked is at what of ranks an agent has looked, as bits.
type Looked uint8

// The bits, with the numbers that they have in messages.
const (
	AtOutput Looked = 1 << iota
	AtIO
	AtSockets
	AtGPUs
	AtPMI
)

// String is what of these ranks have not done, as "output, I/O or PMI".
func (l Looked) String() string {
	var parts []string
	for i, name := range []string{"output", "I/O", "network traffic", "GPU", "PMI"} {
		if l&(1<<i) != 0 {
			parts = append(parts, name)
		}
	}
	if len(parts) < 2 {
		return strings.Join(parts, "")
	}
	return strings.Join(parts[:len(parts)-1], ", ") + " or " + parts[len(parts)-1]
}

// WatchState says how far a rank's MPI is, as the library that is before it sees it.
type WatchState uint8

// The states, with the numbers that they have in messages.
const (
	Unwatched WatchState = iota // MPI_Init was not called through the library: it may be linked into the program, or not yet due
	Measured                    // between MPI_Init and MPI_Finalize
	Finalized                   // MPI_Finalize was called
	Unknown                     // an MPI library whose MPI_COMM_WORLD nobody knows
	Lost                        // more non-blocking collectives at once than the library follows: numbers of collectives are off
)

// A WaitPoint says how long a rank had waited when its Seq-th collective over all ranks was over, by its host's clock.
type WaitPoint struct {
	Seq    uint64
	Waited time.Duration // inside those collectives, since MPI_Init
	Other  time.Duration // inside other calls that wait
	Loose  uint64        // how many of the Seq did not make this rank wait for all
	At     time.Duration
}

// Waits are of one rank. Sums count from its start, and moments are of its host's CLOCK_MONOTONIC.
type Waits struct {
	ID        int // in the run
	State     WatchState
	Seq       uint64        // collectives over all ranks that are over
	Partial   uint64        // and over some
	Inside    time.Duration // since when it is in one over all, or in MPI_Finalize; 0: it is in none
	Elsewhere time.Duration // and in another call that waits, for a neighbour as a rule
	Call      string        // of MPI that it is in, of those that wait; "": none
	Called    time.Duration // since when
	Points    []WaitPoint   // ascending by Seq
	Step      time.Duration // from one step to the next, by when it calls NCCL; 0: that does not show
	StepCalls uint32        // of NCCL's in one; where Step is 0, of late, and 0: none
	RankWork
}

// RankWork is what a rank did besides waiting in MPI, and its container with it. Parts that do not show are 0.
type RankWork struct {
	CPU      time.Duration // used by all its threads
	Queued   time.Duration // its threads were ready, and had no processor
	Blocked  time.Duration // it waited for block devices
	ReadBack uint64        // pages that came from storage, since they were not in memory
	Far      float64       // share of its memory that is on NUMA nodes where it has no processor, now
	GPU      Slow          // why its GPUs are held back, now
	Segments uint64        // of TCP that it sent, as far as its sockets are open, else its container
	Resent   uint64        // and sent again

	// Of its container alone, or its host.
	Throttled  time.Duration // it was kept from running, by its quota
	Memory     time.Duration // its tasks waited for memory, by pressure stall information
	Storage    time.Duration // and for storage
	LinkErrors uint64        // that HCAs counted
	MHz        uint32        // of its processors, now
}
