// Package line reads a launcher's command line: options, whose rows a family hands in, then the program, and again after
// each ":". It has what Open MPI's and Hydra's launchers have in common.
//
//	Rows ─▶ Parser.Read: words ─▶ Row.Set … ─▶ steps (files, variables, hosts) ─▶ Line
//
// PURE: files are read, and variables looked up, through Outside. A Parser reads one line and belongs to one goroutine. The
// package starts nothing, and decides nothing about where ranks go.
package line

import (
	"time"

	"github.com/mpiup/mpiup/internal/hostlist"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/layout"
)

// Family is whose command line it is.
type Family string

// The families.
const (
	OpenMPI Family = "Open MPI"
	Hydra   Family = "Hydra"
)

// Other is the other family.
func (f Family) Other() Family { return map[Family]Family{OpenMPI: Hydra, Hydra: OpenMPI}[f] }

// Variable is what MPIUP_FAMILY calls it.
func (f Family) Variable() string {
	return map[Family]string{OpenMPI: "openmpi", Hydra: "hydra"}[f]
}

// Line is what a command line said.
type Line struct {
	Family   Family
	Five     bool      // by the rules of Open MPI 5; not read from the options
	Contexts []Context // the programs; none for Version and Help

	Entries       []hostlist.Entry // the hosts of -H, -hosts (all programs') or a file; nil: none were named
	Otherwise     []hostlist.Entry // hosts of a file of ranks, for where nothing else names any
	Oversubscribe bool
	NoLocal       bool   // not on the launcher's own host
	PerHost       int    // so many ranks a host, with Hydra so many at a time; 0: by slots
	ByCores       bool   // Hydra: a host takes as many ranks at a time as it has cores, whatever its number; not read from the options
	GPUsPerRank   int    // Hydra: GPUs of its host that a rank sees; 0: all
	Universe      string // Hydra's MPI_UNIVERSE_SIZE: a number, SYSTEM or INFINITE; "": INFINITE
	Binding       layout.Request

	TagOutput   bool
	TagBy       string // Open MPI 5: what a tag names, "rank", "detailed" or "fullname"; "": job and rank
	Timestamps  bool
	Merge       bool   // standard error goes where standard output goes
	OutputDir   string // "": none
	OutputName  bool   // with Open MPI 5 OutputDir is how files' names begin, not a directory
	NoJobID     bool   // without a directory of the job's number in OutputDir
	NoCopy      bool   // nothing of the output is shown
	Prepend     string // Hydra: a pattern before every line; "": none
	OutFile     string // Hydra: a pattern of files, absolute; "": none
	ErrFile     string
	DisplayMap  bool
	Bindings    bool // each rank's CPUs are shown
	Quiet       bool // no warnings
	Verbose     int
	Stdin       string // a rank, "all" or "none"; "": rank 0
	Timeout     time.Duration
	MaxRestarts int        // of the ranks, when some have failed
	KeepOn      bool       // a rank's code other than 0 ends nothing and is nobody's fault
	Recover     bool       // whatever becomes of a rank ends nothing and is nobody's fault
	Linger      bool       // Hydra: a rank that fails ends nothing; the job's code is that of the first
	ReportPID   string     // where the launcher's pid is written: "-", "+" (standard error) or a file, absolute; "": nowhere
	OutputFrom  string     // Hydra: the rank whose output is shown; "": all
	Tools       []job.Tool // Hydra: before programs
	PMIPort     bool       // Hydra: PMI-1 by PMI_PORT instead of a descriptor
	SSHArgs     string     // Open MPI: words for ssh, of which those that name a key count
	DryRun      bool
	Version     bool
	Help        bool

	ForwardAll bool // Open MPI: of the launcher's environment as much goes along as with Hydra

	Inherit Inherit // Hydra: what of the launcher's environment goes along

	Repeated string   // Open MPI: what is wrong by 4.1's rules with a parameter that has two values, and not by 5's; "": nothing
	Options  []Option // in their order
	Without  []string // what was accepted and has no effect, as it was written
	Warnings []string // sentences for the user
}

// Option is one as it was written.
type Option struct {
	Name          string
	Values, Words []string // of Words the first is the option's own
}

// Context is one program with what stands before it.
type Context struct {
	Argv    []string
	N       int              // ranks; 0: as if it was not given
	Wdir    string           // absolute; "": the launcher's
	On      []hostlist.Entry // its own hosts, of Entries; nil: all
	Env     []string         // NAME=value
	Inherit *Inherit         // Hydra: nil: the line's

	PreloadBinary bool     // the program is copied to the hosts
	PreloadFiles  []string // lists of files that are copied
	SessionDir    bool     // runs in the directory of copied files
	Path          string   // directories in which hosts look for the program before those of their PATH
	IndexArgv     bool     // the program's name has its rank behind it

	Prefix string   // Open MPI: --prefix; "" once the line is read
	Listed []string // its own lists of hosts, as written
}

// Outside is what a command line refers to; files are read, and variables looked up, through it.
type Outside struct {
	Lookup   func(name string) (string, bool) // the launcher's environment
	Environ  []string                         // all of it
	Dir      string                           // the launcher's working directory
	Host     string                           // the launcher's host
	ReadFile func(path string) ([]byte, error)
	Hostfile func(path string, d hostlist.Dialect) ([]hostlist.Entry, error)
	LookPath func(name string) (string, error) // a program on PATH
	// Operators is the hosts of the operators' hostfile; nil where there is none.
	Operators func() ([]hostlist.Entry, error)
}
