package job

import (
	"cmp"
	"fmt"
	"strconv"
)

// Process names a process of a run for people: its rank, and the number of its job, which is 0 for the command line's.
type Process struct{ Job, Rank int }

// String is "rank 3", or "rank 0 of spawned job 1".
func (p Process) String() string {
	if p.Job == 0 {
		return fmt.Sprintf("rank %d", p.Rank)
	}
	return fmt.Sprintf("rank %d of spawned job %d", p.Rank, p.Job)
}

// Tag is what stands before its lines: "3", or "1.0".
func (p Process) Tag() string {
	if p.Job == 0 {
		return strconv.Itoa(p.Rank)
	}
	return fmt.Sprintf("%d.%d", p.Job, p.Rank)
}

// Stream is one of a process's two output streams, with the numbers of the protocol's Stream.
type Stream int

// The streams.
const (
	Stdout Stream = 0
	Stderr Stream = 1
)

func (s Stream) String() string {
	if s == Stderr {
		return "stderr"
	}
	return "stdout"
}

// Protocol is what a rank speaks to whoever started it, with the numbers of the protocol's Pmi.
type Protocol int

// The protocols.
const (
	PMI1         Protocol = 0 // or PMI-2, as the library likes
	PMI1OverPort Protocol = 1
	NoProtocol   Protocol = 2
	PMIx         Protocol = 3
	AutoProtocol Protocol = 4 // each agent looks at the program
	PMI2         Protocol = 5
)

var protocolNames = map[Protocol]string{
	PMI1: "PMI-1", PMI1OverPort: "PMI-1 over a port", PMI2: "PMI-2", PMIx: "PMIx", NoProtocol: "no protocol"}

// String is the protocol as users know it.
func (p Protocol) String() string {
	return cmp.Or(protocolNames[p], "protocol "+strconv.Itoa(int(p)))
}

// Guess is what the ranks of a program are offered that shows no MPI library, by what the command line says of the launcher that is meant. The
// zero value is none: each host guesses by what it has.
type Guess struct {
	Protocol Protocol // PMI1 or PMIx
	Firm     bool     // it counts before what the program's environment points at (MPI_HOME), too
	Why      string   // the end of a sentence, "it was started as mpiexec.hydra"; "": there is no guess
}

// Placed is a frame of a crash: as the process's own handler wrote it, "a.out+0x11a9", and where that is, "step (solver.c:41)".
type Placed struct{ Frame, Place string }

// Crash is where a process crashed, as its host tells.
type Crash struct {
	Frames []string // by its core file
	Placed []Placed
}

// OutputChunks is how many chunks of a process's output may be under way, for a window in bytes. Each costs memory on its way, and may be one byte:
// who gives bytes back must not keep as many as that.
func OutputChunks(window int) int {
	const (
		bytesPerChunk = 256 // on average at least, when many are under way
		least         = 64
		most          = 4096
	)
	return min(max(window/bytesPerChunk, least), most)
}
