package port

import (
	"net/netip"
	"sync"
)

// crowd are connections from whom nothing is known yet: those whose handshake is under way, and those of
// the HTTP port, which asks nobody who he is. There is a bound; beyond it the oldest goes of the
// address that has most, so that whoever opens connections and says nothing gets in his own way and not in a
// launcher's or a probe's.
type crowd[C comparable] struct {
	mu    sync.Mutex
	order uint64        // guarded by mu
	conns map[C]waiting // guarded by mu
}

type waiting struct {
	from  netip.Addr
	order uint64 // of arrival
}

// add notes a connection and returns the one that is to be closed for it, the zero C if there is room.
func (h *crowd[C]) add(c C, from netip.Addr, most int) (evicted C) {
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
func (h *crowd[C]) worst() (c C) {
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

// remove notes that a connection is known now, or has ended.
func (h *crowd[C]) remove(c C) {
	h.mu.Lock()
	delete(h.conns, c)
	h.mu.Unlock()
}
