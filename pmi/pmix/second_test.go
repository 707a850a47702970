package pmix_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	who "github.com/mpiup/mpiup/pmi/client"
	"github.com/mpiup/mpiup/pmi/pmix"
	"github.com/mpiup/mpiup/pmi/pmix/bfrops"
)

// people is a lab in which it is known which process connects.
type people struct {
	*lab
	pid atomic.Int64 // who connects next

	mu    sync.Mutex
	ended map[int]bool // guarded by mu
}

func newPeople(t *testing.T) *people {
	p := &people{ended: map[int]bool{}}
	p.lab = newLab(t, func(c *pmix.Config) {
		c.Check = func(context.Context, net.Conn) (who.Process, error) {
			return who.Process{PID: int(p.pid.Load()), Start: 1}, nil
		}
		c.Lives = func(x who.Process) bool {
			p.mu.Lock()
			defer p.mu.Unlock()
			return !p.ended[x.PID]
		}
		c.Hooks.OnInit = func(r int, x who.Process) { p.event(fmt.Sprintf("init %d of %d", r, x.PID)) }
		c.Hooks.OnSecond = func(s who.Second) {
			p.event(fmt.Sprintf("%d wants to be %d, which is %d", s.Second.PID, s.Rank, s.First.PID))
		}
	})
	return p
}

func (p *people) as(t *testing.T, pid int, rank uint32) *raw {
	t.Helper()
	p.pid.Store(int64(pid))
	return p.connect(t, rank)
}

func (p *people) end(pid int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended[pid] = true
}

// nothing is the answer to whatever a refused process asks, which libpmix takes for the loss of its server.
func (c *raw) nothing(tag uint32, payload []byte) {
	c.t.Helper()
	c.send(tag, payload)
	if f, err := bfrops.ReadFrame(c.nc); err != nil || f.Tag != tag || len(f.Payload) != 0 {
		c.t.Errorf("it got %+v, %v", f, err)
	}
}

const cmdReq, cmdFinalize = 0, 5

// A second process that says that it is a rank gets as far as its handshake, and nothing that it asks for. After the
// first one it is welcome, and so is the first one's second libpmix meanwhile.
func TestASecondProcessOfARank(t *testing.T) {
	p := newPeople(t)
	defer p.stop()
	first := p.as(t, 100, 0)
	second := p.as(t, 101, 0)
	for tag, command := range []int{cmdReq, cmdCommit, cmdFence, cmdAbort, cmdFinalize, 77} {
		second.nothing(uint32(100+tag), request(command, nil))
	}
	second.nothing(200, []byte("no request"))
	own := p.as(t, 100, 0) // of the first one's
	if st := own.ask(100, cmdFinalize, nil); st != 0 {
		t.Errorf("its second libpmix ends with %d", st)
	}
	second.nc.Close()
	if st := first.ask(101, cmdFinalize, nil); st != 0 {
		t.Errorf("the first ends with %d", st)
	}
	next := p.as(t, 101, 0)
	if st := next.ask(100, cmdFinalize, nil); st != 0 {
		t.Errorf("the next ends with %d", st)
	}
	other := p.as(t, 102, 0)
	p.end(102)
	after := p.as(t, 103, 0) // the kernel has told that 102 ended, and its connection has not yet
	if st := after.ask(100, cmdFinalize, nil); st != 0 {
		t.Errorf("who comes after one that ended gets %d", st)
	}
	for _, c := range []*raw{first, own, next, other, after} {
		c.nc.Close()
	}
	want := []string{"init 0 of 100", "101 wants to be 0, which is 100", "finalize 0", "init 0 of 101", "finalize 0", "init 0 of 102"}
	if got, _ := p.told(); !slices.Equal(got, want) {
		t.Errorf("told %q, want %q", got, want)
	}
}

// However many come, and whatever they speak: the rank goes on, and each that is more than a few is hung up on.
func TestManySecondProcessesOfARank(t *testing.T) {
	p := newPeople(t)
	defer p.stop()
	first := p.as(t, 100, 0)
	served := 0
	for pid := 101; pid < 150; pid++ {
		p.pid.Store(int64(pid))
		nc := p.pipes.dial(t)
		h := good(0)
		h.Codec = []string{"v41", "v9"}[pid%2] // one that no rank could speak
		if _, err := nc.Write(hello(h)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(nc, make([]byte, 8)); err != nil {
			t.Fatal(err)
		}
		frame := append(make([]byte, bfrops.HeaderLen), request(cmdReq, nil)...)
		bfrops.FinishFrame(frame, 100)
		if _, err := nc.Write(frame); err != nil {
			continue
		}
		if _, err := bfrops.ReadFrame(nc); err == nil {
			served++
		}
	}
	if served != 16 {
		t.Errorf("%d of them are served", served)
	}
	if st := first.ask(100, cmdFinalize, nil); st != 0 {
		t.Errorf("the first ends with %d", st)
	}
	first.nc.Close()
	if events, err := p.told(); err != nil || events[len(events)-1] != "finalize 0" {
		t.Errorf("told %q, %v", events, err)
	}
}
