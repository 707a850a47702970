package run

import (
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/launcher/verdict"
)

// memoryLook is what a host's container used of its memory.
type memoryLook struct {
	used, limit uint64
	at          time.Duration // Clock time
}

// memories are the last two looks at each host's memory: of a host that is gone nothing else tells why. The zero value has none.
type memories struct {
	before, last map[int]memoryLook
}

// note takes a look, in bytes; used 0: it does not show.
func (m *memories) note(h int, used, limit uint64, at time.Duration) {
	if used == 0 {
		return
	}
	if m.last == nil {
		m.before, m.last = map[int]memoryLook{}, map[int]memoryLook{}
	}
	if old, known := m.last[h]; known {
		m.before[h] = old
	}
	m.last[h] = memoryLook{used, limit, at}
}

// staleMemory is how old a look may be that tells why a host was lost: agents tell one at least each ten seconds where memory gets scarce.
const staleMemory = 30 * time.Second

// ofLost is what is known of a host's memory when it was heard last.
func (m *memories) ofLost(h int, at time.Duration) (is verdict.Memory) {
	last, known := m.last[h]
	ago := max(at-last.at, 0)
	if !known || ago > staleMemory {
		return is
	}
	is.Used, is.Limit, is.Ago = last.used, last.limit, ago
	is.Near = last.limit > 0 && (last.used >= last.limit/4*3 || m.grows(h, ago))
	return is
}

// growing is how old a look may be by which memory still grew: an agent looks each second, and tells of what has changed.
const growing = 2 * time.Second

// grows says that a host's memory was full a second after it was heard last, if it grew as between the last two looks.
func (m *memories) grows(h int, ago time.Duration) bool {
	before, known := m.before[h]
	last := m.last[h]
	between := (last.at - before.at).Seconds()
	if !known || ago > growing || last.used <= before.used || between <= 0 {
		return false
	}
	pace := float64(last.used-before.used) / between
	return float64(last.used)+pace*(ago.Seconds()+1) >= float64(last.limit)
}

// onMemory takes what a host tells of its container's memory now and then.
func (r *Run) onMemory(h int, m *apiv1.ContainerMemory, at time.Duration) {
	r.memories.note(h, m.Used, m.Limit, at)
	r.give(Seen{Host: r.hosts[h].Name, Memory: m.Used, Limit: m.Limit})
}

// memoryOf is what a host tells of its memory with a process's end.
func (r *Run) memoryOf(h int, m *apiv1.ContainerMemory) (is verdict.Memory) {
	const most = 8 // victims
	if m == nil {
		return is
	}
	is = verdict.Memory{Used: m.Used, Limit: m.Limit, Kills: int(min(m.Kills, 1<<20)), Ago: time.Duration(min(m.KilledMs, 1<<40)) * time.Millisecond}
	for _, v := range m.Victims[:min(len(m.Victims), most)] {
		const longest = 16 // TASK_COMM_LEN
		who := verdict.Victim{PID: int(v.GetPid()), Name: visible.Line(v.GetName()[:min(len(v.GetName()), longest)]), Resident: v.GetResident(), ID: -1}
		if v.GetRank() > 0 && r.who.Owns(h, v.Rank-1) { // a host speaks of its own alone
			who.ID, who.Of = int(v.Rank-1), r.who.Process(int(v.Rank-1))
		}
		is.Victims = append(is.Victims, who)
	}
	return is
}

// withMemory adds to the fault of a host that is lost what is known of its memory.
func (r *Run) withMemory(f verdict.Fault) verdict.Fault {
	if f.Event == verdict.HostLost && f.Node >= 0 {
		f.Memory = r.memories.ofLost(f.Node, f.At)
		if lost := r.hosts[f.Node].lost; lost != nil {
			f.Memory.Silent = lost.Silent
		}
	}
	return f
}
