package pmix

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net"
	"slices"

	"github.com/mpiup/mpiup/pmi/kvs"
)

// Job is what the server tells ranks about their job, equal on all hosts but for Engine, Here and
// what follows it.
type Job struct {
	Namespace string // the job's name in PMIx, hard to guess: see NewNamespace; at most 255 bytes
	Hosts     []Host // all of them, in the order of their numbers
	Apps      []int  // the program of each rank (MPI_APPNUM); nil: one program
	Universe  int    // slots of the job (MPI_UNIVERSE_SIZE); 0: as many as ranks
	MapBy     string // how ranks were mapped, for pmix.mapby; "": not told
	Mapping   string // PMI_process_mapping, see pmi.ProcessMapping; "": not told

	Engine     *kvs.Engine
	Here       int                                    // index of this host in Hosts
	Address    string                                 // of Run's listener: "127.0.0.1:41235"; never IPv6, whose port libpmix up to 5.0 loses
	SessionDir string                                 // where ranks of this host may make files, and Cleanup removes them; "": nowhere
	Binding    func(rank int) (locstr, cpuset string) // of this host's ranks, see PMIX_LOCALITY_STRING; nil: not bound
	Crowded    bool                                   // more ranks than processors here: they should yield while they wait
	HwlocXML   string                                 // hwloc's version 2 XML of this host; "": none
	Getenv     func(name string) string               // what the user has set for ranks; nil: nothing

	// Check says whether a connection may speak at all: that its socket belongs to one of this
	// host's ranks or their descendants. It runs before anything is read. nil: all may.
	Check func(net.Conn) error
	Log   *slog.Logger // nil: none
	Hooks Hooks
}

// Host is one machine of a job.
type Host struct {
	Name  string // as ranks see it: gethostname(2)
	Ranks []int  // ascending
}

// Hooks tell the caller what a rank did; nil ones are left out. Each is called before the rank
// gets its answer, from the connection's goroutine.
type Hooks struct {
	OnInit     func(rank int)
	OnFinalize func(rank int)
	// OnAbort is MPI_Abort. code is as given; text is for people and may be empty; targets are
	// the ranks to end, nil for the whole job.
	OnAbort func(rank, code int, text string, targets []int)
	// OnError is a rank that cannot go on: *ProtocolError, *RefusedError, *UnfinishedError,
	// *kvs.GoneError when it waits for a rank that is gone, or what the engine says. It gets no
	// answer then, so that it prints nothing of its own before it is stopped.
	OnError func(rank int, err error)
	// OnLog is text that a rank wants shown with its output.
	OnLog func(rank int, stderr bool, text string)
	// OnEvent is an event for ranks of other hosts; their servers are given it with Notify.
	OnEvent func(Event)
}

// NewNamespace makes a namespace of 128 random bits: who knows it was told by the job.
func NewNamespace(prefix string) string {
	var b [16]byte
	rand.Read(b[:])
	return prefix + "-" + hex.EncodeToString(b[:])
}

const maxNamespace = 255 // PMIX_MAX_NSLEN

// validate refuses what no launcher sends.
func (j *Job) validate() error {
	switch {
	case j.Engine == nil:
		return fmt.Errorf("a PMIx job without engine")
	case j.Namespace == "" || len(j.Namespace) > maxNamespace:
		return fmt.Errorf("%q cannot be a PMIx namespace: 1 to %d bytes", j.Namespace, maxNamespace)
	case j.Here < 0 || j.Here >= len(j.Hosts):
		return fmt.Errorf("host %d of a PMIx job of %d hosts", j.Here, len(j.Hosts))
	case j.Apps != nil && len(j.Apps) != j.Engine.Size():
		return fmt.Errorf("programs of %d ranks in a PMIx job of %d", len(j.Apps), j.Engine.Size())
	}
	seen := make([]bool, j.Engine.Size())
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
