package streams

import (
	"maps"
	"slices"
	"sync"
)

// Pace lets bytes of one sender flow to several receivers as fast as the slowest takes them. Each has a window: what is under way
// to it is taken from that, and given back when it has arrived. NewPace makes one.
//
//	Room ─▶ Spend ─▶ send        Grant, Gone ─▶ Changed     (a grant before its spend would be lost)
//
// Concurrency: one goroutine asks for room and spends it; any may call Grant and Gone.
type Pace struct {
	window  int
	changed chan struct{} // capacity 1

	mu   sync.Mutex
	free map[int]int // bytes by receiver that is left, guarded by mu
}

// NewPace is the pace towards receivers, each with a window of so many bytes.
func NewPace(receivers []int, window int) *Pace {
	p := &Pace{window: window, changed: make(chan struct{}, 1), free: map[int]int{}}
	for _, r := range receivers {
		p.free[r] = window
	}
	return p
}

// Changed gets a value when there may be more room, or fewer receivers.
func (p *Pace) Changed() <-chan struct{} { return p.changed }

// Grant gives back n bytes of a receiver's window.
func (p *Pace) Grant(receiver, n int) {
	p.change(func() {
		if free, ok := p.free[receiver]; ok {
			p.free[receiver] = min(free+n, p.window)
		}
	})
}

// Gone says that a receiver has ended: the others need not wait for it.
func (p *Pace) Gone(receiver int) { p.change(func() { delete(p.free, receiver) }) }

// AllGone is Gone of every receiver.
func (p *Pace) AllGone() { p.change(func() { clear(p.free) }) }

func (p *Pace) change(how func()) {
	p.mu.Lock()
	how()
	p.mu.Unlock()
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

// Room is what may be sent to all receivers, at most most bytes; left is false when there are none any more.
func (p *Pace) Room(most int) (n int, left bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, free := range p.free {
		most = min(most, free)
	}
	return most, len(p.free) > 0
}

// Spend takes n bytes from every receiver's window, and says who they are.
func (p *Pace) Spend(n int) (receivers []int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for r := range p.free {
		p.free[r] -= n
	}
	return slices.Collect(maps.Keys(p.free))
}
