package outfit

import (
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/agent/host"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/rdma"
	"github.com/mpiup/mpiup/test/machine"
	"github.com/mpiup/mpiup/topology/sysfs"
)

// links reads "eth0 10.99.0.1/24 fe80::1/64, net1 down 10.98.0.1/24".
func links(t *testing.T, text string) (list []host.Link) {
	t.Helper()
	list = []host.Link{{Name: "lo", Up: true, Loopback: true, Addrs: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/8")}}}
	for part := range strings.SplitSeq(text, ", ") {
		f := strings.Fields(part)
		l := host.Link{Name: f[0], Up: true}
		for _, word := range f[1:] {
			if word == "down" {
				l.Up = false
				continue
			}
			l.Addrs = append(l.Addrs, netip.MustParsePrefix(word))
		}
		list = append(list, l)
	}
	return list
}

func networkOf(t *testing.T, fixture, text string) host.Network {
	t.Helper()
	b, err := os.ReadFile("../host/testdata/" + fixture + ".txtar")
	if err != nil {
		t.Fatal(err)
	}
	files := sysfs.New(machine.Parse(t, string(b)))
	return host.NetworkOf(files, links(t, text), rdma.Read(files, rdma.Config{}))
}

const (
	two   = "eth0 10.99.0.1/24 fe80::1/64, net1 10.98.0.1/24 fe80::2/64"
	three = "eth0 10.99.0.1/24, net1 10.98.0.1/24, net2 10.97.0.1/24"
	six   = "eth0 fd99::1/64 fe80::1/64, net1 fd98::1/64 fe80::2/64"
)

func TestChoose(t *testing.T) {
	for _, tt := range []struct {
		name, fixture, links, asked string
		want                        string // "" none
		why                         string // part of it
	}{
		{"one interface", "multus", "eth0 10.99.0.1/24", "", "", "no other"},
		{"one that is up", "multus", "eth0 10.99.0.1/24, net1 down 10.98.0.1/24", "", "", "no other"},
		{"one beside a bridge without addresses", "multus", "eth0 10.99.0.1/24, cni0 fe80::3/64", "", "", "no other"},
		{"the default route's", "multus", two, "", "eth0", "default route"},
		{"the default route's of IPv6", "ipv6", six, "", "eth0", "default route"},
		{"no default route", "bare", two, "", "", "no default route"},
		{"the default route's has no address", "multus", "net1 10.98.0.1/24, net2 10.97.0.1/24", "", "", "no default route"},
		{"the secondary one with RDMA", "rdma", three, "", "net1", "RDMA"},
		{"a secondary one whose device cannot be used", "rdma", "eth0 10.99.0.1/24, net2 10.97.0.1/24", "", "eth0", "default route"},
		{"one with RDMA that is down", "rdma", "eth0 10.99.0.1/24, net1 down 10.98.0.1/24, net2 10.97.0.1/24", "", "eth0", "default route"},
		{"asked for by name", "multus", two, "net1", "net1", "--net asks for net1"},
		{"asked for against RDMA", "rdma", three, "eth0", "eth0", "--net asks for eth0"},
		{"the only one, asked for", "multus", "eth0 10.99.0.1/24", "eth0", "eth0", "asks for"},
		{"asked for by network", "multus", two, "10.98.0.0/16", "net1", "--net asks for 10.98.0.0/16"},
		{"asked for by a wide network", "multus", two, "10.0.0.0/8", "eth0", "asks for"},
		{"asked for by network of IPv6", "ipv6", six, "fd98::/16", "net1", "asks for"},
		{"loopback, asked for", "multus", two, "127.0.0.0/8", "lo", "asks for"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			asked, err := job.ParseNetwork(tt.asked)
			if err != nil {
				t.Fatal(err)
			}
			c, err := Choose(networkOf(t, tt.fixture, tt.links), asked)
			if err != nil || c.Name != tt.want || !strings.Contains(c.Why, tt.why) {
				t.Errorf("%q since %q, %v; want %q since %q", c.Name, c.Why, err, tt.want, tt.why)
			}
		})
	}
}

func TestChooseErrorsNameWhatThereIs(t *testing.T) {
	const there = "there are lo (127.0.0.1/8), eth0 (10.99.0.1/24), net1 (10.98.0.1/24, RDMA mlx5_1), net2 (10.97.0.1/24, down)"
	for _, tt := range []struct{ asked, want string }{
		{"net7", "--net net7: there is no such interface here; " + there + " (a network such as 10.98.0.0/16 finds it under any name)"},
		{"net2", "--net net2: the interface is not up or has no address; " + there},
		{"10.97.0.0/16", "--net 10.97.0.0/16: no interface here that is up has an address in it; " + there},
		{"fd98::/64", "--net fd98::/64: no interface here that is up has an address in it; " + there},
	} {
		asked, err := job.ParseNetwork(tt.asked)
		if err != nil {
			t.Fatal(err)
		}
		h := networkOf(t, "rdma", "eth0 10.99.0.1/24, net1 10.98.0.1/24, net2 down 10.97.0.1/24")
		if c, err := Choose(h, asked); err == nil || err.Error() != tt.want {
			t.Errorf("%s: got %q and\n%v, want\n%s", tt.asked, c.Name, err, tt.want)
		}
	}
	if got := (host.Network{}).String(); got != "none" {
		t.Errorf("a host without interfaces: %q", got)
	}
	many := host.Network{Interfaces: make([]host.Interface, 40)}
	if got := many.String(); !strings.HasSuffix(got, ", 24 more") {
		t.Errorf("a host of 40 interfaces: %q", got)
	}
}
