// Package exchange is the middle of the star that joins a run's hosts. It joins their parts of fences, keeps the run's
// published names and finds who answers a question for a value. PURE.
//
//	host 0 ─FenceEnter{data 0}─▶          ─FenceResult{data 1, data 2}─▶ host 0
//	host 1 ─FenceEnter{data 1}─▶ Exchange ─FenceResult{data 0, data 2}─▶ host 1
//	host 2 ─FenceEnter{data 2}─▶          ─FenceResult{data 0, data 1}─▶ host 2
//
//	host 0 ─NameRequest─▶ Exchange ─NameResult─▶ host 0, at once or when somebody publishes the name
//	host 0 ─FetchRequest─▶ Exchange ─FetchRequest─▶ host 1 ─FetchResult─▶ Exchange ─FetchResult─▶ host 0
//
// Processes go by their ids, so a fence's set may be of several jobs: those of a PMIx connect. A set's text may end in
// "#tag": fences of other tags are others, of the same processes (a PMIx group). A fence's data goes to each host once. A
// fence that needs a process that is over, or has too much data, fails at once, also for those that come later.
//
// Concurrency: an Exchange belongs to one goroutine, that of the run's loop.
package exchange

import (
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/launcher/run/model"
	"github.com/mpiup/mpiup/pmi/kvs"
)

// Bounds of what agents may leave here.
const (
	maxNames     = 65536
	maxNameBytes = 64 << 20
	maxFences    = 4096
	maxFence     = apiv1.MaxFrame - 1<<20 // bytes of what hosts bring to one fence: one frame of it, and its set, goes to each
	maxHeld      = 2 * apiv1.MaxFrame     // bytes of all open fences
	maxFetches   = 1 << 20                // answers that are waited for
	maxWatched   = 32 << 20               // bytes of services that are watched, each as often as it is
	maxKnownSets = 1024
	maxTag       = 256 // bytes
)

// Exchange is of one run. New makes one.
type Exchange struct {
	who  model.Roster
	send func(host int, f *apiv1.Frame)

	fences  map[fenceKey]*fence
	passed  map[string]int // fences that the launcher before this one has answered → a host that got the answer
	held    int            // bytes of their data
	sets    map[string]*rankSet
	over    map[int]string // id → what became of it
	ended   idset.Set      // ids of jobs that are over, which are not in over
	gone    map[int]bool   // hosts that answer no more
	names   kvs.Table
	watches watches
	fetches map[uint64]*fetch
	awaited int // answers of all of them
	fetchID uint64
}

type fenceKey struct {
	set   string
	epoch uint64
}

type fence struct {
	set     *rankSet
	data    map[int][]byte // host → contribution
	size    int            // bytes of data
	collect bool
	err     string // it has failed; late hosts are told
	limit   bool   // for a bound
}

// rankSet is a set of processes with its hosts.
type rankSet struct {
	ranks idset.Set
	hosts []int // sorted
	whole bool  // every rank of the first job
}

// watches are the hosts' questions for services that are not published yet.
type watches struct {
	services map[watchKey][]string
	by       map[string]map[watchKey]bool // by service
	size     int                          // bytes of services, each as often as it is watched
}

// watchKey is a host and its own number for the question.
type watchKey struct {
	host int
	id   uint64
}

// fetch is a question that hosts have not answered.
type fetch struct {
	host    int    // that asked
	id      uint64 // its own number for it
	waiting map[int]bool
}

// New returns an exchange of a run that has no processes yet. It sends with send. Questions for values have numbers above asked: hosts
// may still answer those of a launcher before this one.
func New(asked uint64, send func(host int, f *apiv1.Frame)) *Exchange {
	return &Exchange{
		fetchID: asked, passed: map[string]int{}, send: send, fences: map[fenceKey]*fence{}, sets: map[string]*rankSet{}, over: map[int]string{},
		gone:  map[int]bool{},
		names: kvs.NewTable(maxNames, maxNameBytes), watches: watches{services: map[watchKey][]string{},
			by: map[string]map[watchKey]bool{}}, fetches: map[uint64]*fetch{},
	}
}

// Know takes the run as it is from now on, with a job more than before.
func (x *Exchange) Know(who model.Roster) { x.who = who }

// JobOver tells of a job of which no process is left: how each went is not remembered any more.
func (x *Exchange) JobOver(number int) {
	first, end := x.who.Job(number).IDs()
	x.ended = x.ended.Union(idset.Range(first, end-1))
	for id := first; id < end; id++ {
		delete(x.over, id)
	}
}
