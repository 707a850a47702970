package layout

import "slices"

// Request is all that a user said. The zero Request is nothing.
type Request struct {
	Map  Mapping
	Rank Ranking
	Bind Target

	CPUs      CPUs   // ranks get only these of each host; nil: all
	Ordered   bool   // the Nth rank of a host is bound to the Nth of CPUs alone
	HWThreads bool   // hardware threads count as CPUs, not cores; where Map says so too
	Lines     []Line // hosts of ranks, and with a rankfile their CPUs
	Hydra     *Hydra // Hydra's way, instead of Map, Rank and Bind
}

// Asked says that binding was asked for, by whatever option.
func (r *Request) Asked() bool {
	return r.Bind.Said || r.Map.Object != None || r.Map.PE > 0 || r.CPUs != nil || r.Listed() || r.Hydra != nil
}

// Listed says that Lines have CPUs of ranks. Those of a mapping by "seq" may have none; then ranks are
// bound as if they had been mapped otherwise.
func (r *Request) Listed() bool {
	return slices.ContainsFunc(r.Lines, func(l Line) bool { return l.CPUs != nil })
}

// Mapping is --map-by.
type Mapping struct {
	Policy    string // "slot", "node", "object", "ppr", "rankfile", "seq"; "": not said
	Object    Kind   // of "object" and "ppr"; None of ppr: the host
	N         int    // of ppr: so many ranks on each
	PE        int    // so many cores for each rank; 0: as Bind says
	Span      bool   // over the objects of all hosts as if they were one's
	File      string // of "rankfile" and "seq"; "": said elsewhere
	CPUs      CPUs   // PE-LIST; nil: none
	Ordered   bool
	HWThreads bool
	NoLocal   bool
	Slots     Oversubscribe
}

// Unmapped is what is left of it where ranks are not mapped to objects.
func (m Mapping) Unmapped() Mapping {
	if m.Object != None {
		m.Policy, m.Object, m.N = "", None, 0
	}
	m.Span, m.PE = false, 0
	return m
}

// Oversubscribe says whether a host may have more ranks than slots.
type Oversubscribe int

// The choices.
const (
	Unsaid Oversubscribe = iota
	Allowed
	Forbidden
)

// Ranking is --rank-by.
type Ranking struct {
	By     string // "slot", "node", "fill", "object"; "": not said
	Object Kind   // of "object", and of "fill"; None: as mapped
	Span   bool   // over the objects of all hosts
}

// Unmapped is what is left of it where ranks are not mapped to objects.
func (r Ranking) Unmapped() Ranking {
	if r.By == "object" || r.By == "fill" {
		return Ranking{}
	}
	return r
}

// Target is --bind-to.
type Target struct {
	Said     bool
	To       Kind // None: not bound, unless List
	List     bool // to the CPUs of --cpu-set
	Ordered  bool // each rank to one of them
	Overload bool // more ranks than CPUs may share an object
}
