package topology

import "testing"

func TestDistance(t *testing.T) {
	const (
		root   = "../../../devices/pci0000:3a/0000:3a:00.0/"
		up     = root + "0000:3b:00.0/"              // a switch's port upwards
		port1  = up + "0000:3c:00.0/"                // two of its ports downwards
		port2  = up + "0000:3c:01.0/"                //
		gpu    = port1 + "0000:3d:00.0"              //
		hca    = port2 + "0000:3e:00.0"              //
		second = port2 + "0000:3e:00.1"              // of the same card
		inner  = port2 + "0000:3f:00.0/0000:40:00.0" // behind another switch
		deep   = inner + "/0000:41:00.0"
		direct = root + "0000:3b:00.1"
		other  = "../../../devices/pci0000:3a/0000:3a:01.0/0000:50:00.0"
		near   = "../../../devices/pci0000:5d/0000:5d:00.0/0000:5e:00.0"
		vmd    = "../../../devices/pci0000:5d/0000:5d:05.5/pci10000:00/10000:00:02.0/10000:01:00.0"
		bare   = "0001:00:00.0"
	)
	for _, tt := range []struct {
		name  string
		a, b  string
		nodes [2]int
		want  Distance
	}{
		{"itself", gpu, gpu, [2]int{0, 0}, Same},
		{"two functions of one card", hca, second, [2]int{0, 0}, PIX},
		{"two ports of one switch", gpu, hca, [2]int{0, 0}, PIX},
		{"one port of a root complex", gpu, direct, [2]int{0, 0}, PXB},
		{"a switch behind a switch", gpu, deep, [2]int{0, 0}, PXB},
		{"two root ports", gpu, other, [2]int{0, 0}, PHB},
		{"two root ports, nodes unknown", gpu, other, [2]int{-1, -1}, PHB},
		{"two host bridges of a node", gpu, near, [2]int{1, 1}, NODE},
		{"two nodes", gpu, near, [2]int{0, 1}, SYS},
		{"one node, which the kernel does not number", gpu, near, [2]int{-1, -1}, NODE},
		{"the node of one unknown", gpu, near, [2]int{0, -1}, SYS},
		{"behind a volume manager", near, vmd, [2]int{0, 0}, NODE},
		{"no host bridge in the path", bare, bare, [2]int{0, 0}, Same},
	} {
		a, err := ParsePCIPath(tt.a, tt.nodes[0])
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		b, err := ParsePCIPath(tt.b, tt.nodes[1])
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		if got, back := a.To(b), b.To(a); got != tt.want || back != tt.want {
			t.Errorf("%s: %s and back %s, want %s", tt.name, got, back, tt.want)
		}
	}
	if got := (PCIPath{}).To(PCIPath{}); got != NoDistance {
		t.Errorf("nowhere to nowhere: %s", got)
	}
}

func TestParsePCIPath(t *testing.T) {
	p, err := ParsePCIPath("../../../devices/pci0000:5d/0000:5d:05.5/pci10000:00/10000:00:02.0/10000:01:00.0", 1)
	if err != nil || p.Host != "pci10000:00" || len(p.Way) != 2 || p.At().String() != "10000:01:00.0" {
		t.Errorf("%+v, %v", p, err)
	}
	for _, bad := range []string{"", "/", "../../../devices/platform/soc", "../../devices/pci0000:00"} {
		if p, err := ParsePCIPath(bad, 0); err == nil {
			t.Errorf("%q: %+v", bad, p)
		}
	}
}
