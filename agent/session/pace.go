package session

import (
	"sync"
	"time"
)

// hasteTime is how long after a session's begin its job is starting, on a slow host too.
const hasteTime = 10 * time.Second

// lullTime is how long there is no session before an agent rests: a script's runs, one after the other, are no lull.
const lullTime = 2 * time.Second

// pace tells the process three things. A job is starting, or has started: in between memory may be spent for time. The last session has
// ended: memory can go back, which an idle agent's Go would keep for minutes, since it allocates nothing. And nobody has needed the
// agent for long since its first job; one that waits for its first job waits on. It counts only time in which this process ran. The
// zero value tells nobody.
type pace struct {
	hasten   func(bool)    // nil: nobody
	rest     func()        // nil: nobody
	idleExit time.Duration // 0: never

	mu       sync.Mutex
	hurried  bool          // guarded by mu
	until    time.Duration // when haste ends, guarded by mu
	used     bool          // a session has ended since the last rest, guarded by mu
	served   bool          // ranks were started here, guarded by mu
	occupied time.Duration // the last look that found a session, or the end of one, guarded by mu
}

// begins is called when a session begins.
func (p *pace) begins(now time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.until = now + hasteTime
	p.hurry(true)
}

func (p *pace) hurry(on bool) { // mu is held
	if p.hurried != on && p.hasten != nil {
		p.hasten(on)
	}
	p.hurried = on
}

// launched notes that ranks are started.
func (p *pace) launched() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.served = true
}

// ended is called when a session is over, which may be between two looks.
func (p *pace) ended(now time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used, p.occupied = true, now
}

// asleep says that nothing is to be done before the next session.
func (p *pace) asleep() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.hurried && !p.used
}

// alone is for how long there has been no session, as of the last look.
func (p *pace) alone(now time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return now - p.occupied
}

// pass is called with every step of the clock. gathers: one of the sessions waits for its launcher to find all hosts, so that a job
// is still to start. idle: nobody has needed the agent for idleExit.
func (p *pace) pass(now time.Duration, sessions int, gathers bool) (idle bool) {
	p.mu.Lock()
	if gathers {
		p.until = now + hasteTime
	}
	if now >= p.until {
		p.hurry(false)
	}
	if sessions > 0 {
		p.occupied = now
	}
	alone := now - p.occupied
	rests := p.used && alone >= lullTime
	if rests {
		p.used = false
	}
	idle = p.served && p.idleExit > 0 && alone >= p.idleExit
	p.mu.Unlock()
	if rests && p.rest != nil {
		p.rest()
	}
	return idle
}
