package ranks

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/mpiup/mpiup/agent/look"
	"github.com/mpiup/mpiup/agent/reap/proctree"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"google.golang.org/protobuf/proto"
)

// groups is what a container's cgroups tell of its memory (discover.Cgroups).
type groups interface {
	MemoryUsed() uint64
	MemoryLimit() uint64
	MemoryPeak() uint64
	OOMKills() (uint64, error)
}

// memory is what a job knows of its container's memory. The kernel counts whom it kills for memory, and says nowhere that a container sees
// who it was. So processes are noted while memory gets scarce: of those that are gone when the count has risen, the largest are probably meant,
// since the kernel takes the largest (mm/oom_kill.c, oom_badness). Where several are gone of which none is clearly that, none is named.
//
//	watchMemory, each second ──▶ used, limit, processes      the last look, which the launcher is told while it is much
//	a rank's end ──────────────▶ peak, kills, who is gone    with its Exited
//
// All its methods may be called by several goroutines.
type memory struct {
	of      groups
	proc    proctree.Proc
	self    int                   // this agent: who does not descend from it may be in another container
	leaders func() map[int]uint32 // ids of ranks by their first processes

	mu      sync.Mutex
	first   uint64                 // kills before the job's start; guarded by mu
	counted bool                   // first is known; guarded by mu
	told    *apiv1.ContainerMemory // of the last look, without times; guarded by mu
	noticed time.Time              // when kills were last seen to have risen; guarded by mu
	seen    []proctree.Stat        // processes at the last look; guarded by mu
	whose   map[int]uint32         // leaders at that look; guarded by mu
}

// Bounds of what is told of those that were killed.
const (
	maxVictims = 8
	// maxSeenProcesses is how many processes are noted at a look; of more none is.
	maxSeenProcesses = 16 << 10
)

// scarce says that so much of a limit is used that the next second may be the last.
func scarce(used, limit uint64) bool { return limit > 0 && used >= limit/4 }

// newMemory counts from now on.
func newMemory(of groups, proc proctree.Proc, self int, leaders func() map[int]uint32) *memory {
	m := &memory{of: of, proc: proc, self: self, leaders: leaders, told: &apiv1.ContainerMemory{}}
	kills, err := of.OOMKills()
	m.first, m.counted = kills, err == nil
	return m
}

// look reads what the container uses, and notes the processes where that is much.
func (m *memory) look(now time.Time) *apiv1.ContainerMemory {
	used, limit := m.of.MemoryUsed(), m.of.MemoryLimit()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.told.Used, m.told.Limit = used, limit
	m.count(now)
	m.seen, m.whose = nil, nil
	if scarce(used, limit) {
		if all, err := m.proc.Snapshot(); err == nil && len(all) <= maxSeenProcesses {
			m.seen, m.whose = all, m.leaders()
		}
	}
	return m.as(now)
}

// ended is what is known when a process has ended.
func (m *memory) ended(now time.Time) *apiv1.ContainerMemory {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.count(now)
	return m.as(now)
}

// count reads the counters. mu is held.
func (m *memory) count(now time.Time) {
	m.told.Peak = m.of.MemoryPeak()
	kills, err := m.of.OOMKills()
	if err == nil && !m.counted {
		m.first, m.counted = kills, true
	}
	if err != nil || kills <= m.first+m.told.Kills { // a container's own count never falls
		return
	}
	if m.told.Limit == 0 {
		m.told.Limit = m.of.MemoryLimit()
	}
	risen := kills - m.first - m.told.Kills
	m.told.Kills += risen
	m.noticed = now
	victims := append(m.gone(risen), m.told.Victims...)
	m.told.Victims = victims[:min(len(victims), maxVictims)]
}

// gone are the largest of the processes of the last look that are there no more, as many as were killed. mu is held.
func (m *memory) gone(n uint64) (victims []*apiv1.MemoryVictim) {
	if len(m.seen) == 0 {
		return nil
	}
	now, err := m.proc.Snapshot()
	if err != nil {
		return nil
	}
	alive := make(map[int]uint64, len(now))
	for _, p := range now {
		if p.Alive() && !p.Dying {
			alive[p.PID] = p.Start
		}
	}
	leaders := []int{m.self}
	for pid := range m.whose {
		leaders = append(leaders, pid)
	}
	owner, ours := map[int]uint32{}, map[int]bool{}
	for leader, pids := range look.Branches(m.seen, leaders) {
		id, is := m.whose[leader]
		for _, pid := range pids {
			ours[pid] = true
			if is {
				owner[pid] = 1 + id
			}
		}
	}
	var lost []proctree.Stat
	for _, p := range m.seen {
		if start, there := alive[p.PID]; ours[p.PID] && p.Alive() && (!there || start != p.Start) {
			lost = append(lost, p)
		}
	}
	lost = withoutWrappers(lost)
	slices.SortFunc(lost, func(a, b proctree.Stat) int { return cmp.Or(cmp.Compare(b.RSS, a.RSS), cmp.Compare(a.PID, b.PID)) })
	m.seen = slices.DeleteFunc(m.seen, func(p proctree.Stat) bool { // nobody is killed twice
		return slices.ContainsFunc(lost, func(l proctree.Stat) bool { return l.PID == p.PID })
	})
	killed := lost[:min(uint64(len(lost)), n, maxVictims)]
	if !clearly(killed, lost[len(killed):], m.told.Limit) {
		return nil
	}
	for _, p := range killed {
		victims = append(victims, &apiv1.MemoryVictim{Pid: int32(p.PID), Name: p.Name, Resident: p.RSS, Rank: owner[p.PID]})
	}
	return victims
}

// withoutWrappers leaves out those that had started one that is gone too, and is larger: they ended because it did.
func withoutWrappers(lost []proctree.Stat) []proctree.Stat {
	size := make(map[int]uint64, len(lost)) // the largest below each
	parent := make(map[int]int, len(lost))
	for _, p := range lost {
		parent[p.PID] = p.PPID
	}
	for _, p := range lost {
		for at, n := p.PPID, 0; n < len(lost); n++ {
			above, gone := parent[at]
			if !gone {
				break
			}
			size[at] = max(size[at], p.RSS)
			at = above
		}
	}
	return slices.DeleteFunc(lost, func(p proctree.Stat) bool { return size[p.PID] > p.RSS })
}

// clearly says that those which are taken for killed are much larger than the others that are gone, and had a part of the limit that counts.
func clearly(killed, others []proctree.Stat, limit uint64) bool {
	if len(killed) == 0 || len(others) == 0 {
		return true
	}
	least := killed[len(killed)-1].RSS
	return least >= 2*others[0].RSS && least >= limit/16
}

// as is what is known, as of now. mu is held.
func (m *memory) as(now time.Time) *apiv1.ContainerMemory {
	told := proto.CloneOf(m.told)
	if told.Kills > 0 {
		told.KilledMs = uint64(max(now.Sub(m.noticed).Milliseconds(), 0))
	}
	return told
}

// owns says that the process of an id, or one that it had started, is among those that were killed.
func owns(m *apiv1.ContainerMemory, id uint32) bool {
	return slices.ContainsFunc(m.Victims, func(v *apiv1.MemoryVictim) bool { return v.Rank == 1+id })
}

// freshKill is how long before a rank's end by SIGKILL the count may have risen because of it: looks are a second apart, on a busy host more.
const freshKill = 5 * time.Second

// killedRank says that the kernel killed a rank, which ended by SIGKILL, for memory.
func killedRank(m *apiv1.ContainerMemory, id uint32) bool {
	unknown := uint64(len(m.Victims)) < m.Kills // not all that were killed are known
	return owns(m, id) || unknown && m.KilledMs <= uint64(freshKill/time.Millisecond)
}

// Bounds of the time between two looks at memory.
const (
	minMemory = 500 * time.Millisecond
	maxMemory = time.Minute
)

// watchMemory looks at the container's memory now and then, and tells the launcher of what it will want to know when this host is suddenly gone:
// the first look, and while memory is scarce each that differs by 1 in 128 of the limit.
func watchMemory(st *Job) {
	every := time.Duration(st.Launch.Job.MemoryMs) * time.Millisecond
	t := time.NewTicker(min(max(every, minMemory), maxMemory))
	defer t.Stop()
	var told *apiv1.ContainerMemory
	var at time.Time
	for {
		looked := time.Now()
		now := st.memory.look(looked)
		old := looked.Sub(at) >= tellAgain
		if worthTelling(told, now) || scarce(now.Used, now.Limit) && old {
			told = now
			at = looked
			st.send(now.Frame())
		}
		select {
		case <-t.C:
		case <-st.ctx.Done():
			return
		}
	}
}

// tellAgain is how old what the launcher knows may be while memory is scarce: it says how long before the end the last look was.
const tellAgain = 10 * time.Second

// worthTelling says that a look tells the launcher more than what it was told last.
func worthTelling(told, now *apiv1.ContainerMemory) bool {
	if told == nil || now.Kills != told.Kills || now.Limit != told.Limit {
		return true
	}
	if !scarce(now.Used, now.Limit) && !scarce(told.Used, told.Limit) {
		return false
	}
	return max(now.Used, told.Used)-min(now.Used, told.Used) >= now.Limit/128
}
