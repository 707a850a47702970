package agent

import (
	"sync"
	"time"
)

// hasteTime is how long after a session's begin its job is starting, on a slow host too.
const hasteTime = 10 * time.Second

// haste tells the process that a job is starting here, when memory may be spent for time, and that it is
// no more. The zero value tells nobody.
type haste struct {
	tell func(bool)

	mu    sync.Mutex
	on    bool          // guarded by mu
	until time.Duration // Clock time, guarded by mu
}

// begin is called when a session begins.
func (h *haste) begin(now time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.until = now + hasteTime
	h.turn(true)
}

// pass is called with every step of the clock.
func (h *haste) pass(now time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if now >= h.until {
		h.turn(false)
	}
}

func (h *haste) turn(on bool) { // mu is held
	if h.on != on && h.tell != nil {
		h.tell(on)
	}
	h.on = on
}
