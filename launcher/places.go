package launcher

import (
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/mpiup/mpiup/launcher/reach"

	"github.com/mpiup/mpiup/launcher/link"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/launcher/exchange"
)

// places says where the processes of a run are. Hosts and processes have an index and an id that
// stay theirs; both only ever grow.
//
//	hosts   0: w0   1: w1   2: w0 again, reached anew after it was let go
//	ids     0 1 2 3 | 4 5       the first job's ranks, then those of jobs that ranks spawned
//	host of 0 0 1 1 | 1 2
//
// The loop adds; any goroutine may read.
type places struct {
	list atomic.Pointer[[]*link.Conn]
	of   atomic.Pointer[[]int32] // by id
}

func newPlaces() *places {
	p := &places{}
	p.list.Store(&[]*link.Conn{})
	p.of.Store(&[]int32{})
	return p
}

// hosts are all hosts that the run has or had, by index.
func (p *places) hosts() []*link.Conn { return *p.list.Load() }

// ids is how many processes the run has or had.
func (p *places) ids() int { return len(*p.of.Load()) }

// hostOf is the host of a process, -1 if there is none such.
func (p *places) hostOf(id int) int {
	of := *p.of.Load()
	if id < 0 || id >= len(of) {
		return -1
	}
	return int(of[id])
}

// owns says that a process is on that host, with an id from a frame.
func (p *places) owns(host int, id uint32) bool {
	of := *p.of.Load()
	return int(id) < len(of) && int(of[id]) == host
}

// join adds a host, whose index must be the next.
func (p *places) join(h *link.Conn) {
	hosts := append(p.hosts(), h) // beyond what readers of the older slice see
	p.list.Store(&hosts)
}

// grow adds processes on the given hosts.
func (p *places) grow(hosts []int) {
	of := *p.of.Load()
	for _, h := range hosts {
		of = append(of, int32(h))
	}
	p.of.Store(&of)
}

// host is one of the run's hosts.
func (r *run) host(h int) *link.Conn { return r.places.hosts()[h] }

// send queues a frame for a host. One that is too large ends the job: the host would wait for it.
func (r *run) send(h int, f *apiv1.Frame) {
	if err := r.host(h).Send(f); err != nil {
		r.nonsense(h, err)
	}
}

// sendOut sends what came of an event, in order.
func (r *run) sendOut(frames []exchange.Out) {
	for _, o := range frames {
		r.send(o.Host, o.Frame)
	}
}

// live calls f with every host that still takes frames.
func (r *run) live(f func(h int)) {
	for h, host := range r.places.hosts() {
		if !r.at[h].bye && !host.Finished() {
			f(h)
		}
	}
}

// ranksOn names a host's processes, "ranks 8-15 and rank 0 of spawned job 1": those of jobs of which
// something is left there, else all.
func (r *run) ranksOn(h int) string {
	var all, left idset.Set
	for _, j := range r.jobs {
		var s idset.Set
		over := true
		for id := j.base; id < j.base+j.size(); id++ {
			if r.places.hostOf(id) == h {
				s.Add(id)
				over = over && r.ranks[id].state.over()
			}
		}
		all = all.Union(s)
		if !over {
			left = left.Union(s)
		}
	}
	if left.Empty() {
		return r.named(all)
	}
	return r.named(left)
}

// named is processes as users know them.
func (r *run) named(ids idset.Set) string {
	of := map[*jobRun]*idset.Set{}
	for id := range ids.All() {
		j := r.jobOf(id)
		if of[j] == nil {
			of[j] = &idset.Set{}
		}
		of[j].Add(id - j.base)
	}
	var parts []string
	for _, j := range r.jobs {
		s := of[j]
		if s == nil {
			continue
		}
		if len(parts) == reach.MaxInOne {
			parts = append(parts, "others")
			break
		}
		name := "ranks " + s.String()
		if s.Len() == 1 {
			name = "rank " + s.String()
		}
		if j.number > 0 {
			name += fmt.Sprintf(" of spawned job %d", j.number)
		}
		parts = append(parts, name)
	}
	if len(parts) == 0 {
		return "no ranks"
	}
	return strings.Join(parts, " and ")
}

// hostState is what is known of one host's processes.
type hostState struct {
	created int    // processes not heard of yet
	running int    // processes that run
	outputs int    // processes whose output has not ended
	bye     bool   // Bye was sent
	dropped bool   // its agent ended processes without being told to
	ending  string // why its agent is being ended, as it said
	missed  bool   // it was lost, and the run goes on without it

	taken idset.Set // processes that its agent ended without being told to
}
