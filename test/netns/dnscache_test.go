package netns

import (
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"
)

// A name is asked for before it is there, then it is set: each way to ask keeps the answer that it got
// first until its TTL has run down to nothing.
func TestDNSCache(t *testing.T) {
	type way struct {
		typ    uint16
		do, cd bool
	}
	ask := func(t *testing.T, d *DNS, w way) (rcode int, ttl uint32) {
		t.Helper()
		q := new(dns.Msg)
		q.SetQuestion("w0.job.ns.svc.cluster.local.", w.typ)
		q.SetEdns0(1232, w.do)
		q.CheckingDisabled = w.cd
		r := d.Answer(q)
		for _, rr := range append(r.Answer, r.Ns...) {
			ttl = rr.Header().Ttl
		}
		if r.Id != q.Id {
			t.Error("an answer has another question's id")
		}
		return r.Rcode, ttl
	}
	for name, kind := range map[string]CacheKind{"an entry for each way": CoreDNS, "an entry for a name": WholeNames} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := NewDNS("cluster.local")
				d.Cache(30*time.Second, kind)
				asked := []way{{dns.TypeA, false, false}, {dns.TypeA, true, false}}
				others := []way{{dns.TypeA, false, true}, {dns.TypeA, true, true}, {dns.TypeHINFO, false, false}}
				for _, w := range asked {
					if rcode, ttl := ask(t, d, w); rcode != dns.RcodeNameError || ttl != 30 {
						t.Errorf("%v: %d, TTL %d", w, rcode, ttl)
					}
				}
				d.Set("w0.job.ns.svc.cluster.local", netip.MustParseAddr("10.0.0.1"))
				time.Sleep(12 * time.Second)
				for _, w := range asked {
					if rcode, ttl := ask(t, d, w); rcode != dns.RcodeNameError || ttl != 18 {
						t.Errorf("%v after 12 s: %d, TTL %d", w, rcode, ttl)
					}
				}
				for _, w := range others {
					if rcode, _ := ask(t, d, w); (rcode == dns.RcodeNameError) != (kind == WholeNames) {
						t.Errorf("%v after 12 s: %d", w, rcode)
					}
				}
				time.Sleep(18 * time.Second)
				for _, w := range asked {
					if rcode, ttl := ask(t, d, w); rcode != dns.RcodeSuccess || ttl != 30 {
						t.Errorf("%v after 30 s: %d, TTL %d", w, rcode, ttl)
					}
				}
			})
		})
	}
}
