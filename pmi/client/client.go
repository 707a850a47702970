// Package client says which process of this host speaks as a rank, and whether another one may.
//
//	rank N's client: MPI_Init ──▶ in MPI ──▶ MPI_Finalize, or its end
//	                                │
//	a second process says that it is rank N: refused meanwhile
//
// What a rank starts (subprocess, system, a shell's "&") inherits the variables by which MPI finds its server, and with
// PMI_FD the very connection. If such a process is an MPI program, too, it says that it is the rank that started it. Two
// processes that put, fetch and enter fences as one rank break each other: with Open MPI they map shared memory of the
// same names, and both crash. So the second one is refused before it learns or changes anything. One after the other is
// fine, as in a script of two MPI programs.
//
// A process is known by its number and its start, as /proc tells them. Where that does not show, nobody is refused.
//
// The package keeps nothing but what a connection has told last, and asks /proc for nothing: its caller does.
package client

// Process is a process of this host. The zero value is one that is not known.
type Process struct {
	PID   int
	Start uint64 // starttime of /proc/PID/stat, which tells it from a later one of that number; 0: not known
}

// Known says that it is known which process it is.
func (p Process) Known() bool { return p.PID > 0 }

// Is says that both are one process, as far as they are known.
func (p Process) Is(other Process) bool {
	sameStart := p.Start == other.Start || p.Start == 0 || other.Start == 0
	return p.Known() && p.PID == other.PID && sameStart
}

// Excludes says that a process which is in MPI for a rank keeps another one from being that rank, too: it is another
// process for sure, and lives. Several clients of one process are welcome, such as one for each session of MPI.
func (p Process) Excludes(second Process, lives func(Process) bool) bool {
	known := p.Known() && second.Known() && lives != nil
	return known && !p.Is(second) && lives(p)
}

// Second is a process that said that it is a rank for which another process is in MPI.
type Second struct {
	Rank          int // as the server counts that tells of it: in the job, or in the run
	First, Second Process
}
