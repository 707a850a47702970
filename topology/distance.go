package topology

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Distance is how far two PCI functions are from each other, in the words of nvidia-smi topo -m.
// Less is nearer.
type Distance uint8

// The distances. What nvidia-smi calls NV#, a link that is not PCI's, is package gpu's.
const (
	Same       Distance = iota // one function: "X"
	PIX                        // at most one PCI bridge, or one switch, between them
	PXB                        // several bridges or switches, and no host bridge
	PHB                        // one host bridge: through the processor
	NODE                       // several host bridges of one NUMA node
	SYS                        // the link between NUMA nodes
	NoDistance                 // nothing is known of one of them
)

var distanceNames = [...]string{"X", "PIX", "PXB", "PHB", "NODE", "SYS", "?"}

// String is nvidia-smi's word.
func (d Distance) String() string { return distanceNames[d] }

// PCIPath is where a PCI function hangs. The zero PCIPath is nowhere.
type PCIPath struct {
	Host string    // host bridge, "pci0000:3a"
	Way  []PCIAddr // bridges from there downwards, then the function itself
	Node int       // its NUMA node; NoIndex: unknown
}

// maxPCIDepth bounds bridges on a path. A PCI domain has 256 buses.
const maxPCIDepth = 256

// ParsePCIPath reads the directory of a function below /sys/devices, the target of its link in
// /sys/bus/pci/devices:
//
//	../../../devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0
//
// Only the last host bridge counts: Intel's VMD has one below a function of another domain.
func ParsePCIPath(link string, node int) (PCIPath, error) {
	p := PCIPath{Node: node}
	for part := range strings.SplitSeq(link, "/") {
		if at, err := ParsePCIAddr(part); err == nil {
			p.Way = append(p.Way, at)
		} else if strings.HasPrefix(part, "pci") && strings.Contains(part, ":") {
			p.Host, p.Way = part, nil
		}
	}
	switch {
	case len(p.Way) == 0:
		return PCIPath{}, fmt.Errorf("%.80q is no path of a PCI function", link)
	case len(p.Way) > maxPCIDepth:
		return PCIPath{}, errors.New("a path through more PCI bridges than there are buses")
	}
	return p, nil
}

// PCIPath is where the function at an address hangs, by the numbers of its buses; false without
// one.
func (m *Machine) PCIPath(at PCIAddr) (PCIPath, bool) {
	o := m.Device(at)
	if o == nil {
		return PCIPath{}, false
	}
	p := PCIPath{Node: NoIndex}
	for ; o != nil && o.Type.IO(); o = o.Parent {
		switch {
		case o.PCI != nil:
			p.Way = append(p.Way, o.PCI.Addr)
		case o.Bridge != nil:
			p.Host = fmt.Sprintf("pci%04x:%02x", o.Bridge.Domain, o.Bridge.Secondary)
		}
	}
	slices.Reverse(p.Way)
	if o != nil && o.Nodes.Len() == 1 {
		p.Node = o.Nodes.First()
	}
	return p, true
}

// At is the function's own address; zero of the zero path.
func (p PCIPath) At() PCIAddr {
	if len(p.Way) == 0 {
		return PCIAddr{}
	}
	return p.Way[len(p.Way)-1]
}

// To is the distance between two functions. A switch is two bridges: its port upwards and one of its ports downwards.
// So a function directly at a switch has one bridge below what two such functions share.
func (p PCIPath) To(q PCIPath) Distance {
	if len(p.Way) == 0 || len(q.Way) == 0 {
		return NoDistance
	}
	if p.Host != q.Host || p.Host == "" {
		switch {
		case p.Host == q.Host && p.At() == q.At():
			return Same
		case p.Node == q.Node: // also where the kernel knows no NUMA nodes: then there is one, as NCCL takes it
			return NODE
		}
		return SYS
	}
	shared := 0
	for shared < min(len(p.Way), len(q.Way)) && p.Way[shared] == q.Way[shared] {
		shared++
	}
	below := max(len(p.Way), len(q.Way)) - shared // the function included
	switch {
	case below == 0:
		return Same
	case shared == 0:
		return PHB
	case below <= 2:
		return PIX
	}
	return PXB
}
