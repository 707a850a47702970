package netns

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"

	"github.com/miekg/dns"
)

// defaultTTL is how long a resolver may remember an answer, or that a name does not exist, in seconds. CoreDNS has it
// for a cluster's zone unless its configuration says more.
const defaultTTL = 5

// DNS is an authoritative name server for one zone, whose records may change at any time. Its
// methods may be called from any goroutine.
//
// Names it has no record of get NXDOMAIN with the zone's SOA; names outside the zone REFUSED.
// Answers too long for UDP are truncated, TCP gives all. It remembers nothing, unless [DNS.Cache]
// is called.
type DNS struct {
	zone string // absolute, lower case

	mu      sync.Mutex
	cache   *cache                  // guarded by mu: nil when there is none
	ttl     uint32                  // guarded by mu: of answers and denials, in seconds
	records map[string][]netip.Addr // guarded by mu: absolute lower-case names
	silent  bool                    // guarded by mu
	queries []string                // guarded by mu: "A w0.job...", at most maxQueries
}

// maxQueries bounds what Queries remembers.
const maxQueries = 10_000

// NewDNS is a server of zone (such as "cluster.local") without records.
func NewDNS(zone string) *DNS {
	return &DNS{zone: canonical(zone), ttl: defaultTTL, records: map[string][]netip.Addr{}}
}

func canonical(name string) string { return strings.ToLower(dns.Fqdn(name)) }

// Set makes addrs the records of name, in place of those it had; without addrs the name exists
// but has no address. A name and a TTL of 5 s are all that a record has.
func (d *DNS) Set(name string, addrs ...netip.Addr) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.records[canonical(name)] = addrs
}

// Add adds addresses to those of name, as a headless service has many.
func (d *DNS) Add(name string, addrs ...netip.Addr) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := canonical(name)
	d.records[n] = append(append([]netip.Addr(nil), d.records[n]...), addrs...)
}

// Remove makes name unknown.
func (d *DNS) Remove(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.records, canonical(name))
}

// Silent makes the server drop every query, as a lost one would, or answer again.
func (d *DNS) Silent(silent bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.silent = silent
}

// Queries are the questions asked since the last call, such as "AAAA w0.ns.svc.cluster.local.".
func (d *DNS) Queries() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	q := d.queries
	d.queries = nil
	return q
}

// ServeDNS answers one query; it makes a DNS a dns.Handler.
func (d *DNS) ServeDNS(w dns.ResponseWriter, q *dns.Msg) {
	reply := d.Answer(q)
	if reply == nil {
		return
	}
	if _, udp := w.RemoteAddr().(*net.UDPAddr); udp {
		size := dns.MinMsgSize
		if o := q.IsEdns0(); o != nil {
			size = int(o.UDPSize())
		}
		reply.Truncate(size)
	}
	_ = w.WriteMsg(reply) // a client that went away
}

// Answer is the reply to q, nil when the server is silent.
func (d *DNS) Answer(q *dns.Msg) *dns.Msg {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.silent || len(q.Question) != 1 {
		return nil
	}
	ask := q.Question[0]
	if len(d.queries) < maxQueries {
		d.queries = append(d.queries, dns.TypeToString[ask.Qtype]+" "+ask.Name)
	}
	if d.cache != nil {
		return d.cache.answer(q, d.made)
	}
	return d.made(q)
}

// made is the answer by the records as they are now. mu is held.
func (d *DNS) made(q *dns.Msg) *dns.Msg {
	ask := q.Question[0]
	r := new(dns.Msg)
	r.SetReply(q)
	if !dns.IsSubDomain(d.zone, canonical(ask.Name)) {
		r.Rcode = dns.RcodeRefused
		return r
	}
	r.Authoritative = true
	addrs, known := d.records[canonical(ask.Name)]
	for _, a := range addrs {
		h := dns.RR_Header{Name: ask.Name, Rrtype: ask.Qtype, Class: dns.ClassINET, Ttl: d.ttl}
		switch {
		case a.Is4() && ask.Qtype == dns.TypeA:
			r.Answer = append(r.Answer, &dns.A{Hdr: h, A: a.AsSlice()})
		case a.Is6() && ask.Qtype == dns.TypeAAAA:
			r.Answer = append(r.Answer, &dns.AAAA{Hdr: h, AAAA: a.AsSlice()})
		}
	}
	if len(r.Answer) > 0 {
		return r
	}
	if !known && !d.above(canonical(ask.Name)) {
		r.Rcode = dns.RcodeNameError
	}
	r.Ns = []dns.RR{&dns.SOA{
		Hdr: dns.RR_Header{Name: d.zone, Rrtype: dns.TypeSOA, Class: dns.ClassINET, Ttl: d.ttl},
		Ns:  "ns.dns." + d.zone, Mbox: "hostmaster." + d.zone,
		Serial: 1, Refresh: 7200, Retry: 1800, Expire: 86400, Minttl: d.ttl,
	}}
	return r
}

// above says whether there are records below name, which then exists (RFC 8020).
func (d *DNS) above(name string) bool {
	for n := range d.records {
		if dns.IsSubDomain(name, n) {
			return true
		}
	}
	return false
}

// Serve answers on pc and l until ctx ends, and closes both. Either may be nil.
func (d *DNS) Serve(ctx context.Context, pc net.PacketConn, l net.Listener) error {
	var servers []*dns.Server
	if pc != nil {
		servers = append(servers, &dns.Server{PacketConn: pc, Handler: d})
	}
	if l != nil {
		servers = append(servers, &dns.Server{Listener: l, Handler: d})
	}
	ended := make(chan error, len(servers))
	ready := make(chan struct{}, len(servers))
	for _, s := range servers {
		s.NotifyStartedFunc = func() { ready <- struct{}{} }
		go func() { ended <- s.ActivateAndServe() }()
	}
	var errs []error
	stopped := 0
	for range servers { // Shutdown before the start would be lost
		select {
		case <-ready:
		case err := <-ended:
			errs = append(errs, err)
			stopped++
		}
	}
	if stopped == 0 {
		<-ctx.Done()
	}
	for _, s := range servers {
		_ = s.Shutdown() // an error says that it has ended by itself
	}
	for range len(servers) - stopped {
		errs = append(errs, <-ended)
	}
	return errors.Join(errs...)
}

// startDNS serves the zone that the cluster's domain is in, on the switch, with records for
// all hosts.
func (c *Cluster) startDNS() error {
	zone := c.cfg.Domain
	if _, z, ok := strings.Cut(zone, ".svc."); ok {
		zone = z
	}
	d := NewDNS(zone)
	for _, h := range c.hosts {
		d.Set(c.FQDN(h.name), h.addresses()...)
	}
	at := netip.AddrPortFrom(addressesOf(c.cfg.Family, switchIndex)[0], 53).String()
	pc, err := c.sw.listenPacket("udp", at)
	if err != nil {
		return fmt.Errorf("name server: %w", err)
	}
	l, err := c.sw.listen("tcp", at)
	if err != nil {
		pc.Close()
		return fmt.Errorf("name server: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- d.Serve(ctx, pc, l) }()
	c.dns = d
	c.dnsStop = func() error {
		cancel()
		return <-ended
	}
	return nil
}
