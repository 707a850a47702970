package netns

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
)

// AddNetwork gives every host a second network, as Multus gives pods: an interface of that name on a bridge of
// its own, with the addresses of [Cluster.SecondAddr]. The first network's becomes the default route's. It may
// be called once.
func (c *Cluster) AddNetwork(ctx context.Context, name string) error {
	var b strings.Builder
	b.WriteString("link add br1 type bridge stp_state 0 forward_delay 0 mcast_snooping 0\nlink set br1 up\n")
	for _, h := range c.hosts {
		v := "w" + strconv.Itoa(h.index)
		fmt.Fprintf(&b, "link add %s type veth peer name %s netns /proc/%d/fd/%d\n", v, name, os.Getpid(), h.ns.net.Fd())
		fmt.Fprintf(&b, "link set %s addrgenmode none\nlink set %s master br1\nlink set %s up\n", v, v, v)
	}
	if err := c.ip(ctx, c.sw, b.String()); err != nil {
		return fmt.Errorf("test hosts: second network: %w", err)
	}
	for _, h := range c.hosts {
		lines := fmt.Sprintf("link set %s addrgenmode none\nlink set %s up\n", name, name)
		for _, a := range h.addresses() {
			second := secondOf(a)
			lines += fmt.Sprintf("addr add %s dev %s%s\n", prefixOf(second), name, nodad(second))
		}
		for _, gateway := range addressesOf(c.cfg.Family, switchIndex) {
			lines += fmt.Sprintf("route add default via %s dev eth0\n", gateway)
		}
		if err := c.ip(ctx, h.ns, lines); err != nil {
			return fmt.Errorf("test hosts: second network: host %s: %w", h.name, err)
		}
	}
	return nil
}

// SecondAddr is a host's first address in the second network: 10.78.0.0/16, or fd78::/64 of IPv6 hosts.
func (c *Cluster) SecondAddr(hostName string) netip.Addr { return secondOf(c.Addr(hostName)) }

// secondOf is the same number in the second network.
func secondOf(a netip.Addr) netip.Addr {
	if a.Is4() {
		b := a.As4()
		b[1] = 78
		return netip.AddrFrom4(b)
	}
	b := a.As16()
	binary.BigEndian.PutUint16(b[:], 0xfd78)
	return netip.AddrFrom16(b)
}
