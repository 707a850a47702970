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
//   - Where resolv.conf names no cluster's domain (dnsPolicy None without searches), it and the namespace are those of Config.Domain.
//   - A name of one label is first asked for as a host of Config.Domain: "pi-1" is a pod of an Indexed Job, and kubelet's
//     search list has its namespace, not its headless service.
//   - One try waits at most 2 s (options timeout: if less), and once one family has addresses
//     the other gets 250 ms more: a dropped AAAA answer must not cost 5 s.
//   - An answer cut short over UDP is used as it is when the server refuses TCP.
//   - "localhost" and names below it are loopback even without an /etc/hosts (RFC 6761, 6.3).
//
// In /etc/hosts a name matches whole: "worker-0" is found where it is listed as a name or an alias (kubelet lists the
// pod's short name as one). It is not found as the first label of "worker-0.job.ns.svc.cluster.local", which may be
// another job's host. A ".svc" name is also looked for in its completed form.
//
// A Resolver may be used by any number of goroutines. It starts none that outlive a call. At
// most 128 questions are under way at a time; literals and names in /etc/hosts never wait for
// one. nsswitch.conf, $LOCALDOMAIN and $RES_OPTIONS are not read and answers are not cached. A Watch
// waits for a name that is yet to appear, past the caches that remember that it was not there; Once is for who does not wait.
package resolve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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

// Error is what Lookup and a Watch return. errors.Is tells ErrNoName from ErrServer.
type Error struct {
	Name string // as asked
	Kind error  // ErrNoName or ErrServer
	Why  string // what was asked of whom, and what came back
	// Searchless says that resolv.conf has no search list, so that only the name as it stands was asked for.
	Searchless bool
	// Cached is how long DNS may go on denying a name that appears meanwhile. It is the TTL of the zone's SOA that
	// came with a Watch's earliest denial. 0: nothing says.
	Cached time.Duration
}

// Error names the host, the kind of failure and the reason, once each.
func (e *Error) Error() string { return fmt.Sprintf("%s: %v: %s", e.Name, e.Kind, e.Why) }

// Unwrap gives ErrNoName or ErrServer.
func (e *Error) Unwrap() error { return e.Kind }

// Config says where a Resolver looks. The zero value looks at this machine.
type Config struct {
	// Root is the directory under which etc/hosts and etc/resolv.conf are read. Default "/".
	Root string
	// Domain is where the siblings of this host have their names: a pod's headless service. "": there is none.
	Domain string
	// Dial connects to a DNS server; network is "udp" or "tcp" and address ends in ":53".
	// Default: net.Dialer. Tests send it to a server on another port.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Resolver looks names up. Make one with New.
type Resolver struct {
	dial      func(ctx context.Context, network, address string) (net.Conn, error)
	domain    string
	hosts     *hostsFile
	conf      *confFile
	questions chan struct{} // one element per question under way
}

const maxQuestions = 128

// New makes a Resolver. It reads nothing yet.
func New(c Config) *Resolver {
	root := cmp.Or(c.Root, "/")
	dial := c.Dial
	if dial == nil {
		var d net.Dialer
		dial = d.DialContext
	}
	return &Resolver{
		dial:      dial,
		domain:    c.Domain,
		hosts:     &hostsFile{path: filepath.Join(root, "etc/hosts")},
		conf:      &confFile{path: filepath.Join(root, "etc/resolv.conf")},
		questions: make(chan struct{}, maxQuestions),
	}
}

// configured is what resolv.conf says now, with what this host's own domain tells besides.
func (r *Resolver) configured() *conf { return r.conf.get().within(r.domain) }

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
	conf := r.configured()
	if addrs := r.local(name, conf); addrs != nil {
		return routable(addrs), nil
	}
	h, err := r.dns(ctx, name, conf, way{})
	if err != nil {
		return nil, err
	}
	return routable(h.addrs), nil
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

// literal reads an address, in brackets or not, with or without a zone.
func literal(name string) (netip.Addr, bool) {
	if strings.HasPrefix(name, "[") && strings.HasSuffix(name, "]") {
		name = name[1 : len(name)-1]
	}
	a, err := netip.ParseAddr(name)
	return a.Unmap(), err == nil
}

const nameBytes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"

// validName holds names to what DNS can carry (RFC 1035, 2.3.4) and hosts use.
func validName(name string) bool {
	name = strings.TrimSuffix(name, ".")
	if name == "" || len(name) > 253 {
		return false
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 || strings.Trim(label, nameBytes) != "" {
			return false
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
