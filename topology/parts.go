package topology

import (
	"fmt"

	"github.com/mpiup/mpiup/internal/idset"
)

// Parts is a machine in flat pieces, as the kernel tells of it. Sets may hold CPUs that are not
// online; New leaves those out.
type Parts struct {
	Present  idset.Set // CPUs that exist
	Online   idset.Set // those that run, each becomes a PU
	Packages []Part
	Dies     []Part
	Clusters []Part
	Cores    []Part
	Caches   []CachePart
	Nodes    []NodePart // none: New makes one of all CPUs
	Latency  *Latency   // only where it has all of Nodes
	PCI      []PCIPart
	Devices  []DevicePart
	Kinds    []CPUKind
	Memory   Memory // of the node that New makes

	AllowedCPUs  idset.Set // empty: all
	AllowedNodes idset.Set // empty: all
	Affinity     idset.Set

	Hardware []Info // of the machine
}

// Part is one package, die, cluster or core.
type Part struct {
	OS    int
	CPUs  idset.Set
	Infos []Info
}

// CachePart is one cache and who shares it.
type CachePart struct {
	Cache
	OS   int
	CPUs idset.Set
}

// NodePart is one NUMA node.
type NodePart struct {
	Memory
	OS    int
	CPUs  idset.Set // near it; empty of a node of memory only
	Near  []int     // nodes whose CPUs reach a node without CPUs fastest; none: by distance
	Kind  string    // GPUMemory; "" of main memory
	Infos []Info
}

// PCIPart is one PCI function.
type PCIPart struct {
	PCIDevice
	Secondary, Subordinate uint8     // buses behind a PCI bridge; Secondary 0: no bridge
	Near                   idset.Set // CPUs; asked of the first function of each host bridge only
}

// DevicePart is one OS device: a network interface or an InfiniBand device.
type DevicePart struct {
	Kind  OSDevKind
	Name  string
	At    *PCIAddr // its PCI function; nil: none
	Node  int      // its NUMA node where At is nil; negative: unknown
	Infos []Info
}

// Limits of a machine. Linux can be built for 8,192 CPUs and 1,024 nodes.
const (
	maxCPU     = 1<<13 - 1
	maxNode    = 1<<10 - 1
	maxObjects = 1 << 16 // of one kind of part
)

// check refuses what no machine has, before anything is allocated for it.
func (p *Parts) check() error {
	if p.Online.Empty() {
		return fmt.Errorf("no CPU is online")
	}
	if last := max(p.Present.Last(), p.Online.Last()); last > maxCPU {
		return fmt.Errorf("CPU %d is above %d", last, maxCPU)
	}
	for _, kind := range []struct {
		name string
		n    int
	}{{"packages", len(p.Packages)}, {"dies", len(p.Dies)}, {"clusters", len(p.Clusters)}, {"cores", len(p.Cores)},
		{"caches", len(p.Caches)}, {"PCI devices", len(p.PCI)}, {"devices", len(p.Devices)}} {
		if kind.n > maxObjects {
			return fmt.Errorf("%d %s; %d are possible", kind.n, kind.name, maxObjects)
		}
	}
	seen := make(map[int]bool, len(p.Nodes))
	for _, n := range p.Nodes {
		if n.OS < 0 || n.OS > maxNode || seen[n.OS] {
			return fmt.Errorf("NUMA node %d is out of range or there twice", n.OS)
		}
		seen[n.OS] = true
	}
	if l := p.Latency; l != nil {
		if len(l.Nodes) != len(l.Values) {
			return fmt.Errorf("distances of %d nodes in %d rows", len(l.Nodes), len(l.Values))
		}
		for _, row := range l.Values {
			if len(row) != len(l.Nodes) {
				return fmt.Errorf("distances of %d nodes in a row of %d", len(l.Nodes), len(row))
			}
		}
	}
	return nil
}
