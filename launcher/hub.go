package launcher

import (
	"fmt"
	"slices"
	"strings"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/idset"
)

// Bounds of what agents may leave with the hub.
const (
	maxNames     = 65536
	maxNameBytes = 64 << 20
	maxFences    = 4096
	maxFence     = apiv1.MaxFrame - 1<<20 // bytes of what hosts bring to one fence: one frame of it, and its set, goes to each
	maxHeld      = 2 * apiv1.MaxFrame     // bytes of all open fences
	maxFetches   = 1 << 20
	maxWatched   = 32 << 20 // bytes of services that are watched, each as often as it is
	maxKnownSets = 1024
	maxTag       = 256 // bytes
)

// hub is the middle of the star: it joins fences, keeps the run's names and routes fetches.
// Processes go by their ids, so a set may be of several jobs: those of a PMIx connect.
// It has no I/O, clock or goroutine; what is to be sent goes to send, in order.
//
//	host 0 ─FenceEnter{data 0}─▶ hub ─FenceResult{data 1, data 2}─▶ host 0
//	host 1 ─FenceEnter{data 1}─▶     ─FenceResult{data 0, data 2}─▶ host 1
//	host 2 ─FenceEnter{data 2}─▶     ─FenceResult{data 0, data 1}─▶ host 2
//
// A fence's data goes to each host once; a fence that needs a rank that is over, or that has too much
// data, fails at once, for those inside and for those that come later. A set's text may end in "#tag": fences of other
// tags are others, of the same processes (a PMIx group).
type hub struct {
	hostOf []int // host of each process, by id
	jobs   []hubJob
	hosts  int
	send   func(host int, f *apiv1.Frame)

	fences  map[fenceKey]*fence
	held    int // bytes of their data
	sets    map[string]*rankSet
	over    map[int]string // id → what became of it
	ended   idset.Set      // ids of jobs that are over, which are not in over
	gone    map[int]bool   // hosts given up
	names   map[string]publication
	nameLen int
	clock   uint64 // publications so far
	watches watches
	fetches map[uint64]*fetch
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

// hubJob is one job's ids and hosts.
type hubJob struct {
	base, size int
	hosts      []int // sorted
}

type fetch struct {
	host    int    // that asked
	id      uint64 // its own number for it
	waiting map[int]bool
}

func newHub(send func(int, *apiv1.Frame)) *hub {
	return &hub{
		send:   send,
		fences: map[fenceKey]*fence{}, sets: map[string]*rankSet{}, over: map[int]string{}, gone: map[int]bool{},
		names: map[string]publication{}, watches: newWatches(), fetches: map[uint64]*fetch{},
	}
}

// grow adds a job, whose processes get the next ids; hosts is how many hosts the run has now.
func (h *hub) grow(hostOf []int, hosts int) {
	j := hubJob{base: len(h.hostOf), size: len(hostOf), hosts: slices.Clone(hostOf)}
	slices.Sort(j.hosts)
	j.hosts = slices.Compact(j.hosts)
	h.hostOf = append(h.hostOf, hostOf...)
	h.hosts = hosts
	h.jobs = append(h.jobs, j)
}

// enter handles a host's FenceEnter. wired says that a fence of the whole first job is through.
func (h *hub) enter(host int, m *apiv1.FenceEnter) (wired bool, err error) {
	key := fenceKey{m.Set, m.Epoch}
	set, err := h.set(m.Set)
	if err != nil {
		return false, err
	}
	if _, ok := slices.BinarySearch(set.hosts, host); !ok {
		return false, fmt.Errorf("fence %s: the host has no rank in it", m.Set)
	}
	f := h.fences[key]
	if f == nil {
		if len(h.fences) >= maxFences {
			return false, fmt.Errorf("fence %s: more than %d fences at once", m.Set, maxFences)
		}
		f = &fence{set: set, data: map[int][]byte{}}
		h.fences[key] = f
	}
	if _, twice := f.data[host]; twice {
		return false, fmt.Errorf("fence %s, epoch %d: entered twice", m.Set, m.Epoch)
	}
	f.data[host] = nil
	f.collect = f.collect || m.Collect
	switch {
	case f.err != "":
		h.result(key, host, nil, f)
	default:
		f.data[host] = m.Data
		f.size += len(m.Data)
		h.held += len(m.Data)
		if why := h.missing(set); why != "" {
			h.fail(key, f, why, false)
		} else if why := h.excess(f); why != "" {
			h.fail(key, f, why, true)
		}
	}
	if len(f.data) < len(set.hosts) {
		return false, nil
	}
	delete(h.fences, key)
	if f.err != "" {
		return false, nil
	}
	h.held -= f.size
	for _, to := range set.hosts {
		h.result(key, to, f.others(to), f)
	}
	return set.whole && !strings.Contains(m.Set, "#"), nil
}

// excess says which bound a fence's data passes; "" when none.
func (h *hub) excess(f *fence) string {
	switch {
	case f.size > maxFence:
		return fmt.Sprintf("its hosts bring %d bytes together; %d are possible; let ranks put less before it", f.size, maxFence)
	case h.held > maxHeld:
		return fmt.Sprintf("with it, barriers that have not ended have %d bytes; %d are possible; let ranks put less, or be in fewer at once", h.held, maxHeld)
	}
	return ""
}

// fail ends a fence for the hosts that are in it, and lets its data go.
func (h *hub) fail(key fenceKey, f *fence, why string, limit bool) {
	f.err, f.limit = why, limit
	for host := range f.data {
		f.data[host] = nil
		h.result(key, host, nil, f)
	}
	h.held -= f.size
	f.size = 0
}

// others is what the other hosts contributed, in order of host.
func (f *fence) others(host int) [][]byte {
	if !f.collect {
		return nil
	}
	out := make([][]byte, 0, len(f.set.hosts)-1)
	for _, from := range f.set.hosts {
		if from != host && len(f.data[from]) > 0 {
			out = append(out, f.data[from])
		}
	}
	return out
}

func (h *hub) result(key fenceKey, host int, data [][]byte, f *fence) {
	h.send(host, &apiv1.Frame{Body: &apiv1.Frame_FenceResult{FenceResult: &apiv1.FenceResult{
		Set: key.set, Epoch: key.epoch, Data: data, Error: f.err, Limit: f.limit,
	}}})
}

// set parses a set once, without its tag; agents name the same few again and again.
func (h *hub) set(key string) (*rankSet, error) {
	text, tag, _ := strings.Cut(key, "#")
	if len(tag) > maxTag {
		return nil, fmt.Errorf("fence %s: a tag of %d bytes; %d are possible", text, len(tag), maxTag)
	}
	if s := h.sets[text]; s != nil {
		return s, nil
	}
	ranks, err := idset.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("fence: %w", err)
	}
	first := h.jobs[0].size
	s := &rankSet{ranks: ranks, whole: ranks.Len() == first && ranks.Equal(idset.Range(0, first-1))}
	on := make([]bool, h.hosts)
	for r := range ranks.All() {
		if r >= len(h.hostOf) {
			return nil, fmt.Errorf("fence %s: the run has %d processes", text, len(h.hostOf))
		}
		on[h.hostOf[r]] = true
	}
	for i, yes := range on {
		if yes {
			s.hosts = append(s.hosts, i)
		}
	}
	if len(s.hosts) == 0 {
		return nil, fmt.Errorf("fence: the set %q is empty", text)
	}
	if len(h.sets) >= maxKnownSets {
		clear(h.sets)
	}
	h.sets[text] = s
	return s, nil
}

// missing says why a fence of set can never complete; "" when it can.
func (h *hub) missing(set *rankSet) string {
	if h.ended.Overlaps(set.ranks) {
		return "processes of it belong to a job that has ended"
	}
	first := -1
	for r := range h.over {
		if set.ranks.Contains(r) && (first < 0 || r < first) {
			first = r
		}
	}
	if first < 0 {
		return ""
	}
	return h.over[first]
}

// rankOver tells that a process will enter no more fences; why names rank, host and cause.
func (h *hub) rankOver(rank int, why string) {
	if _, known := h.over[rank]; known || h.ended.Contains(rank) {
		return
	}
	h.over[rank] = why
	for key, f := range h.fences {
		if f.err != "" || !f.set.ranks.Contains(rank) {
			continue
		}
		h.fail(key, f, why, false)
	}
}

// jobOver tells of a job of which no process is left: how each went is not remembered any more.
func (h *hub) jobOver(base, size int) {
	h.ended = h.ended.Union(idset.Range(base, base+size-1))
	for id := base; id < base+size; id++ {
		delete(h.over, id)
	}
}

// hostGone answers what waits for a host that was given up; its ranks are told one by one.
func (h *hub) hostGone(host int) { h.answerFor(host, "the host that has it was lost") }

// hostDone answers what waits for a host whose ranks have all ended: it has no more than it gave.
func (h *hub) hostDone(host int) { h.answerFor(host, "") }

func (h *hub) answerFor(host int, err string) {
	h.gone[host] = true
	h.watches.forget(host)
	for id, f := range h.fetches {
		if f.host == host {
			delete(h.fetches, id)
		} else if f.waiting[host] {
			h.answered(id, host, &apiv1.FetchResult{Error: err})
		}
	}
}
