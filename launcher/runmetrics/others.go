package runmetrics

import (
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// othersTell says whether another process of this pod talks to one of the servers: it has a connection that is none of ours, or, before our
// first, the kernel remembers how fast that address answers (tcp_metrics, which connections that are over leave for an hour). What the
// kernel does not tell counts as nobody. Addresses of this machine alone prove nothing: much talks to them.
func othersTell(ours, servers []netip.AddrPort, first bool) bool {
	servers = slices.DeleteFunc(slices.Clone(servers), func(s netip.AddrPort) bool { return s.Addr().IsLoopback() })
	if len(servers) == 0 {
		return false
	}
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		sockets, _ := netlink.SocketDiagTCP(family)
		for _, s := range sockets {
			if slices.Contains(servers, pair(s.ID.Destination, s.ID.DestinationPort)) && !slices.Contains(ours, pair(s.ID.Source, s.ID.SourcePort)) {
				return true
			}
		}
	}
	return first && slices.ContainsFunc(remembered(), func(a netip.Addr) bool {
		return slices.ContainsFunc(servers, func(s netip.AddrPort) bool { return s.Addr() == a })
	})
}

func pair(ip []byte, port uint16) netip.AddrPort {
	a, _ := netip.AddrFromSlice(ip)
	return netip.AddrPortFrom(a.Unmap(), port)
}

// Of linux/tcp_metrics.h.
const (
	metricsFamily = "tcp_metrics"
	metricsGet    = 1
	metricsIPv4   = 1 // attributes
	metricsIPv6   = 2
)

// remembered are the addresses that TCP connections of this network namespace went to.
func remembered() (list []netip.Addr) {
	family, err := netlink.GenlFamilyGet(metricsFamily)
	if err != nil {
		return nil
	}
	r := nl.NewNetlinkRequest(int(family.ID), unix.NLM_F_DUMP)
	r.AddData(&nl.Genlmsg{Command: metricsGet, Version: 1})
	messages, err := r.Execute(unix.NETLINK_GENERIC, 0)
	if err != nil {
		return nil
	}
	for _, m := range messages {
		attributes, err := nl.ParseRouteAttr(m[min(nl.SizeofGenlmsg, len(m)):])
		if err != nil {
			continue
		}
		for _, a := range attributes {
			if kind := a.Attr.Type &^ unix.NLA_F_NESTED; kind == metricsIPv4 || kind == metricsIPv6 {
				if ip, ok := netip.AddrFromSlice(a.Value); ok {
					list = append(list, ip.Unmap())
				}
			}
		}
	}
	return list
}
