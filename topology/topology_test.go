package topology

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/internal/idset"
)

func set(list string) idset.Set {
	s, err := idset.Parse(list)
	if err != nil {
		panic(err)
	}
	return s
}

func part(list string) Part { return Part{CPUs: set(list)} }

// tree is a machine as text: type, CPUs, and what is inside in brackets; nodes after "+", I/O after
// "~".
func tree(o *Object) string {
	var b strings.Builder
	b.WriteString(o.Type.String())
	if !o.Type.IO() {
		b.WriteString(":" + o.CPUs.String())
	}
	for _, list := range []struct {
		sign string
		of   []*Object
	}{{"+", o.Memory}, {" ", o.Children}, {"~", o.IO}} {
		for _, c := range list.of {
			if c.Type == TypePU {
				continue
			}
			b.WriteString(list.sign + "[" + tree(c) + "]")
		}
	}
	return b.String()
}

func TestAssemble(t *testing.T) {
	for _, tt := range []struct {
		name  string
		parts Parts
		want  string
	}{
		{"one CPU", Parts{Online: set("0")},
			"Machine:0+[NUMANode:0]"},
		{"levels with the same CPUs", Parts{Online: set("0-1"), Packages: []Part{part("0-1")}, Cores: []Part{part("0"), part("1")},
			Caches: []CachePart{{Cache: Cache{Level: 1, Kind: Data}, CPUs: set("0")}, {Cache: Cache{Level: 1, Kind: Instruction}, CPUs: set("0")},
				{Cache: Cache{Level: 3}, CPUs: set("0-1")}}},
			"Machine:0-1 [Package:0-1+[NUMANode:0-1] [L3Cache:0-1 [L1Cache:0 [L1iCache:0 [Core:0]]] [Core:1]]]"},
		{"a core in two packages is left out", Parts{Online: set("0-3"), Packages: []Part{part("0-1"), part("2-3")}, Cores: []Part{part("1-2"), part("0")}},
			"Machine:0-3+[NUMANode:0-3] [Package:0-1 [Core:0]] [Package:2-3]"},
		{"offline CPUs", Parts{Present: set("0-3"), Online: set("0,2"), Packages: []Part{part("0-3")}, Cores: []Part{part("0-1"), part("2-3"), part("1,3")}},
			"Machine:0,2 [Package:0,2+[NUMANode:0,2] [Core:0] [Core:2]]"},
		{"one die a package says nothing", Parts{Online: set("0-3"), Packages: []Part{part("0-1"), part("2-3")}, Dies: []Part{part("0-1"), part("2-3")}},
			"Machine:0-3+[NUMANode:0-3] [Package:0-1] [Package:2-3]"},
		{"two dies do", Parts{Online: set("0-3"), Packages: []Part{part("0-3")}, Dies: []Part{part("0-1"), part("2-3")}},
			"Machine:0-3 [Package:0-3+[NUMANode:0-3] [Die:0-1] [Die:2-3]]"},
		{"a cluster like a cache says nothing", Parts{Online: set("0-3"), Clusters: []Part{part("0-1"), part("2-3")},
			Caches: []CachePart{{Cache: Cache{Level: 2}, CPUs: set("0-1")}}},
			"Machine:0-3+[NUMANode:0-3] [L2Cache:0-1] [Group:2-3]"},
		{"a node of some cores makes a group", Parts{Online: set("0-3"), Packages: []Part{part("0-3")}, Cores: []Part{part("0"), part("1"), part("2"), part("3")},
			Nodes: []NodePart{{OS: 0, CPUs: set("0-1")}, {OS: 1, CPUs: set("2-3")}}},
			"Machine:0-3 [Package:0-3 [Group:0-1+[NUMANode:0-1] [Core:0] [Core:1]] [Group:2-3+[NUMANode:2-3] [Core:2] [Core:3]]]"},
		{"a node across cores hangs at what holds both", Parts{Online: set("0-3"), Packages: []Part{part("0-3")}, Cores: []Part{part("0-1"), part("2-3")},
			Nodes: []NodePart{{OS: 0, CPUs: set("1-2")}, {OS: 1, CPUs: set("0,2-3")}}},
			"Machine:0-3 [Package:0-3+[NUMANode:1-2] [Core:0-1] [Core:2-3]] [Group:+[NUMANode:]]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, err := New(tt.parts)
			if err != nil {
				t.Fatal(err)
			}
			if got := tree(m.Root); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
			sound(t, m)
		})
	}
}

// sound checks what holds of every machine.
func sound(t *testing.T, m *Machine) {
	t.Helper()
	pus := idset.Set{}
	m.Root.walk(func(o *Object) {
		for _, list := range [][]*Object{o.Children, o.Memory, o.IO} {
			for _, c := range list {
				if c.Parent != o {
					t.Fatalf("%s in %s has another parent", c.Type, o.Type)
				}
			}
		}
		if o.Type.IO() {
			return
		}
		if o.Type == TypePU {
			pus.Add(o.OS)
		}
		var inside idset.Set
		for _, c := range o.Children {
			if inside.Overlaps(c.CPUs) || !o.CPUs.Covers(c.CPUs) || !o.Nodes.Covers(c.Nodes) {
				t.Fatalf("%s in %s", tree(c), tree(o))
			}
			inside = inside.Union(c.CPUs)
		}
		if o.Type != TypePU && !inside.Equal(o.CPUs) && o.Type != TypeNUMANode {
			t.Fatalf("%s: %s of it is in nothing", tree(o), o.CPUs.Sub(inside))
		}
	})
	if !pus.Equal(m.Root.CPUs) {
		t.Fatalf("hardware threads %s of %s", pus, m.Root.CPUs)
	}
	for typ := range numTypes {
		for i, o := range m.All(typ) {
			if o.Logical != i || o.Type != typ {
				t.Fatalf("%s %d is number %d of %s", o.Type, o.Logical, i, typ)
			}
		}
	}
	if m.AllowedCPUs.Empty() || m.AllowedNodes.Empty() || !m.Root.CPUs.Covers(m.AllowedCPUs) {
		t.Fatalf("allowed CPUs %s, nodes %s", m.AllowedCPUs, m.AllowedNodes)
	}
}

func TestMemoryOnlyNodes(t *testing.T) {
	m, err := New(Parts{Online: set("0-3"), Packages: []Part{part("0-1"), part("2-3")},
		Nodes: []NodePart{{OS: 0, CPUs: set("0-1")}, {OS: 1, CPUs: set("2-3")}, {OS: 2}, {OS: 3, Near: []int{0}}, {OS: 4}},
		Latency: &Latency{Nodes: []int{0, 1, 2, 3, 4}, Values: [][]uint64{
			{10, 21, 24, 14, 30}, {21, 10, 14, 24, 30}, {24, 14, 10, 40, 40}, {14, 24, 40, 10, 40}, {30, 30, 40, 40, 10}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	sound(t, m)
	for node, want := range []string{"0-1", "2-3", "2-3", "0-1", "0-3"} {
		for _, o := range m.All(TypeNUMANode) {
			if o.OS == node && o.CPUs.String() != want {
				t.Errorf("node %d is near %q, want %q", node, o.CPUs, want)
			}
		}
	}
}

func TestPCITree(t *testing.T) {
	at := func(text string) PCIDevice {
		a, err := ParsePCIAddr(text)
		if err != nil {
			t.Fatal(err)
		}
		return PCIDevice{Addr: a}
	}
	nic := at("0000:03:00.0").Addr
	m, err := New(Parts{Online: set("0-3"), Packages: []Part{part("0-1"), part("2-3")},
		PCI: []PCIPart{ // in no order
			{PCIDevice: at("0000:03:00.0")},
			{PCIDevice: at("0000:00:01.0"), Secondary: 1, Subordinate: 3, Near: set("2-3")},
			{PCIDevice: at("0000:02:00.0"), Secondary: 3, Subordinate: 3},
			{PCIDevice: at("0000:01:00.0"), Secondary: 2, Subordinate: 3},
			{PCIDevice: at("0000:80:00.0"), Secondary: 4, Subordinate: 5}, // not behind its own bus: a plain device
		},
		Devices: []DevicePart{{Kind: OSDevNetwork, Name: "ib0", At: &nic}, {Kind: OSDevNetwork, Name: "eth0", Node: NoIndex}},
	})
	if err != nil {
		t.Fatal(err)
	}
	sound(t, m)
	want := "Machine:0-3+[NUMANode:0-3] [Package:0-1] [Package:2-3~[Bridge~[Bridge~[Bridge~[Bridge~[PCIDev~[OSDev]]]]]]]~[Bridge~[PCIDev]]~[OSDev]"
	if got := tree(m.Root); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if d := m.Device(nic); d == nil || d.IO[0].Name != "ib0" || d.Parent.Bridge.Depth != 3 {
		t.Errorf("device %+v", d)
	}
	if got := m.Device(nic).Place().CPUs.String(); got != "2-3" {
		t.Errorf("near the NIC: %q", got)
	}
	if o := m.Device(PCIAddr{Bus: 9}); o != nil {
		t.Errorf("found what is not there: %v", o)
	}
}

func TestNewRefuses(t *testing.T) {
	square := func(n int) *Latency {
		return &Latency{Nodes: make([]int, n), Values: slices.Repeat([][]uint64{make([]uint64, n)}, n)}
	}
	short := square(2)
	short.Values[1] = nil
	for _, tt := range []struct {
		name, want string
		parts      Parts
	}{
		{"no CPU", "no CPU is online", Parts{Present: set("0")}},
		{"CPU out of range", "CPU 8192 is above 8191", Parts{Online: set("8192")}},
		{"node twice", "NUMA node 1 is out of range or there twice", Parts{Online: set("0"), Nodes: []NodePart{{OS: 1}, {OS: 1}}}},
		{"node out of range", "NUMA node 1024 is out of range", Parts{Online: set("0"), Nodes: []NodePart{{OS: 1024}}}},
		{"too many", "cores; 65536 are possible", Parts{Online: set("0"), Cores: make([]Part, 1<<17)}},
		{"distances without rows", "distances of 1 nodes in 0 rows", Parts{Online: set("0"), Latency: &Latency{Nodes: []int{0}}}},
		{"short row", "distances of 2 nodes in a row of 0", Parts{Online: set("0"), Latency: short}},
	} {
		if _, err := New(tt.parts); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}

func TestPCIAddr(t *testing.T) {
	for _, text := range []string{"0000:00:00.0", "0000:ff:1f.7", "10000:e1:00.0", "ffffffff:01:02.3"} {
		a, err := ParsePCIAddr(text)
		if err != nil || a.String() != text {
			t.Errorf("%s: %s, %v", text, a, err)
		}
	}
	for _, text := range []string{"", "00:00.0", "000:00:00.0", "0000:00:20.0", "0000:00:00.8", "0000:00:00", "0000-00:00.0",
		"0000:0g:00.0", "+000:00:00.0", "100000000:00:00.0", "0000:00:00.0 "} {
		if a, err := ParsePCIAddr(text); err == nil {
			t.Errorf("%q was read as %s", text, a)
		} else if want := fmt.Sprintf("%q is not a PCI address like 0000:3b:00.1", text); err.Error() != want {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestTypeNames(t *testing.T) {
	for typ := range numTypes {
		if s := typ.String(); s == "" {
			t.Errorf("type %d has no name", typ)
		}
	}
}
