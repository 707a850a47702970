package host

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

// Network is what the interface of MPI's traffic is chosen from.
type Network struct {
	Interfaces []Interface
	RDMA       bool // some RDMA device can be used here, whether or not an interface belongs to it
}

// Interfaces is this host's network; hcas are its RDMA devices.
func Interfaces(hcas rdma.Inventory) (n Network, err error) {
	links, err := Links()
	if err == nil {
		n = NetworkOf(sysfs.Host(), links, hcas)
	}
	return n, err
}

// NetworkOf looks up what else is known of links: /proc/net/route, /proc/net/ipv6_route, /sys/class/net/IF/device/infiniband.
// No interface has an RDMA device that is not usable. What cannot be read counts as absent.
func NetworkOf(fsys sysfs.FS, links []Link, hcas rdma.Inventory) Network {
	devices := map[string]bool{}
	for _, h := range hcas.Usable() {
		devices[h.Name] = true
	}
	n := Network{RDMA: len(devices) > 0}
	out := defaultInterface(fsys)
	for _, l := range links {
		i := Interface{Link: l, Default: l.Name == out}
		names, _ := fsys.Names("sys/class/net/" + l.Name + "/device/infiniband")
		for _, device := range names {
			if devices[device] && i.RDMA == "" {
				i.RDMA = device
			}
		}
		n.Interfaces = append(n.Interfaces, i)
	}
	return n
}

func defaultInterface(fsys sysfs.FS) string {
	text, _ := fsys.Prefix("proc/net/route", maxRoutes)
	if name := defaultRoute4(string(text)); name != "" {
		return name
	}
	text, _ = fsys.Prefix("proc/net/ipv6_route", maxRoutes)
	return defaultRoute6(string(text))
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

// String lists the interfaces, a few of them where there are many.
func (n Network) String() string {
	const most = 16
	var names []string
	for _, i := range n.Interfaces[:min(len(n.Interfaces), most)] {
		names = append(names, i.String())
	}
	if more := len(n.Interfaces) - most; more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
