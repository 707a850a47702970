package frameworks

import "github.com/mpiup/mpiup/internal/idset"

// Flight is what torch's flight recorder has of one process's collectives. Ranks are torch's, which counts them by itself.
type Flight struct {
	Rank   int
	Groups []FlightGroup
}

// FlightGroup is what a process has called in one of its groups.
type FlightGroup struct {
	Name, What string
	Ranks      idset.Set    // its members; empty: unknown
	Last       uint64       // the number of its last call
	Ops        []FlightOp   // the last that has ended, and the first that have not, ascending
	Calls      []FlightCall // the last ones, ascending
}

// FlightCall is when the process called a collective, by its host's wall clock.
type FlightCall struct {
	Seq uint64
	At  int64 // Unix nanoseconds
}

// FlightOp is one operation.
type FlightOp struct {
	Seq   uint64
	Name  string // "nccl:all_reduce"
	Shape string // of what goes in: "[[8, 2]] Float"
	Done  bool
	Where string // the innermost line of the program, "train.py:31 step"; "": unknown
}

// Bytes is how much memory it takes, about: what one host may tell of is bounded by it on both sides.
func (f Flight) Bytes() int {
	const entry = 64
	n := entry
	for _, g := range f.Groups {
		n += entry + len(g.Name) + len(g.What) + (g.Ranks.Last()+8)/8 + 16*len(g.Calls)
		for _, o := range g.Ops {
			n += entry + len(o.Name) + len(o.Shape) + len(o.Where)
		}
	}
	return n
}
