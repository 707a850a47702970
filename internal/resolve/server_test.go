package resolve

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// zone is an authoritative server on loopback, UDP and TCP on one port, that counts questions.
type zone struct {
	addr string

	mu     sync.Mutex     // guards all below
	asked  map[string]int // "name TYPE network"
	a      map[string][]string
	rcode  map[string]int
	silent map[string]bool // "name" or "name TYPE"
	noEDNS bool
	noTCP  bool
	// onlyAddresses refuses other types.
	onlyAddresses bool
}

func newZone(t *testing.T, a map[string][]string) *zone {
	t.Helper()
	z := &zone{asked: map[string]int{}, a: a, rcode: map[string]int{}, silent: map[string]bool{}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p, err := net.ListenPacket("udp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	z.addr = l.Addr().String()
	var done sync.WaitGroup
	for _, s := range []*dns.Server{{Listener: l, Handler: z}, {PacketConn: p, Handler: z}} {
		up := make(chan struct{})
		s.NotifyStartedFunc = func() { close(up) }
		done.Go(func() { s.ActivateAndServe() })
		<-up
		t.Cleanup(func() { s.Shutdown() })
	}
	return z
}

func (z *zone) questions() map[string]int {
	z.mu.Lock()
	defer z.mu.Unlock()
	out := map[string]int{}
	for k, v := range z.asked {
		out[k] = v
	}
	return out
}

func (z *zone) with(change func()) {
	z.mu.Lock()
	defer z.mu.Unlock()
	change()
}

func (z *zone) set(name string, addrs ...string) { z.with(func() { z.a[name] = addrs }) }

func (z *zone) ServeDNS(w dns.ResponseWriter, q *dns.Msg) {
	z.mu.Lock()
	defer z.mu.Unlock()
	name, typ := strings.ToLower(strings.TrimSuffix(q.Question[0].Name, ".")), dns.TypeToString[q.Question[0].Qtype]
	network := w.LocalAddr().Network()
	z.asked[name+" "+typ+" "+network]++
	if z.silent[name] || z.silent[name+" "+typ] || z.silent["*"] {
		return
	}
	m := new(dns.Msg)
	m.SetReply(q)
	addrs, ok := z.a[name]
	switch {
	case z.noTCP && network == "tcp":
		w.Close()
		return
	case z.noEDNS && q.IsEdns0() != nil:
		m.Rcode = dns.RcodeFormatError
		m.Question = nil
	case z.onlyAddresses && typ != "A" && typ != "AAAA":
		m.Rcode = dns.RcodeRefused
	case z.rcode[name] != 0:
		m.Rcode = z.rcode[name]
	case !ok:
		m.Rcode = dns.RcodeNameError
	}
	for _, a := range addrs {
		if m.Rcode != 0 {
			break
		}
		if v6 := strings.Contains(a, ":"); v6 != (typ == "AAAA") {
			continue
		}
		rr, err := dns.NewRR(fmt.Sprintf("%s. 5 IN %s %s", name, typ, a))
		if err != nil {
			panic(err)
		}
		m.Answer = append(m.Answer, rr)
	}
	if network == "udp" {
		size := 512
		if o := q.IsEdns0(); o != nil {
			size = int(o.UDPSize())
		}
		m.Truncate(size)
	}
	w.WriteMsg(m)
}

// root makes a directory with etc/hosts and etc/resolv.conf; an empty text makes no file.
func root(t *testing.T, hosts, conf string) string {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, "etc/hosts", hosts)
	write(t, dir, "etc/resolv.conf", conf)
	return dir
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if text == "" {
		return
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// to makes a Resolver whose every server is z.
func (z *zone) to(dir string) *Resolver {
	return New(Config{Root: dir, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, network, z.addr)
	}})
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}
