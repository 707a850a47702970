package launcher

import (
	"sync/atomic"

	"github.com/mpiup/mpiup/launcher/link"
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
