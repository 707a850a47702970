package rdma

import (
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/test/golden"
	"github.com/mpiup/mpiup/test/machine"
	"github.com/mpiup/mpiup/topology"
	"github.com/mpiup/mpiup/topology/sysfs"
)

func fixture(t testing.TB, name string) sysfs.FS {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name + ".txtar")
	if err != nil {
		t.Fatal(err)
	}
	return sysfs.New(machine.Parse(t, string(b)))
}

// show is an inventory as text.
func show(inv Inventory) string {
	var b strings.Builder
	for _, h := range inv.HCAs {
		fmt.Fprintf(&b, "%s %s driver=%q file=%q at=%s host=%q node=%d near=%s", h.Name, h.Kind, h.Driver, h.Verbs, h.At, h.Path.Host, h.Node, h.Near)
		if h.VF {
			b.WriteString(" VF")
		}
		b.WriteString("\n")
		if h.Denied != "" {
			fmt.Fprintf(&b, "  not usable: %s\n", h.Denied)
		}
		for _, p := range h.Ports {
			layer := "InfiniBand"
			if p.Ethernet {
				layer = "Ethernet"
			}
			fmt.Fprintf(&b, "  port %d %s %s %g Gb/s\n", p.Number, p.State, layer, p.Rate)
			for _, g := range p.GIDs {
				fmt.Fprintf(&b, "    gid %d %s v2=%t %s\n", g.Index, g.Addr, g.V2, g.Interface)
			}
			if g, ok := p.RoCE(); ok {
				fmt.Fprintf(&b, "    chosen: %d\n", g.Index)
			}
		}
	}
	fmt.Fprintf(&b, "GPUDirect RDMA: %s\n", inv.GDR)
	for _, s := range inv.Missing(Locked{Limit: 8 << 20}) {
		fmt.Fprintf(&b, "missing: %s\n", s)
	}
	return b.String()
}

func TestRead(t *testing.T) {
	for _, name := range []string{"roce", "notgranted", "ib8"} {
		golden.Is(t, "testdata/"+name+".golden", show(Read(fixture(t, name), Config{})))
	}
	if inv := Read(sysfs.New(fstest.MapFS{}), Config{}); len(inv.HCAs) != 0 || inv.Missing(Locked{}) != nil {
		t.Errorf("no files gave %+v", inv)
	}
}

// With the machine's network (hostNetwork) an entry counts when its address is one of the pod's.
func TestGIDOfAnAddress(t *testing.T) {
	inv := Read(fixture(t, "roce"), Config{Addresses: func() []Address { return []Address{{"bond0", netip.MustParseAddr("10.98.0.9")}} }})
	h := inv.Usable()[0]
	for _, g := range h.Ports[0].GIDs {
		if g.Index == 5 && g.Interface == "bond0" {
			return
		}
	}
	t.Errorf("no entry 5 of bond0 in %+v", h.Ports[0].GIDs)
}

func TestVariables(t *testing.T) {
	gpu, err := topology.ParsePCIPath("../../../devices/pci0000:b0/0000:b0:00.0/0000:b2:00.0", 1)
	if err != nil {
		t.Fatal(err)
	}
	roce, ib, alone := Read(fixture(t, "roce"), Config{}), Read(fixture(t, "ib8"), Config{}), Read(fixture(t, "one"), Config{})
	for _, tt := range []struct {
		name string
		inv  Inventory
		f    Fabric
		r    Rank
		want string
	}{
		{"nothing", Inventory{}, Auto, Rank{GPUs: true}, ""},
		{"one HCA, all of them usable", alone, Auto, Rank{GPUs: true, GPU: gpu}, ""},
		{"RoCE, a rank without a place", roce, Auto, Rank{}, "UCX_NET_DEVICES=mlx5_2:1,mlx5_10:1"},
		{"RoCE with GPUs", roce, Auto, Rank{GPUs: true, GPU: gpu},
			"NCCL_IB_HCA==mlx5_2:1,mlx5_10:1 UCX_NET_DEVICES=mlx5_10:1"},
		{"RoCE with GPUs and NCCL 2.20", roce, Auto, Rank{GPUs: true, GPU: gpu, NCCL: "2.20.5"},
			"NCCL_IB_HCA==mlx5_2:1,mlx5_10:1 NCCL_IB_GID_INDEX=3 UCX_NET_DEVICES=mlx5_10:1"},
		{"RoCE with GPUs and NCCL 2.21", roce, Auto, Rank{GPUs: true, GPU: gpu, NCCL: "2.21.5"},
			"NCCL_IB_HCA==mlx5_2:1,mlx5_10:1 UCX_NET_DEVICES=mlx5_10:1"},
		{"RoCE without GPUs and NCCL 2.20", roce, Auto, Rank{NCCL: "2.20.5"}, "UCX_NET_DEVICES=mlx5_2:1,mlx5_10:1"},
		{"a rank alone has all that can be used", roce, Auto, Rank{Alone: true, GPU: gpu, CPUs: idset.Range(0, 3)}, "UCX_NET_DEVICES=mlx5_2:1,mlx5_10:1"},
		{"a rank alone where all can be used", ib, Auto, Rank{Alone: true, GPUs: true, GPU: gpu}, ""},
		{"RoCE asked for", roce, RDMA, Rank{CPUs: idset.Range(0, 3)}, "UCX_IB_GID_INDEX=3 UCX_NET_DEVICES=mlx5_2:1"},
		{"CPUs of the other node", roce, Auto, Rank{CPUs: idset.Range(40, 41)}, "UCX_NET_DEVICES=mlx5_10:1"},
		{"CPUs of both nodes take turns, first", roce, Auto, Rank{CPUs: idset.Range(0, 63)}, "UCX_NET_DEVICES=mlx5_2:1"},
		{"CPUs of both nodes take turns, second", roce, Auto, Rank{Number: 1, CPUs: idset.Range(0, 63)}, "UCX_NET_DEVICES=mlx5_10:1"},
		{"InfiniBand, GPU behind the same switch", ib, Auto, Rank{GPUs: true, GPU: at(t, "pci0000:15/0000:15:00.0/0000:16:02.0/0000:18:00.0", 0)}, "UCX_NET_DEVICES=mlx5_2:1"},
		{"TCP", roce, TCP, Rank{GPUs: true, GPU: gpu}, "NCCL_IB_DISABLE=1 UCX_TLS=^ib FI_PROVIDER=tcp"},
		{"EFA", Inventory{HCAs: []HCA{{Name: "efa_0", Kind: EFA}}}, Auto, Rank{}, "FI_PROVIDER=efa"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, v := range tt.inv.Variables(tt.f, tt.r) {
				if v.Why == "" {
					t.Errorf("%s has no reason", v.Name)
				}
				got = append(got, v.Name+"="+v.Value)
			}
			if g := strings.Join(got, " "); g != tt.want {
				t.Errorf("got  %s\nwant %s", g, tt.want)
			}
		})
	}
}

func at(t *testing.T, text string, node int) topology.PCIPath {
	t.Helper()
	p, err := topology.ParsePCIPath("../../../devices/"+text, node)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// NCCL refuses ports of both link layers in one job: the faster layer's are used.
func TestOneLinkLayer(t *testing.T) {
	port := func(ethernet bool, rate float64) []Port {
		return []Port{{Number: 1, State: "ACTIVE", Ethernet: ethernet, Rate: rate}}
	}
	for _, tt := range []struct {
		ethernet, infiniband float64
		want                 string
	}{{100, 400, "a:1"}, {400, 100, "b:1"}, {100, 100, "a:1"}} {
		inv := Inventory{HCAs: []HCA{
			{Name: "a", Kind: Verbs, Ports: port(false, tt.infiniband)},
			{Name: "b", Kind: Verbs, Ports: port(true, tt.ethernet)},
		}}
		if got := join(inv.ports()); got != tt.want {
			t.Errorf("%g of Ethernet and %g of InfiniBand: %s, want %s", tt.ethernet, tt.infiniband, got, tt.want)
		}
	}
}

// What is there and not understood is named.
func TestNonsenseIsNamed(t *testing.T) {
	var told []string
	fsys := sysfs.New(machine.Parse(t, `
-- sys/class/infiniband/a/ports/1/state --
up
-- sys/class/infiniband/a/ports/1/rate --
much
-- sys/class/infiniband/a/device/numa_node --
here
-- sys/class/infiniband_verbs/uverbs0/ibdev --
a,b
`)).Noting(func(err error) { told = append(told, err.Error()) })
	inv := Read(fsys, Config{})
	if len(inv.HCAs) != 1 || inv.HCAs[0].Verbs != "" || inv.HCAs[0].Ports[0].State != "" {
		t.Errorf("%+v", inv)
	}
	for _, want := range []string{
		`/sys/class/infiniband/a/ports/1/state: "up" is not the state of a port`, `/sys/class/infiniband/a/ports/1/rate: "much" is not the rate of a port`,
		`/sys/class/infiniband/a/device/numa_node: "here" is not a number`, `/sys/class/infiniband_verbs/uverbs0/ibdev: "a,b" is not the name of a device`,
	} {
		if !slices.Contains(told, want) {
			t.Errorf("%q is not among %q", want, told)
		}
	}
}
