package exchange

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/idset"
)

// Enter handles a host's FenceEnter. wired says that a fence of the whole first job is through.
func (x *Exchange) Enter(host int, m *apiv1.FenceEnter) (wired bool, err error) {
	key := fenceKey{m.Set, m.Epoch}
	set, err := x.set(m.Set)
	if err != nil {
		return false, err
	}
	if _, ok := slices.BinarySearch(set.hosts, host); !ok {
		return false, fmt.Errorf("fence %s: the host has no rank in it", m.Set)
	}
	if to, passed := x.passed[key.String()]; passed {
		return false, &Torn{Set: m.Set, Told: to, Waits: host}
	}
	f := x.fences[key]
	if f == nil {
		if len(x.fences) >= maxFences {
			return false, fmt.Errorf("fence %s: more than %d fences at once", m.Set, maxFences)
		}
		f = &fence{set: set, data: map[int][]byte{}}
		x.fences[key] = f
	}
	if _, twice := f.data[host]; twice {
		return false, fmt.Errorf("fence %s, epoch %d: entered twice", m.Set, m.Epoch)
	}
	f.data[host] = nil
	f.collect = f.collect || m.Collect
	if f.err != "" {
		x.result(key, host, nil, f)
	} else {
		f.data[host] = m.Data
		f.size += len(m.Data)
		x.held += len(m.Data)
		if why := x.missing(set); why != "" {
			x.fail(key, f, why, false)
		} else if why := x.excess(f); why != "" {
			x.fail(key, f, why, true)
		}
	}
	if len(f.data) < len(set.hosts) {
		return false, nil
	}
	delete(x.fences, key)
	if f.err != "" {
		return false, nil
	}
	x.held -= f.size
	for _, to := range set.hosts {
		x.result(key, to, f.others(to), f)
	}
	return set.whole && !strings.Contains(m.Set, "#"), nil
}

// Torn is a fence that the launcher before this one has answered on some hosts, and others wait for. What it brings is gone with that
// launcher.
type Torn struct {
	Set         string
	Told, Waits int // a host that was answered, and one that was not
}

func (e *Torn) Error() string { return "fence " + e.Set + " was answered on some hosts only" }

// Bounds of the fences that hosts say were answered.
const (
	maxPassed = 1 << 18
	maxEpoch  = 20 // digits of a number of 64 bits
)

// Passed takes what a host says of fences that the launcher before this one has answered. wired: one was of the whole first job.
func (x *Exchange) Passed(host int, keys []string) (wired bool, err error) {
	for _, k := range keys {
		set, epoch, _ := strings.Cut(k, " ")
		s, err := x.set(set)
		if err != nil {
			return wired, err
		}
		if _, err := strconv.ParseUint(epoch, 10, 64); err != nil || len(epoch) > maxEpoch {
			return wired, fmt.Errorf("fence %s: answered, it says, as number %.40q", set, epoch)
		}
		if _, on := slices.BinarySearch(s.hosts, host); !on || len(x.passed) >= maxPassed {
			return wired, fmt.Errorf("fence %s: answered, it says", k)
		}
		wired = wired || s.whole && !strings.Contains(set, "#")
		x.passed[k] = host
	}
	for key, f := range x.fences {
		if to, passed := x.passed[key.String()]; passed {
			for waits := range f.data {
				return wired, &Torn{Set: key.set, Told: to, Waits: waits}
			}
		}
	}
	return wired, nil
}

func (k fenceKey) String() string { return fmt.Sprintf("%s %d", k.set, k.epoch) }

// excess says which bound a fence's data passes; "" when none.
func (x *Exchange) excess(f *fence) string {
	switch {
	case f.size > maxFence:
		return fmt.Sprintf("its hosts bring %d bytes together; %d are possible; let ranks put less before it", f.size, maxFence)
	case x.held > maxHeld:
		return fmt.Sprintf("with it, barriers that have not ended have %d bytes; %d are possible; let ranks put less, or be in fewer at once", x.held, maxHeld)
	}
	return ""
}

// fail ends a fence for the hosts that are in it, and lets its data go.
func (x *Exchange) fail(key fenceKey, f *fence, why string, limit bool) {
	f.err, f.limit = why, limit
	for host := range f.data {
		f.data[host] = nil
		x.result(key, host, nil, f)
	}
	x.held -= f.size
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

func (x *Exchange) result(key fenceKey, host int, data [][]byte, f *fence) {
	x.send(host, (&apiv1.FenceResult{Set: key.set, Epoch: key.epoch, Data: data, Error: f.err, Limit: f.limit}).Frame())
}

// set parses a set once, without its tag; agents name the same few again and again.
func (x *Exchange) set(key string) (*rankSet, error) {
	text, tag, _ := strings.Cut(key, "#")
	if len(tag) > maxTag {
		return nil, fmt.Errorf("fence %s: a tag of %d bytes; %d are possible", text, len(tag), maxTag)
	}
	if s := x.sets[text]; s != nil {
		return s, nil
	}
	ranks, err := idset.Within(text, x.who.Processes())
	if err != nil {
		return nil, fmt.Errorf("fence of a run of %d processes: %w", x.who.Processes(), err)
	}
	_, first := x.who.Job(0).IDs()
	s := &rankSet{ranks: ranks, whole: ranks.Len() == first && ranks.Equal(idset.Range(0, first-1))}
	on := make([]bool, x.who.Hosts())
	for r := range ranks.All() {
		on[x.who.HostOf(r)] = true
	}
	for i, yes := range on {
		if yes {
			s.hosts = append(s.hosts, i)
		}
	}
	if len(s.hosts) == 0 {
		return nil, fmt.Errorf("fence: the set %q is empty", text)
	}
	if len(x.sets) >= maxKnownSets {
		clear(x.sets)
	}
	x.sets[text] = s
	return s, nil
}

// missing says why a fence of set can never complete; "" when it can.
func (x *Exchange) missing(set *rankSet) string {
	if x.ended.Overlaps(set.ranks) {
		return "processes of it belong to a job that has ended"
	}
	first := -1
	for r := range x.over {
		if set.ranks.Contains(r) && (first < 0 || r < first) {
			first = r
		}
	}
	if first < 0 {
		return ""
	}
	return x.over[first]
}

// Over tells that a process will enter no more fences; why names rank, host and cause.
func (x *Exchange) Over(id int, why string) {
	if _, known := x.over[id]; known || x.ended.Contains(id) {
		return
	}
	x.over[id] = why
	for key, f := range x.fences {
		if f.err == "" && f.set.ranks.Contains(id) {
			x.fail(key, f, why, false)
		}
	}
}
