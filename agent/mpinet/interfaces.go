package mpinet

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/mpiup/mpiup/rdma"
	"github.com/mpiup/mpiup/topology/sysfs"
)

// Link is an interface as the kernel's address list has it.
type Link struct {
	Name     string
	Up       bool
	Loopback bool
	Addrs    []netip.Prefix
}

// Links is this host's interfaces, in the order of their indexes.
func Links() ([]Link, error) {
	all, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("the list of network interfaces: %w", err)
	}
	slices.SortFunc(all, func(a, b net.Interface) int { return a.Index - b.Index })
	links := make([]Link, 0, len(all))
	for _, i := range all {
		addrs, err := i.Addrs()
		if err != nil {
			return nil, fmt.Errorf("addresses of interface %s: %w", i.Name, err)
		}
		l := Link{Name: i.Name, Up: i.Flags&net.FlagUp != 0, Loopback: i.Flags&net.FlagLoopback != 0}
		for _, a := range addrs {
			if n, ok := a.(*net.IPNet); ok {
				if addr, ok := netip.AddrFromSlice(n.IP); ok {
					bits, _ := n.Mask.Size()
					l.Addrs = append(l.Addrs, netip.PrefixFrom(addr.Unmap(), bits))
				}
			}
		}
		links = append(links, l)
	}
	return links, nil
}

// Interface is a link and what the host's files say of it.
type Interface struct {
	Link
	Default bool   // the default route leaves by it: IPv4's, else IPv6's
	RDMA    string // a device that it is the network side of and that this container can use; "" none
}

// Host is what a choice is made from.
type Host struct {
	Interfaces []Interface
	RDMA       bool // some RDMA device can be used here, whether or not an interface belongs to it
}

// Read looks up what else is known of links: /proc/net/route, /proc/net/ipv6_route, /sys/class/net/IF/device/infiniband.
// hcas are the host's RDMA devices; no interface has one that is not usable. What Read cannot read counts as absent.
func Read(fsys sysfs.FS, links []Link, hcas rdma.Inventory) Host {
	devices := map[string]bool{}
	for _, h := range hcas.Usable() {
		devices[h.Name] = true
	}
	h := Host{RDMA: len(devices) > 0}
	out := defaultInterface(fsys)
	for _, l := range links {
		i := Interface{Link: l, Default: l.Name == out}
		names, _ := fsys.Names("sys/class/net/" + l.Name + "/device/infiniband")
		for _, device := range names {
			if devices[device] && i.RDMA == "" {
				i.RDMA = device
			}
		}
		h.Interfaces = append(h.Interfaces, i)
	}
	return h
}

func defaultInterface(fsys sysfs.FS) string {
	text, _ := fsys.Prefix("proc/net/route", maxRoutes)
	if name := defaultRoute4(string(text)); name != "" {
		return name
	}
	text, _ = fsys.Prefix("proc/net/ipv6_route", maxRoutes)
	return defaultRoute6(string(text))
}

// candidate says that ranks of other hosts may reach this one by the interface.
func (i Interface) candidate() bool { return i.Up && !i.Loopback && len(i.global()) > 0 }

// global is its addresses that are good beyond the link.
func (i Interface) global() (addrs []netip.Prefix) {
	for _, a := range i.Addrs {
		if !a.Addr().IsLinkLocalUnicast() {
			addrs = append(addrs, a)
		}
	}
	return addrs
}

// String is the interface for messages: "net1 (10.98.0.1/24, RDMA mlx5_0)".
func (i Interface) String() string {
	var facts []string
	for _, a := range i.Addrs {
		facts = append(facts, a.String())
	}
	if len(i.Addrs) == 0 {
		facts = append(facts, "no address")
	}
	if !i.Up {
		facts = append(facts, "down")
	}
	if i.RDMA != "" {
		facts = append(facts, "RDMA "+i.RDMA)
	}
	return i.Name + " (" + strings.Join(facts, ", ") + ")"
}
