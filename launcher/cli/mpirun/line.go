package mpirun

import (
	"time"

	"github.com/mpiup/mpiup/internal/hostlist"
)

// Family is whose command line it is.
type Family string

// The families.
const (
	OpenMPI Family = "Open MPI"
	Hydra   Family = "Hydra"
)

// Line is what a command line said.
type Line struct {
	Family   Family
	Contexts []Context // the programs; none for Version and Help

	Entries       []hostlist.Entry // the hosts of -H, -hosts or a file; nil: none were named
	Oversubscribe bool
	NoLocal       bool   // not on the launcher's own host
	MapBy         string // "slot" or "node"; "": slot
	PerHost       int    // so many ranks a host; 0: by slots
	BindTo        string // as it was given; "": not given

	TagOutput   bool
	Timestamps  bool
	Merge       bool   // standard error goes where standard output goes
	OutputDir   string // "": none
	NoJobID     bool   // without a directory of the job's number in OutputDir
	NoCopy      bool   // nothing of the output is shown
	DisplayMap  bool
	Quiet       bool
	Verbose     int
	Stdin       string // a rank, "all" or "none"; "": rank 0
	Timeout     time.Duration
	KeepOn      bool // a rank's code other than 0 ends nothing and is nobody's fault
	ReportBinds bool
	DryRun      bool
	Version     bool
	Help        bool

	NoExport bool     // Hydra: nothing of the launcher's environment goes along
	Export   []string // Hydra: only these names of it do; nil: all
	Unset    []string // variables that ranks do not get

	Without  []string // options that were accepted and have no effect, as they were written
	Warnings []string // sentences for the user
}

// Context is one program with what stands before it.
type Context struct {
	Argv []string
	N    int      // ranks; 0: not given
	Wdir string   // "": the launcher's
	Env  []string // NAME=value
}

// Outside is what a command line refers to.
type Outside struct {
	Lookup   func(name string) (string, bool) // the launcher's environment
	Environ  []string                         // all of it
	ReadFile func(path string) ([]byte, error)
	Hostfile func(path string) ([]hostlist.Entry, error)
}

func (o *Outside) getenv(name string) string {
	v, _ := o.Lookup(name)
	return v
}
