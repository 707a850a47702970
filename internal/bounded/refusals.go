package bounded

import (
	"fmt"
	"net/netip"
	"sync"
	"time"
)

// Refusals decides which refused connections are logged: strangers can be many, and one that tries again and again is worth one line a minute.
// Of an address each cause is logged when it is new or a minute old. What is remembered is bounded, and so are the lines: of one address at
// most mostCauses, of all at most maxRefusals a minute. Those that are left out then are counted, and the next line says how many.
type Refusals struct {
	mu   sync.Mutex
	seen map[refusal]time.Time // when a line told of it, guarded by mu
	by   map[netip.Addr]int    // entries of seen of an address, guarded by mu
	left int                   // refusals that no line told of for want of room, guarded by mu
}

type refusal struct {
	from  netip.Addr
	cause string
}

const (
	refusalRepeat = time.Minute
	maxRefusals   = 1024 // addresses and causes that are remembered
	mostCauses    = 8    // of an address
	maxCause      = 256  // bytes of a cause by which it is known
)

// Worth tells whether a refusal is to be logged, and remembers that it was. left is how many others were not since the last that was, although they
// were new: too many came within a minute.
func (r *Refusals) Worth(from fmt.Stringer, cause string, now time.Time) (worth bool, left int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	is := refusal{cause: cause[:min(len(cause), maxCause)]}
	if ap, err := netip.ParseAddrPort(from.String()); err == nil {
		is.from = ap.Addr().Unmap()
	}
	if at, ok := r.seen[is]; ok && now.Sub(at) < refusalRepeat {
		return false, 0
	}

	if _, ok := r.seen[is]; !ok && (len(r.seen) >= maxRefusals || r.by[is.from] >= mostCauses) {
		r.forget(now)
		if len(r.seen) >= maxRefusals || r.by[is.from] >= mostCauses {
			r.left++
			return false, 0
		}
	}
	if r.seen == nil {
		r.seen, r.by = map[refusal]time.Time{}, map[netip.Addr]int{}
	}
	if _, ok := r.seen[is]; !ok {
		r.by[is.from]++
	}
	r.seen[is] = now
	left, r.left = r.left, 0
	return true, left
}

// forget lets go what is a minute old. mu is held.
func (r *Refusals) forget(now time.Time) {
	for is, at := range r.seen {
		if now.Sub(at) < refusalRepeat {
			continue
		}
		delete(r.seen, is)
		if r.by[is.from]--; r.by[is.from] == 0 {
			delete(r.by, is.from)
		}
	}
}
