// Package job holds the vocabulary that launcher and agent share: what a user asked for
// (App), where each rank goes (Plan), what a process is called (Process), how it ended (Exit), what a rank wants started
// (Spawn), the default times of a run, and mpiup's own exit codes. PURE; values are shared by whoever only reads them. It does nothing
// beyond small conversions.
package job

import (
	"fmt"
	"slices"
	"time"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/layout"
)

// The defaults of a run's times.
const (
	DefaultWait        = 5 * time.Minute  // for all hosts to answer
	DefaultLease       = 60 * time.Second // how long an agent keeps ranks of a silent launcher
	DefaultNodeTimeout = 30 * time.Second // silence after which a host is given up
	DefaultGrace       = 5 * time.Second  // between TERM and KILL after a failure
	DefaultTermGrace   = 25 * time.Second // of the 30 s that Kubernetes gives a pod by default
)

// MaxRestarts bounds how often a user may have ranks started again.
const MaxRestarts = 10000

// Elastic is how many ranks a job may have, where hosts come and go. The zero value: as many as were asked for, always.
type Elastic struct {
	Min      int           // fewer are never started; 0: the job is not elastic
	Begin    int           // as many are waited for at first; 0: all hosts that are known
	Max      int           // more are never started; 0: no limit
	LastCall time.Duration // how long other hosts are waited for, once those for Min are here
}

// Loss is what becomes of ranks when their launcher is lost.
type Loss struct {
	Said bool          // the user said so
	Hold time.Duration // they live on for so long, for another launcher with the same command; 0: they end
}

// On says that a job's size may change.
func (e Elastic) On() bool { return e.Min > 0 }

// Rank is a process's number in its job (MPI_COMM_WORLD), from 0.
type Rank int

// App is one program of a job; an MPMD job has several (":" on the command line).
type App struct {
	Argv         []string // program and arguments, at least one
	N            int      // ranks; 0: not given
	Env          []string // NAME=value from -x, over the host's environment
	Wdir         string   // working directory on every host
	WdirExplicit bool     // a missing Wdir is an error instead of a fallback
	On           []Share  // the hosts it may use; empty: all
	Program      *File    // the program itself is copied to the hosts; nil: they have it
	Files        []File   // that are copied to the hosts too
	SessionDir   bool     // runs in the directory of copied files, unless WdirExplicit
	Path         string   // where hosts look for the program before their PATH
	AlsoWdir     bool     // a name that is not on PATH is looked for in Wdir
	IndexArgv    bool     // the program sees its name with "-RANK" behind it
	Tools        []Tool   // the first that names a rank stands before the program
}

// Tool is a program that starts another one: its words come first.
type Tool struct {
	Argv  []string
	Ranks idset.Set // empty: all
}

// File is a file of the launcher's host that hosts get before their ranks start.
type File struct {
	From string // on the launcher's host
	Name string // on the others: absolute, or below the session's directory
}

// Share is a host that a program may use.
type Share struct {
	Host  string
	Slots int // that it may take there; 0: the host's own
}

// Host is a host as the allocation knows it: an agent, never an address.
type Host struct {
	Name       string `json:"name"`
	Slots      int    `json:"slots"`           // ranks it takes; at least 1 once allocated
	SlotsGiven bool   `json:"given,omitempty"` // by hostfile or ":N", so going over needs Oversubscribe
	CPUs       int    `json:"cpus,omitempty"`  // usable hardware threads; 0: unknown
	// Layout is where those lie; nil: unknown.
	Layout *layout.Layout `json:"-"`
	// NearGPUs is the CPUs near the GPU of each local rank, usable or not, which further ranks share in
	// turn; none: it has no GPU.
	NearGPUs []idset.Set `json:"-"`
}

// Placement is one rank's place.
type Placement struct {
	Rank      Rank
	App       int // index into the job's apps
	Host      int // index into Plan.Hosts
	LocalRank int // among the ranks of its host
	// CPUs are what it is bound to, by the kernel's numbers; empty: not bound.
	CPUs idset.Set
}

// Plan maps every rank of a job to a host. Placements are in order of rank; Hosts holds only
// hosts that got ranks, and a host's index there is its node rank.
type Plan struct {
	Hosts      []Host
	Placements []Placement
	Universe   int      // slots of all allocated hosts (MPI_UNIVERSE_SIZE)
	Warnings   []string // said once to the user
	Unbound    string   // why nobody is bound although nobody said so; "": somebody is, or was not to be
}

// Exit is how a process ended.
type Exit struct {
	Code   int // 0-255, when Signal is 0
	Signal int // terminating signal, 0 if it exited
	Core   bool
}

// Status is the shell's way to say it: the code, or 128+signal.
func (e Exit) Status() int {
	if e.Signal != 0 {
		return 128 + e.Signal
	}
	return e.Code
}

func (e Exit) String() string {
	if e.Signal != 0 {
		return fmt.Sprintf("signal %d", e.Signal)
	}
	return fmt.Sprintf("exit code %d", e.Code)
}

// On are the ranks of each of the plan's hosts.
func (p *Plan) On() []idset.Set {
	ranks := make([]idset.Set, len(p.Hosts))
	for _, at := range p.Placements {
		ranks[at.Host].Add(int(at.Rank))
	}
	return ranks
}

// Across is where a process stands among those of its local rank on other hosts, as Horovod counts.
type Across struct{ Rank, Size int }

// Across is that of each placement.
func (p *Plan) Across() []Across {
	hosts := map[int][]int{} // of a local rank, in the order of the job's
	for _, at := range p.Placements {
		hosts[at.LocalRank] = append(hosts[at.LocalRank], at.Host)
	}
	for _, list := range hosts {
		slices.Sort(list)
	}
	out := make([]Across, len(p.Placements))
	for i, at := range p.Placements {
		list := hosts[at.LocalRank]
		rank, _ := slices.BinarySearch(list, at.Host)
		out[i] = Across{rank, len(list)}
	}
	return out
}
