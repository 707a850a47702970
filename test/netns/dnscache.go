package netns

import (
	"time"

	"github.com/miekg/dns"
)

// CacheKind is what a cache keeps apart.
type CacheKind int

const (
	CoreDNS    CacheKind = iota // names, types, DO and CD bits
	OldCoreDNS                  // all but CD, as older CoreDNS
	WholeNames                  // a name that does not exist is remembered for all types and bits (RFC 2308, 5)
)

// Cache makes the server answer like Kubernetes' stock CoreDNS addon ("cache 30"): records and denials have that TTL,
// and the server repeats an answer until its TTL has run out, whatever the records are by then.
func (d *DNS) Cache(ttl time.Duration, kind CacheKind) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ttl = uint32(ttl / time.Second)
	d.cache = &cache{kind: kind, entries: map[cacheKey]cached{}}
}

// cache is what CoreDNS's plugin of that name does: an entry for each name, type, DO and CD bit, whose
// TTLs count down. There is no bound on it: it lives as long as a test.
type cache struct {
	kind    CacheKind
	entries map[cacheKey]cached
}

type cacheKey struct {
	name   string
	typ    uint16
	do, cd bool
}

type cached struct {
	reply *dns.Msg
	born  time.Time
}

// answer is what is remembered of q, or what make makes now.
func (c *cache) answer(q *dns.Msg, make func(*dns.Msg) *dns.Msg) *dns.Msg {
	o := q.IsEdns0()
	key := cacheKey{canonical(q.Question[0].Name), q.Question[0].Qtype, o != nil && o.Do(), q.CheckingDisabled && c.kind == CoreDNS}
	for _, k := range []cacheKey{key, {name: key.name}} {
		if e, ok := c.entries[k]; ok {
			if r := e.at(time.Now()); r != nil {
				r.Id, r.Question = q.Id, q.Question
				return r
			}
			delete(c.entries, k)
		}
	}
	r := make(q)
	if c.kind == WholeNames && r.Rcode == dns.RcodeNameError {
		key = cacheKey{name: key.name}
	}
	c.entries[key] = cached{r.Copy(), time.Now()}
	return r
}

// at is the reply with what is left of its TTLs, nil once they have run out.
func (e cached) at(now time.Time) *dns.Msg {
	r := e.reply.Copy()
	past := now.Sub(e.born)
	for _, rr := range append(append([]dns.RR(nil), r.Answer...), r.Ns...) {
		ttl := time.Duration(rr.Header().Ttl) * time.Second
		if past >= ttl {
			return nil
		}
		rr.Header().Ttl = uint32((ttl - past) / time.Second)
	}
	return r
}
