package agent

import (
	"net/netip"
	"sync"
)

// halfOpen are the connections whose handshake is under way. There is a bound; beyond it the
// oldest goes of the address that has most, so that whoever opens connections and says nothing
// gets in his own way and not in a launcher's.
type halfOpen struct {
	mu    sync.Mutex
	order uint64                   // guarded by mu
	conns map[*trackedConn]waiting // guarded by mu
}

type waiting struct {
	from  netip.Addr
	order uint64 // of arrival
}

// add notes a connection and returns the one that is to be closed for it, nil if there is room.
func (h *halfOpen) add(c *trackedConn, from netip.Addr, most int) (evicted *trackedConn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.conns == nil {
		h.conns = make(map[*trackedConn]waiting)
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
func (h *halfOpen) worst() (c *trackedConn) {
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

// remove notes that a handshake has ended.
func (h *halfOpen) remove(c *trackedConn) {
	h.mu.Lock()
	delete(h.conns, c)
	h.mu.Unlock()
}

func (h *halfOpen) any() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.conns) > 0
}
