// Package resolve turns host names into addresses the way getaddrinfo does, with the
// differences that a job starting up in Kubernetes needs.
//
//	literal ("10.0.0.7", "fe80::1%eth0", "[::1]")            no file is read, nothing is sent
//	   │ no
//	/etc/hosts, exact name or alias, any case                 re-read when it has changed
//	   │ not there
//	/etc/resolv.conf → candidates, in order (search.go)       re-read when it has changed
//	   │
//	DNS: A and AAAA at once, UDP, then TCP when truncated     servers in turn, two rounds
//
// Where it differs from getaddrinfo, and why:
//
//   - A name that ends in ".svc" is completed with the cluster's domain, taken from the search
//     line kubelet wrote ("NS.svc.DOMAIN svc.DOMAIN DOMAIN"), and asked as that one absolute
//     name; a name that already ends in ".svc.DOMAIN" is asked as it stands. kubelet's
//     "ndots:5" would otherwise walk the whole search list, with two questions each, for every
//     host name of an operator's hostfile (kubeflow/mpi-operator#704).
//   - One try waits at most 2 s (options timeout: if less), and once one family has addresses
//     the other gets 250 ms more: a dropped AAAA answer must not cost 5 s.
//   - An answer cut short over UDP is used as it is when the server refuses TCP.
//   - "localhost" and names below it are loopback even without an /etc/hosts (RFC 6761, 6.3).
//
// In /etc/hosts a name matches whole: "worker-0" is found where it is listed as a name or an
// alias (kubelet lists the pod's short name as one) and not as the first label of
// "worker-0.job.ns.svc.cluster.local", which may be another job's host. A ".svc" name is also
// looked for in its completed form.
//
// A Resolver may be used by any number of goroutines. It starts none that outlive a call. At
// most 128 questions are under way at a time; literals and names in /etc/hosts never wait for
// one. nsswitch.conf, $LOCALDOMAIN and $RES_OPTIONS are not read and answers are not cached.
package resolve

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"time"
)

var (
	// ErrNoName: nobody has the name. It is not in /etc/hosts, and DNS answered that it does
	// not exist or has no address. In Kubernetes the name of a pod appears once it is Ready.
	ErrNoName = errors.New("no such name")
	// ErrServer: no DNS server gave an answer (none there, silent, or failing), so whether
	// the name exists is not known.
	ErrServer = errors.New("no answer from DNS")
)

// Error is what Lookup and Wait return. errors.Is tells ErrNoName from ErrServer.
type Error struct {
	Name string // as asked
	Kind error  // ErrNoName or ErrServer
	Why  string // what was asked of whom, and what came back
}

// Error names the host, the kind of failure and the reason, once each.
func (e *Error) Error() string { return fmt.Sprintf("%s: %v: %s", e.Name, e.Kind, e.Why) }

// Unwrap gives ErrNoName or ErrServer.
func (e *Error) Unwrap() error { return e.Kind }

// Config says where a Resolver looks. The zero value looks at this machine.
type Config struct {
	// Root is the directory under which etc/hosts and etc/resolv.conf are read. Default "/".
	Root string
	// Dial connects to a DNS server; network is "udp" or "tcp" and address ends in ":53".
	// Default: net.Dialer. Tests send it to a server on another port.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Resolver looks names up. Make one with New.
type Resolver struct {
	dial      func(ctx context.Context, network, address string) (net.Conn, error)
	hosts     *hostsFile
	conf      *confFile
	questions chan struct{} // one element per question under way
}

const maxQuestions = 128

// New makes a Resolver. It reads nothing yet.
func New(c Config) *Resolver {
	root := c.Root
	if root == "" {
		root = "/"
	}
	dial := c.Dial
	if dial == nil {
		var d net.Dialer
		dial = d.DialContext
	}
	return &Resolver{
		dial:      dial,
		hosts:     &hostsFile{path: filepath.Join(root, "etc/hosts")},
		conf:      &confFile{path: filepath.Join(root, "etc/resolv.conf")},
		questions: make(chan struct{}, maxQuestions),
	}
}

// Lookup gives the addresses of name, at least one, without duplicates: in the order of the
// hosts file, or IPv4 before IPv6 in the server's order; a family this machine has no route
// for comes last. The error is an *Error, or ctx's when ctx ended first.
func (r *Resolver) Lookup(ctx context.Context, name string) ([]netip.Addr, error) {
	if a, ok := literal(name); ok {
		return []netip.Addr{a}, nil
	}
	if !validName(name) {
		return nil, &Error{Name: name, Kind: ErrNoName, Why: "it cannot be a host name; labels have 1 to 63 letters, digits, '-' or '_'"}
	}
	conf := r.conf.get()
	if addrs := r.local(name, conf); addrs != nil {
		return routable(addrs), nil
	}
	addrs, err := r.dns(ctx, name, conf)
	if err != nil {
		return nil, err
	}
	return routable(addrs), nil
}

// local answers from /etc/hosts, or what needs no server. Nil: not known here.
func (r *Resolver) local(name string, conf *conf) []netip.Addr {
	if addrs := r.hosts.lookup(name); addrs != nil {
		return addrs
	}
	if full := conf.complete(name); full != "" {
		if addrs := r.hosts.lookup(full); addrs != nil {
			return addrs
		}
	}
	if n := key(name); n == "localhost" || strings.HasSuffix(n, ".localhost") {
		return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}
	}
	return nil
}

// Bounds of Wait's pause. With the jitter a waiting name is asked for every 3 s on average in
// the long run: 512 missing hosts are 340 questions a second, and a negative answer that a
// cache holds for 30 s (CoreDNS) costs at most 4 s more than those 30.
const (
	firstPause = 250 * time.Millisecond
	maxPause   = 4 * time.Second
	hostsPoll  = time.Second // /etc/hosts is looked at this often within a pause
)

// Wait looks name up until it has an address or ctx ends. report, if not nil, gets the error
// of each failed round. A name that cannot be one fails at once. The error is that of the last
// round that was not cut short by ctx, or ctx's own if there was none.
func (r *Resolver) Wait(ctx context.Context, name string, report func(error)) ([]netip.Addr, error) {
	var last error
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		addrs, err := r.Lookup(ctx, name)
		if err == nil {
			return addrs, nil
		}
		var e *Error
		if errors.As(err, &e) {
			last = err
			if report != nil {
				report(err)
			}
			if !validName(name) {
				return nil, err
			}
		}
		if r.pause(ctx, name, pause/2+rand.N(pause/2)); ctx.Err() != nil {
			if last != nil {
				return nil, last
			}
			return nil, fmt.Errorf("%s: %w", name, ctx.Err())
		}
	}
}

// pause waits for d, for ctx, or for name to appear in /etc/hosts.
func (r *Resolver) pause(ctx context.Context, name string, d time.Duration) {
	for d > 0 {
		step := min(d, hostsPoll)
		t := time.NewTimer(step)
		select {
		case <-ctx.Done():
			t.Stop()
			return
		case <-t.C:
		}
		if d -= step; r.local(name, r.conf.get()) != nil {
			return
		}
	}
}

// literal reads an address, in brackets or not, with or without a zone.
func literal(name string) (netip.Addr, bool) {
	if strings.HasPrefix(name, "[") && strings.HasSuffix(name, "]") {
		name = name[1 : len(name)-1]
	}
	a, err := netip.ParseAddr(name)
	return a.Unmap(), err == nil
}

// validName holds names to what DNS can carry (RFC 1035, 2.3.4) and hosts use.
func validName(name string) bool {
	name = strings.TrimSuffix(name, ".")
	if name == "" || len(name) > 253 {
		return false
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 {
			return false
		}
		for _, c := range []byte(label) {
			letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
			if !letter && !(c >= '0' && c <= '9') && c != '-' && c != '_' {
				return false
			}
		}
	}
	return true
}

// key is the form names are compared in.
func key(name string) string { return strings.ToLower(strings.TrimSuffix(name, ".")) }

// routable drops duplicates and, where both families occur, puts those that this machine has
// no route to last. Connecting a UDP socket sends nothing; it asks the kernel's routing table.
func routable(addrs []netip.Addr) []netip.Addr {
	var first [2]netip.Addr // of IPv4, IPv6
	var out []netip.Addr
	seen := map[netip.Addr]bool{}
	for _, a := range addrs {
		if seen[a] {
			continue
		}
		seen[a] = true
		out = append(out, a)
		if f := family(a); !first[f].IsValid() {
			first[f] = a
		}
	}
	if !first[0].IsValid() || !first[1].IsValid() {
		return out
	}
	var here, away []netip.Addr
	reach := [2]bool{hasRoute(first[0]), hasRoute(first[1])}
	for _, a := range out {
		if reach[family(a)] {
			here = append(here, a)
		} else {
			away = append(away, a)
		}
	}
	return append(here, away...)
}

func family(a netip.Addr) int {
	if a.Is4() {
		return 0
	}
	return 1
}

func hasRoute(a netip.Addr) bool {
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(a, 9)))
	if err != nil {
		return false
	}
	c.Close()
	return true
}
