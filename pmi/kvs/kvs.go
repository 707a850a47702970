// Package kvs is the engine behind every process management interface. It holds what the ranks of one host put, which
// fences they are in, and the names they publish. PMI-1, PMI-2 and PMIx are wire formats above it. There is one
// engine for a run on each host.
//
//	  rank goroutines (one per connection)           other hosts
//	   Put  Get  Attr      Fence                         ▲
//	    │    │    │          │                           │ Upstream: Exchange, Fetch
//	    ▼    ▼    ▼          ▼                           │
//	┌──────────────────┬─────────────────────────────────────┐
//	│ Space, one a job │ Engine, one a run                   │
//	│  store           │  fences  set of ids, tag → entered  │
//	│  attrs           │  names                              │
//	└──────────────────┴─────────────────────────────────────┘
//
// A process is named by its id in the run: the base of its job plus its rank there. Sets of fences and who is gone are
// ids. A Space is one job's and speaks of its ranks.
//
// A value has an owner rank, a key and opaque bytes. It is visible on its own host at once, and
// on the hosts of a fence's other ranks once that fence is through. In between, Get asks
// Upstream.Fetch, once per call.
//
// A fence is a set of processes, of one job or several, a tag, and an epoch that counts the fences of both:
//
//	                first of this host     last of this host       Upstream answers
//	(none) ─────────────▶ gathering ──────────▶ exchanging ──────────────▶ done
//	                          │ one of the set is gone                │ or that it will not be
//	                          └──────────▶ failed ◀───────────────────┘
//
// A fence that is exchanging may be over elsewhere, and its processes past it. Then it does not fail here because one
// of them has gone; Upstream, which hears of that too, decides.
//
// This host's contribution leaves it once, when its last process of the set has entered: everything
// that these put and the set's hosts are not known to have (nothing if the fence does not collect, as those over
// several jobs; the data then waits for one that does, and for Fetch). What open fences carry is bounded (share.go).
//
// Concurrency: all methods of Engine and Space may be called from any goroutine. Fence and a waiting Attr
// block; they end with ctx, with the fence, or with Close. A space starts one goroutine per
// fence that leaves the host, and Close waits for it. fence.go and store.go have no goroutine, clock or I/O.
//
// It does not know processes, sockets or time: RankGone tells it that a rank will never come.
package kvs

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/job"
)

// Run is what is one for all jobs.
type Run struct {
	Upstream Upstream // nil: this host has all processes
	Names    Names    // nil: kept in memory, for a run on one host
	Limits   Limits   // zero: DefaultLimits
}

// Upstream is the engine's only way out of the host.
type Upstream interface {
	// Exchange hands over what this host contributes to one fence and returns what each other
	// host of the set contributed. set is canonical: ids ("0-15", "0,4-7"), and "#" with the
	// fence's tag if it has one ("0,4-7#7"). set and epoch together name the fence. It returns
	// when ctx ends.
	Exchange(ctx context.Context, set string, epoch uint64, collect bool, contribution []byte) (others [][]byte, err error)
	// Fetch asks the owner's host for a key that no fence brought here.
	Fetch(ctx context.Context, q Question) (value []byte, found bool, err error)
}

// Question is for a value that another host may have.
type Question struct {
	Job   int // number
	Owner int // id; AnyOwner: of every other host of the job
	Key   string
	Wait  bool   // the host answers when the owner has put the key, found being false when it never will; not of AnyOwner
	Not   string // with Wait: the Digest of a value that is not waited for; "": any is
}

// Engine is one host's part of a run: the fences of its processes, and a Space for each job. Use New.
type Engine struct {
	cfg Run

	mu     sync.Mutex
	fences fences                     // guarded by mu
	spaces map[*part]*Space           // guarded by mu
	onGone []func(id int, why string) // guarded by mu
}

// Job describes one job on one host.
//
// KVSName must be new for every job, not only among those that run: MPICH 5 derives the names of
// its shared memory segments from it, and those of a killed job stay in /dev/shm.
type Job struct {
	Number  int    // in the run
	Base    int    // id of rank 0
	Size    int    // ranks
	Local   []int  // those on this host; ascending in a Space
	KVSName string // the job's name in PMI, at most 32 printable characters without blank, '=' and ';'
	// Preput is what all ranks find from the start, the same on every host. Get finds it for AnyOwner as long as no rank has
	// put the same. Its values must not be modified any more.
	Preput []job.Pair
}

func (j *Job) validate() error {
	if j.Size < 1 || j.Base < 0 || j.Base > idset.MaxID+1-j.Size {
		return fmt.Errorf("a job of %d ranks from id %d", j.Size, j.Base)
	}
	bad := func(r rune) bool { return r <= ' ' || r > '~' || r == '=' || r == ';' || r == '\\' }
	if j.KVSName == "" || len(j.KVSName) > 32 || strings.ContainsFunc(j.KVSName, bad) {
		return fmt.Errorf("%q cannot be a key-value space's name: 1 to 32 printable characters without blank, '=', ';'", j.KVSName)
	}
	seen := map[int]bool{}
	for _, r := range j.Local {
		if r < 0 || r >= j.Size || seen[r] {
			return fmt.Errorf("rank %d of a job of %d ranks is named twice or out of range", r, j.Size)
		}
		seen[r] = true
	}
	return nil
}

// Space is one job's data on one host; it speaks of ranks of the job. Engine.Add makes one.
type Space struct {
	Job
	e    *Engine
	part *part // guarded by e.mu

	ctx    context.Context // of exchanges and fetches; ends with Close
	cancel context.CancelCauseFunc
	work   sync.WaitGroup // exchanges and fetches

	store    store                 // guarded by e.mu
	attrs    attrs                 // guarded by e.mu
	fetches  map[fetchKey]*flight  // guarded by e.mu
	sending  int                   // guarded by e.mu; bytes of contributions that upstream has not answered
	arrivals map[int]chan struct{} // guarded by e.mu; by owner, of those somebody waits for
	closed   error                 // guarded by e.mu; nil: open
}

// fetchKey is one question to other hosts.
type fetchKey struct {
	owner int
	key   string
	wait  bool // see Question
	not   string
	keep  bool // the answer goes into the store
}

// flight is a fetch under way; ranks that ask the same meanwhile wait for its answer.
type flight struct {
	over  chan struct{}
	value []byte
	found bool
	err   error
}
