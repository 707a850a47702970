package bounded

import (
	"net/netip"
	"sync"
)

// Crowd is connections from whom nothing is known yet: those whose handshake is under way, and those of ports that ask nobody who he is.
// Beyond the bound the oldest goes of the address that has most, so that whoever opens connections and says nothing gets in his own way
// and not in a launcher's, a probe's or a scrape's. The zero Crowd is empty; any number of goroutines may use one.
type Crowd[C comparable] struct {
	mu    sync.Mutex
	order uint64        // guarded by mu
	conns map[C]waiting // guarded by mu
}

type waiting struct {
	from  netip.Addr
	order uint64 // of arrival
}

// Add notes a connection and returns the one that is to be closed for it, the zero C if there is room.
func (h *Crowd[C]) Add(c C, from netip.Addr, most int) (evicted C) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.conns == nil {
		h.conns = make(map[C]waiting)
	}
	if len(h.conns) >= most {
		evicted = h.worst()
		delete(h.conns, evicted)
	}
	h.order++
	h.conns[c] = waiting{from, h.order}
	return evicted
}

// worst is the oldest connection of the address that has most; mu is held.
func (h *Crowd[C]) worst() (c C) {
	count := make(map[netip.Addr]int)
	for _, w := range h.conns {
		count[w.from]++
	}
	for k, w := range h.conns {
		old, ok := h.conns[c]
		if !ok || count[w.from] > count[old.from] || count[w.from] == count[old.from] && w.order < old.order {
			c = k
		}
	}
	return c
}

// Remove notes that a connection is known now, or has ended.
func (h *Crowd[C]) Remove(c C) {
	h.mu.Lock()
	delete(h.conns, c)
	h.mu.Unlock()
}
