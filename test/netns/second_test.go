package netns_test

import (
	"net/netip"
	"testing"

	"github.com/mpiup/mpiup/test/netns"
)

func TestSecondNetwork(t *testing.T) {
	for _, tt := range []struct {
		name           string
		family         netns.Family
		second, routes string
	}{
		{"IPv4", netns.IPv4, "10.78.0.2", "default via 10.77.255.254 dev eth0"},
		{"dual stack", netns.DualStack, "10.78.0.2", "default via 10.77.255.254 dev eth0"},
		{"IPv6", netns.IPv6, "fd78::2", "default via fd77::fffe dev eth0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := up(t, netns.Config{Hosts: workers(2), Family: tt.family})
			if err := c.AddNetwork(t.Context(), "net1"); err != nil {
				t.Fatal(err)
			}
			if got := c.SecondAddr("w1"); got != netip.MustParseAddr(tt.second) {
				t.Errorf("w1 has %s, want %s", got, tt.second)
			}
			family := "-4"
			if tt.family == netns.IPv6 {
				family = "-6"
			}
			route := out(t, c, "w0", "ip "+family+" route show default | sed 's/ metric.*//; s/ *$//'")
			if route != tt.routes {
				t.Errorf("route %q, want %q", route, tt.routes)
			}
			dev := out(t, c, "w0", "ip -o route get "+tt.second+" | grep -o 'dev [a-z0-9]*'")
			if dev != "dev net1" {
				t.Errorf("the way to w1's second address is %q", dev)
			}
			l, err := c.Listen("w1", "tcp", netip.AddrPortFrom(c.SecondAddr("w1"), 7).String())
			if err != nil {
				t.Fatal(err)
			}
			serveEcho(t, l)
			conn, err := c.Dial(t.Context(), "w0", "tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if !alive(conn, long) {
				t.Error("nothing comes back through the second network")
			}
		})
	}
}
