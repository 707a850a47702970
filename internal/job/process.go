package job

import (
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
