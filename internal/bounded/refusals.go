package bounded

import (
	"fmt"
	"net/netip"
	"sync"
	"time"
)

// Refusals decides which refused connections are logged: strangers can be many, and one that
// tries again and again for minutes is worth one line a minute. Of an address, a cause is logged
// when it is new or a minute old, and no more than one line a second in all.
type Refusals struct {
	mu   sync.Mutex
	last time.Time                // of the last line, guarded by mu
	seen map[netip.Addr]refusedAt // guarded by mu
}

type refusedAt struct {
	cause string
	at    time.Time
}

const (
	refusalPause  = time.Second
	refusalRepeat = time.Minute
	maxRefusals   = 1024 // addresses remembered
)

// Worth tells whether a refusal is to be logged, and remembers that it was.
func (r *Refusals) Worth(from fmt.Stringer, cause string, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Sub(r.last) < refusalPause {
		return false
	}
	var ip netip.Addr
	if ap, err := netip.ParseAddrPort(from.String()); err == nil {
		ip = ap.Addr().Unmap()
	}
	if old, ok := r.seen[ip]; ok && old.cause == cause && now.Sub(old.at) < refusalRepeat {
		return false
	}
	if r.seen == nil || len(r.seen) >= maxRefusals {
		r.seen = make(map[netip.Addr]refusedAt)
	}
	r.last, r.seen[ip] = now, refusedAt{cause, now}
	return true
}
