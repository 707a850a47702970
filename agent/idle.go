package agent

import (
	"fmt"
	"sync"
	"time"
)

// idle ends an agent that nobody needs any more (--idle-exit): a job has run here, and since then
// there has been no session for a time in which this process ran. An agent that waits for its first
// job waits on. The zero value never ends anything.
type idle struct {
	after time.Duration // 0: never

	mu     sync.Mutex
	served bool          // guarded by mu; ranks were started here
	since  time.Duration // guarded by mu; Clock time of the last look that found a session
}

// launched notes that ranks are started.
func (i *idle) launched() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.served = true
}

// over is asked with every step of the clock.
func (i *idle) over(now time.Duration, sessions int) bool {
	if i.after == 0 {
		return false
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if sessions > 0 || !i.served {
		i.since = now
	}
	return now-i.since >= i.after
}

// endIfIdle ends the agent with exit code 0 when its time has come and nothing that was left
// behind lives.
func (a *Agent) endIfIdle(now time.Duration, sessions int) {
	if a.idle.over(now, sessions) && !a.isStopping() && !a.keptLive() {
		a.stop(fmt.Sprintf("no session for %v (--idle-exit)", a.idle.after), 0)
	}
}
