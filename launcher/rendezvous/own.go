package rendezvous

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// place is where the endpoint is, as seen from this pod.
type place struct {
	own       bool         // it is this pod's
	sure      bool         // the command line says that it is, or that it is not
	listen    string       // the address to listen at; "": all of this pod's
	addresses []netip.Addr // where it is reached
}

// locate finds out whose the endpoint is. torch compares the name with the host's, and a number with the addresses that the name
// has (_matches_machine_hostname, torch/distributed/elastic/rendezvous/utils.py); here a name counts by its addresses, too.
func (c *Config) locate(ctx context.Context) (place, error) {
	p := place{}
	if c.Hosts != nil {
		p.own, p.sure = *c.Hosts, true
	}
	literal, err := netip.ParseAddr(c.Host)
	switch {
	case err == nil:
		p.addresses = []netip.Addr{literal.Unmap()}
	case strings.EqualFold(c.Host, "localhost"):
		p.addresses = []netip.Addr{netip.MustParseAddr("127.0.0.1")}
	case p.own: // whatever the name's address is: a service's, perhaps
		return p, nil
	default:
		if p.addresses, err = c.Lookup(ctx, c.Host); err != nil {
			if strings.EqualFold(c.Host, c.Name) && !p.sure {
				p.own = true
				p.addresses = []netip.Addr{netip.MustParseAddr("127.0.0.1")}
				return p, nil
			}
			return p, err
		}
	}

	mine := 0
	for _, a := range p.addresses {
		if isOwn(a, c.Interfaces) {
			mine++
		}
	}
	if !p.sure {
		p.own = mine > 0
	}
	if p.own && mine > 0 && mine < len(p.addresses) && !p.sure {
		return p, &Error{Code: exitEndpoint, Text: fmt.Sprintf("%s has %d addresses, of which %d are this pod's: name one pod, where all nodes are to meet",
			c.Host, len(p.addresses), mine)}
	}
	if p.own && literal.IsValid() && mine > 0 && !(p.sure && isLocalhost(literal)) {
		p.listen = literal.String()
	}
	return p, nil
}

// isLocalhost says that an address is the one by which a host that is sure to be it may call itself; the others know it by another.
func isLocalhost(a netip.Addr) bool {
	return a == netip.MustParseAddr("127.0.0.1") || a == netip.IPv6Loopback()
}

// isOwn says that an address is one of this pod's.
func isOwn(a netip.Addr, interfaces func() ([]net.Addr, error)) bool {
	if a.IsLoopback() {
		return true
	}
	list, err := interfaces()
	if err != nil {
		return false
	}
	return slices.ContainsFunc(list, func(i net.Addr) bool {
		p, err := netip.ParsePrefix(i.String())
		return err == nil && p.Addr().Unmap() == a
	})
}

// Times of the kernel's look for a dead peer: the first probe, from one to the next, and how many may stay unanswered. What is
// sent and not acknowledged is waited for as long.
const (
	probeIdle  = 5 * time.Second
	probeEvery = 5 * time.Second
	probes     = 5
)

// probe has the kernel look now and then whether the other side's kernel is there.
func probe(conn *net.TCPConn) {
	_ = conn.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: probeIdle, Interval: probeEvery, Count: probes})
	raw, err := conn.SyscallConn()
	if err != nil {
		return
	}
	const bound = probeIdle + probes*probeEvery
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(bound/time.Millisecond))
	})
}
