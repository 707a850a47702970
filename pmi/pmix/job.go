package pmix

import (
	"context"
	"fmt"
	"slices"

	"github.com/mpiup/mpiup/pmi/kvs"
)

// Job is one job of the run, equal on all hosts but for Here, Crowded, Getenv, Binding and what its Space holds.
type Job struct {
	*kvs.Space         // of Config.Engine
	Namespace  string  // its name in PMIx, hard to guess: who knows it was told by the job; at most 255 bytes
	Hosts      []Host  // all of them, in the order of their numbers
	Here       int     // index of this host in Hosts; -1: it has no rank here
	Apps       []int   // the program of each rank (MPI_APPNUM); nil: one program
	Universe   int     // slots of the job (MPI_UNIVERSE_SIZE); 0: as many as ranks
	MapBy      string  // how ranks were mapped, for pmix.mapby; "": not told
	Command    string  // of its programs, for PMIX_QUERY_NAMESPACE_INFO; "": not told
	Mapping    string  // PMI_process_mapping, see pmi.ProcessMapping; "": not told
	Parent     *Parent // nil: no rank spawned it

	Crowded bool // there are more ranks than processors here: they should yield while they wait
	// Getenv is what the user has set for a rank of this host, in its own program's environment or
	// the container's; "": nothing. nil: nothing for anybody.
	Getenv func(rank int, name string) string

	Binding func(rank int) (locstr, cpuset string) // of this host's ranks, see PMIX_LOCALITY_STRING; nil: not bound
}

// Parent is the rank that spawned a job.
type Parent struct{ Job, Rank int }

// Host is one machine of a job.
type Host struct {
	Name  string // as ranks see it: gethostname(2)
	Ranks []int  // ascending
}

// Hooks tell the caller what a rank did; nil ones are left out. They speak of processes by id,
// base of the job + rank. Each is called before the rank gets its answer, from the connection's
// goroutine.
type Hooks struct {
	OnInit     func(id int)
	OnFinalize func(id int)
	// OnAbort is MPI_Abort. code is as given; text is for people and may be empty; targets are
	// the processes to end, nil for the caller's whole job. The rank ends when it returns, which it
	// should once ctx has ended.
	OnAbort func(ctx context.Context, id, code int, text string, targets []int)
	// OnControl is a rank that wants processes to get a signal; with end they are to end, which is
	// no failure. nil: not supported.
	OnControl func(id int, targets []int, signal int, end bool)
	// OnError is a rank that cannot go on: *ProtocolError, *RefusedError, *UnfinishedError,
	// *kvs.GoneError (of ids) when it waits for a rank that is gone, or what the engine says. It
	// gets no answer then, so that it prints nothing of its own before it is stopped.
	OnError func(id int, err error)
	// OnLog is text that a rank wants shown with its output.
	OnLog func(id int, stderr bool, text string)
	// OnNotice is a sentence that the user should read.
	OnNotice func(text string)
	// OnEvent is an event for ranks of other hosts; their servers are given it with Notify. It may keep the
	// rank waiting that raised it.
	OnEvent func(Event)
}

const maxNamespace = 255 // PMIX_MAX_NSLEN

// validate refuses what no launcher sends.
func (j *Job) validate() error {
	switch {
	case j.Space == nil:
		return fmt.Errorf("a PMIx job without a key-value space")
	case j.Namespace == "" || len(j.Namespace) > maxNamespace:
		return fmt.Errorf("%q cannot be a PMIx namespace: 1 to %d bytes", j.Namespace, maxNamespace)
	case j.Here < -1 || j.Here >= len(j.Hosts):
		return fmt.Errorf("host %d of a PMIx job of %d hosts", j.Here, len(j.Hosts))
	case j.Apps != nil && len(j.Apps) != j.Size:
		return fmt.Errorf("programs of %d ranks in a PMIx job of %d", len(j.Apps), j.Size)
	}
	seen := make([]bool, j.Size)
	n := 0
	for _, h := range j.Hosts {
		if !slices.IsSorted(h.Ranks) {
			return fmt.Errorf("host %s: ranks are not in order", h.Name)
		}
		for _, r := range h.Ranks {
			if r < 0 || r >= len(seen) || seen[r] {
				return fmt.Errorf("host %s: rank %d of a job of %d ranks is named twice or out of range", h.Name, r, len(seen))
			}
			seen[r] = true
			n++
		}
	}
	if n != len(seen) {
		return fmt.Errorf("hosts for %d of %d ranks", n, len(seen))
	}
	for r, app := range j.Apps {
		if app < 0 || app >= len(seen) {
			return fmt.Errorf("rank %d: program %d of a job of %d ranks", r, app, len(seen))
		}
	}
	return nil
}
