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

// lullTime is how long there is no session before an agent rests: a script's runs, one after the other, are no lull.
const lullTime = 2 * time.Second

// lull tells the process once, after the last of its sessions, that nobody needs what they left in its memory: Go
// would keep it for minutes, and an idle agent does not allocate what makes it collect. The zero value tells nobody.
type lull struct {
	tell func()

	mu     sync.Mutex
	served bool          // guarded by mu; a session has ended since the last rest
	since  time.Duration // guarded by mu; Clock time of the last look that found a session, or of the end of one
}

// ended is called when a session is over, which may be between two looks.
func (l *lull) ended(now time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.served, l.since = true, now
}

// pass is called with every step of the clock.
func (l *lull) pass(now time.Duration, sessions int) {
	l.mu.Lock()
	if sessions > 0 {
		l.since = now
	}
	rests := l.served && now-l.since >= lullTime
	if rests {
		l.served = false
	}
	l.mu.Unlock()
	if rests && l.tell != nil {
		l.tell()
	}
}
